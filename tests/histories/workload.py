"""Runs a history: client processes that are killed and replaced, the housekeeper at work; and judges it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path

from sqlalchemy import Connection, delete, select

from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import StoreUnavailableError
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.schema import txn_components, txns
from tests.histories import client as client_module
from tests.histories.checker import Anomaly, Finding, Report, check
from tests.histories.client import CLUSTER, DATABASE, LISTS, SETS, Client, open_warehouse, read_everything
from tests.histories.history import Progress, Recorder, Status, Transaction, load
from tests.processes import ClientProcess

_HOUSEKEEPER_EVERY_S = 0.5
_HISTORIES = "histories"


@dataclass(frozen=True)
class Workload:
    """How much is done, and what goes wrong meanwhile.

    ``kills`` clients are killed, and ``disturb`` is called ``disturbances`` times, after equal shares of the work.
    """

    url: str
    folder: Path
    transactions: int
    clients: int = 8
    kills: int = 0
    seed: int = 1
    plant: Callable[[], None] | None = None
    keys: int = 4
    generation: int = 500
    slow: float = 0.01
    parked: float = 0.01
    reading: float = 0.6
    disturb: Callable[[], None] | None = None
    disturbances: int = 0
    deadline_s: float = 240


@dataclass
class Outcome:
    """What a workload has brought."""

    report: Report
    history: list[Transaction]
    seconds: float
    kills: int = 0
    reaped: set[int] = field(default_factory=set)
    looked_up: Counter[str] = field(default_factory=Counter)
    disturbances: list[int] = field(default_factory=list)

    @property
    def errors(self) -> Counter[str]:
        """How often transactions ended with which error."""
        return Counter(each.error for each in self.history if each.error is not None)

    def describe(self) -> str:
        """The counts, in a few lines."""
        report, errors = self.report, self.errors
        codes = {
            "WRITE_CONFLICT": "write conflicts",
            "DEADLOCK": "deadlocks",
            "STORE_UNAVAILABLE": "without database",
            "PLANNED": "as planned",
        }
        why = ", ".join(f"{errors[code]} {words}" for code, words in codes.items() if errors[code])
        looked_up = ", ".join(f"{count} {state}" for state, count in sorted(self.looked_up.items()))
        edges = ", ".join(f"{count} {kind}" for kind, count in sorted(report.edges.items()))
        return (
            f"{len(self.history)} transactions in {self.seconds:.0f} s: {report.committed} committed, "
            f"{report.aborted} aborted ({why}), {len(self.reaped)} reaped, {self.kills} kill -9, "
            f"unknown outcomes looked up: {looked_up or 'none'}\n"
            f"  {report.reads} reads, {report.elements} elements written, edges: {edges}; "
            f"{report.write_skews} write skews, {len(report.long_forks)} long forks, {len(report.findings)} anomalies"
        )


def run(workload: Workload) -> Outcome:
    """Run the clients until all have done their part, then read everything, and check it.

    Raises:
        TimeoutError: that took longer than ``deadline_s``; all processes are ended.
    """
    began = time.monotonic()
    folder = workload.folder / _HISTORIES
    folder.mkdir(parents=True)
    time_of_round = _TimeOfRound()
    with open_warehouse(workload.url, workload.folder, clock=time_of_round) as metastore:
        create_tables(metastore)
        with _Clients(workload, metastore, time_of_round) as clients:
            clients.run()
        reaped, ledger = clients.reaped, clients.ledger
        # What killed clients have left open has timed out an hour later.
        with open_warehouse(workload.url, workload.folder, clock=lambda: system_clock() + 3_600_000) as later:
            reaped |= set(later.transactions.abort_timed_out())
        ledger.read()
        recorder = Recorder(folder / "final.jsonl")
        read_everything(metastore, workload.folder, recorder)
        recorder.close()
    seconds = time.monotonic() - began
    recorded = [transaction for path in sorted(folder.iterdir()) for transaction in load(path)]
    settled = [ledger.settle(transaction) for transaction in recorded]
    history = [transaction for transaction, _ in settled]
    looked_up = Counter(
        known.status.value for known, before in zip(history, recorded, strict=True) if before.status is Status.UNKNOWN
    )
    report = check(history, reaped=reaped)
    report.findings += [finding for _, finding in settled if finding is not None]
    return Outcome(report, history, seconds, clients.kills, reaped, looked_up, clients.disturbances)


class _TimeOfRound:
    """The clock of the process that keeps house, set on when a round begins.

    The records of ended transactions are removed after their time-out, and a round may take longer than that: with
    the clock running, it would remove outcomes that were not noted yet.
    """

    def __init__(self) -> None:
        self.go_on()

    def __call__(self) -> int:
        return self._now

    def go_on(self) -> None:
        """It is as late as it is."""
        self._now = system_clock()


class _Clients:
    """The client processes, and what is done to them."""

    def __init__(self, workload: Workload, metastore: Metastore, time_of_round: _TimeOfRound) -> None:
        self._workload = workload
        self._metastore = metastore
        self._time_of_round = time_of_round
        self._rng = random.Random(workload.seed)
        self._running: dict[str, tuple[Client, ClientProcess]] = {}
        self._progress = Progress(workload.folder / _HISTORIES)
        self._housekeeper_at = self._start = time.monotonic()
        self.disturbances: list[int] = []
        self.ledger = Ledger(metastore)
        self.kills = 0
        self.reaped: set[int] = set()

    def __enter__(self) -> _Clients:
        share, rest = divmod(self._workload.transactions, self._workload.clients)
        for number in range(self._workload.clients):
            client = Client(
                name=f"c{number}",
                number=number,
                url=self._workload.url,
                folder=self._workload.folder,
                transactions=share + (number < rest),
                seed=self._workload.seed * 100 + number,
                plant=self._workload.plant,
                keys=self._workload.keys,
                generation=self._workload.generation,
                slow=self._workload.slow,
                parked=self._workload.parked,
                reading=self._workload.reading,
            )
            self._begin(client)
        return self

    def __exit__(self, *exception: object) -> None:
        for _, process in self._running.values():
            process.kill()

    def run(self) -> None:
        """Until all are done: kill some and replace them, and let the housekeeper work."""
        while self._running:
            wait([process.sentinel for _, process in self._running.values()], timeout=0.1)
            for name, (_, process) in list(self._running.items()):
                if not process.is_alive:
                    code = process.wait()
                    assert code == 0, f"client {name} ended with {code}:\n{process.error()}"
                    del self._running[name]
            now = time.monotonic()
            if now - self._start > self._workload.deadline_s:
                raise TimeoutError(f"the clients are not done after {self._workload.deadline_s:g} s")
            done = self._progress.count() / self._workload.transactions
            if self._running and 1 > done >= (self.kills + 1) / (self._workload.kills + 1):
                self._kill_one()
            if self._running and 1 > done >= (len(self.disturbances) + 1) / (self._workload.disturbances + 1):
                self._disturb()
            if now >= self._housekeeper_at:
                with suppress(StoreUnavailableError):
                    self._keep_house()
                self._housekeeper_at = now + _HOUSEKEEPER_EVERY_S

    def _begin(self, client: Client) -> None:
        log = self._workload.folder / f"{client.name}.{self.kills}.log"
        self._running[client.name] = (client, ClientProcess(client_module.run, client, log=log))

    def _kill_one(self) -> None:
        name = self._rng.choice(sorted(self._running))
        client, process = self._running[name]
        process.kill()
        self.kills += 1
        self._begin(client)

    def _disturb(self) -> None:
        if self._workload.disturb is not None:
            self._workload.disturb()
            self.disturbances.append(time.monotonic_ns())

    def _keep_house(self) -> None:
        # What ends from here on is not old enough to be removed in this round.
        self._time_of_round.go_on()
        self.ledger.read()
        self.reaped |= set(self._metastore.housekeeper.run().aborted)
        self._metastore.services.store.write(_forget_aborted_components)


class Ledger:
    """How transactions have ended, as the metastore says, kept beyond the time that the metastore keeps it."""

    def __init__(self, metastore: Metastore) -> None:
        self._store = metastore.services.store
        self.ended: dict[int, tuple[TxnState, int]] = {}
        self.changed: set[int] = set()

    def read(self) -> None:
        """Take note of those that have ended, and of when that was known."""
        with self._store.read() as connection:
            rows = connection.execute(select(txns.c.id, txns.c.state).where(txns.c.state != TxnState.OPEN.value)).all()
        now_ns = time.monotonic_ns()
        for txn_id, letter in rows:
            state, _ = self.ended.setdefault(txn_id, (TxnState(letter), now_ns))
            if state is not TxnState(letter):
                self.changed.add(txn_id)

    def settle(self, transaction: Transaction) -> tuple[Transaction, Finding | None]:
        """A transaction with the outcome that the metastore has, and the fault in the answer that its client got."""
        if transaction.txn_id not in self.ended:
            return transaction, None
        state, known_ns = self.ended[transaction.txn_id]
        status = Status.COMMITTED if state is TxnState.COMMITTED else Status.ABORTED
        if transaction.ended_ns is None:
            return replace(transaction, status=status, ended_ns=known_ns), None
        if status is transaction.status and transaction.txn_id not in self.changed:
            return transaction, None
        sentence = f"{transaction.name} (transaction {transaction.txn_id}) got {transaction.status.value}"
        return transaction, Finding(Anomaly.WRONG_OUTCOME, sentence)


def _forget_aborted_components(connection: Connection) -> None:
    """What a cleaner does once the files of an aborted transaction are gone; these were never registered."""
    aborted = select(txns.c.id).where(txns.c.state == TxnState.ABORTED.value)
    connection.execute(delete(txn_components).where(txn_components.c.txn_id.in_(aborted)))


def create_tables(metastore: Metastore) -> None:
    for name in (*LISTS, SETS):
        storage = StorageDescriptor((Column("e", "bigint"),), ClusterStorageDescriptor(CLUSTER, ""))
        keys = (Column("k", "string"),)
        metastore.catalog.create_table(Table(DATABASE, name, storage, keys, parameters={"transactional": "true"}))
