"""A client process of the history test: transactions on lists and sets through the core, without Spark.

A list is a partition of a table: an append reads the whole list and writes a new base directory with
the whole new list in one file, which counts as an update. A set is a partition of another table: an addition
is a delta directory with one element, which counts as an insert. Readers find the directories that
their snapshot shows in the metastore, as statements do, and read the files.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import tenacity
from sqlalchemy import Connection, bindparam, select

from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    LockTimeoutError,
    StoreUnavailableError,
    TransactionError,
)
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.directories import directory_state
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.store.schema import directories, partitions
from tests.histories.history import (
    Operation,
    Recorder,
    Status,
    add,
    append,
    finished,
    next_number,
    read,
    read_set,
)

LISTS = ("list_a", "list_b", "list_c", "list_d")
SETS = "sets"
DATABASE = "default"
CLUSTER = "c1"
_FILE = "elements"
_PAUSE_S = 0.1
_UNAVAILABLE_PAUSE_S = 0.3
_PARKED_TIMEOUT_S = 1
_PARKED_S = 1.7
_EXCLUSIVE = (LockType.EXCL_WRITE, LockType.EXCLUSIVE)
_NUMBERS_PER_TRANSACTION = 8
READERS = 16
"""How many read-only transactions are opened by one call."""

Key = tuple[str, str]
Elements = tuple[int, ...]
WriteIds = dict[str, ValidWriteIdList]
Lists = dict[Key, Elements]


@dataclass(frozen=True)
class Client:
    """The orders of a client process: the place of the warehouse, the amount of work, and a bug to ``plant``.

    Keys change with the ids of transactions: ``keys`` of each table serve ``generation`` ids, so that lists
    stay short and clients meet on the same ones. ``slow`` is the share of readers that take their time,
    ``parked`` that of transactions that are left open for longer than their time-out, and ``reading`` that of
    transactions that only read.
    """

    name: str
    number: int
    url: str
    folder: Path
    transactions: int
    seed: int
    plant: Callable[[], None] | None = None
    keys: int = 4
    generation: int = 500
    slow: float = 0.01
    parked: float = 0.01
    reading: float = 0.6
    timeout_s: int = 3

    @property
    def history(self) -> Path:
        """The file that this client and those who replaced it write to."""
        return self.folder / "histories" / f"{self.name}.jsonl"

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailableError),
        wait=tenacity.wait_fixed(0.1),
        stop=tenacity.stop_after_delay(30),
        reraise=True,
    )
    def open(self) -> tuple[Metastore, Reader]:
        """The warehouse, opened by this process as soon as its database answers."""
        metastore = open_warehouse(self.url, self.folder)
        try:
            return metastore, Reader(metastore, self.folder)
        except StoreUnavailableError:
            metastore.close()
            raise


def open_warehouse(url: str, folder: Path, **arguments: object) -> Metastore:
    """The warehouse of a history test."""
    clusters = {CLUSTER: {"filesystem": (folder / CLUSTER).as_uri(), "jobtracker": "local[1]"}}
    return Metastore.open(url, clusters=clusters, **arguments)  # type: ignore[arg-type]


def run(client: Client) -> None:
    """The main function of a client process: goes on where the one that it replaces was killed."""
    if client.plant is not None:
        client.plant()
    done, number = finished(client.history), next_number(client.history)
    rng = random.Random(client.seed * 1_000_003 + number)
    recorder = Recorder(client.history)
    metastore, reader = client.open()
    with metastore:
        work = Work(client, metastore, reader, recorder, rng)
        while done < client.transactions:
            done += work.one(number)
            number += 1
        work.end_parked()
    recorder.close()


@dataclass
class Running:
    """A transaction of a client: its snapshot, what it has seen, and what it will register."""

    number: int
    txn_id: int = 0
    snapshot: ValidTxnList = field(default_factory=lambda: ValidTxnList(0))
    operations: list[Operation] = field(default_factory=list)
    write_ids: dict[str, int] = field(default_factory=dict)
    written: dict[Key, Write] = field(default_factory=dict)
    seen: dict[Key, Elements] = field(default_factory=dict)
    exclusive: bool = False
    elements: int = 0


_DIRECTORIES = (
    select(partitions.c.name.label("partition"), partitions.c.location, directories.c.name)
    .join(directories, directories.c.partition_id == partitions.c.id)
    .where(partitions.c.table_id == bindparam("table"))
)
_DIRECTORIES_OF_SOME = _DIRECTORIES.where(partitions.c.name.in_(bindparam("partitions", expanding=True)))


class Reader:
    """Reads lists and sets in a snapshot: what ``catalog.bound_tables`` does, in one statement a table."""

    def __init__(self, metastore: Metastore, folder: Path) -> None:
        self._store = metastore.services.store
        self._transactions = metastore.transactions
        self.root = folder / CLUSTER
        self.tables = {name: metastore.catalog.get_table(DATABASE, name) for name in (*LISTS, SETS)}

    def write_ids(self, names: Iterable[str], snapshot: ValidTxnList) -> WriteIds:
        """The write id lists by table name."""
        full = [f"{DATABASE}.{name}" for name in names]
        lists = self._transactions.valid_write_ids(full, snapshot)
        return {name.partition(".")[2]: found for name, found in lists.items()}

    def read(self, name: str, keys: Sequence[str] | None, write_ids: WriteIds, snapshot: ValidTxnList) -> Lists:
        """The elements by key, empty for unwritten ones; without ``keys`` of all there are."""
        wanted: dict[str, object] = {"table": self.tables[name].id}
        if keys is not None:
            wanted["partitions"] = [f"k={key}" for key in keys]
        registered: dict[tuple[str, str], list[str]] = defaultdict(list)
        with self._store.read() as connection:
            for row in connection.execute(_DIRECTORIES if keys is None else _DIRECTORIES_OF_SOME, wanted):
                registered[row.partition[2:], row.location].append(row.name)
        found: Lists = {(name, key): () for key in keys or ()}
        for (key, location), names in registered.items():
            state = directory_state(names, write_ids[name], snapshot)
            for directory in (*((state.base,) if state.base else ()), *state.deltas):
                found[name, key] = found.get((name, key), ()) + read_elements(self.root / location / directory)
        return found


def read_elements(directory: Path) -> Elements:
    """What the file of a written directory holds."""
    return tuple(json.loads((directory / _FILE).read_bytes()))


def write_elements(directory: Path, elements: Sequence[int]) -> None:
    """Make a directory with its one file; a file that is there already is replaced at once."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f"_{_FILE}_{os.getpid()}"
    temporary.write_text(json.dumps(elements))
    temporary.replace(directory / _FILE)


class Work:
    """The transactions of one client."""

    def __init__(
        self, client: Client, metastore: Metastore, reader: Reader, recorder: Recorder, rng: random.Random
    ) -> None:
        self._client = client
        self._metastore = metastore
        self._transactions = metastore.transactions
        self._recorder = recorder
        self._rng = rng
        self._reader = reader
        self._parked: list[tuple[float, Running]] = []
        self._opened: list[tuple[int, int]] = []

    def one(self, number: int) -> int:
        """Run one transaction, and end one that was left open long enough; return how many have ended."""
        dice = self._rng.random()
        ended = 1
        if dice < self._client.parked:
            ended = self._park(number)
        elif dice < 0.15:
            self._attempt(number, self._read_only)
        elif dice < self._client.reading:
            self._attempt(number, self._read_only, TxnType.READ_ONLY)
        elif dice < self._client.reading + (1 - self._client.reading) * 0.5:
            self._attempt(number, self._append)
        elif dice < self._client.reading + (1 - self._client.reading) * 0.7:
            self._attempt(number, self._append_elsewhere)
        else:
            self._attempt(number, self._add)
        if self._parked and self._parked[0][0] < time.monotonic():
            self._end(self._parked.pop(0)[1])
            ended += 1
        return ended

    def end_parked(self) -> None:
        """End what was left open, when its time has come."""
        for at, running in self._parked:
            # It is this time that is to pass: the transaction may be reaped in it.
            time.sleep(max(0, at - time.monotonic()))
            self._end(running)
        with suppress(StoreUnavailableError):
            self._transactions.abort_many([txn_id for txn_id, _ in self._opened])

    # -- kinds of transactions --------------------------------------------------------

    def _read_only(self, running: Running) -> None:
        keys = [(name, self._key(running)) for name in self._rng.sample(LISTS, self._rng.choice((1, 1, 2)))]
        if self._rng.random() < 0.3:
            keys.append((keys[0][0], self._key(running)))
        if self._rng.random() < 0.2:
            keys.append((SETS, self._key(running)))
        keys = list(dict.fromkeys(keys))
        slow = self._rng.random() < self._client.slow
        self._read(running, keys, pause_s=_PAUSE_S if slow else 0)
        if slow or self._rng.random() < 0.1:
            # The same snapshot, asked for again: later commits and the housekeeper must not change it.
            self._read(running, keys[:1])

    def _append(self, running: Running) -> None:
        targets = [(name, self._key(running)) for name in self._rng.sample(LISTS, self._rng.choice((1, 1, 1, 2, 2, 3)))]
        if self._rng.random() < 0.15:
            targets.append((targets[0][0], self._key(running)))
        targets = list(dict.fromkeys(targets))
        self._lock(running, targets)
        self._read(running, targets)
        for key in targets:
            self._write_list(running, key)
        if self._rng.random() < 0.1:
            self._write_list(running, targets[0])
        if self._rng.random() < 0.1:
            self._write_set(running, self._key(running))
        if self._rng.random() < 0.1:
            self._read_own(running, targets[0])
        if self._rng.random() < 0.1:
            self._transactions.heartbeat(running.txn_id)

    def _append_elsewhere(self, running: Running) -> None:
        """Append to one list on the ground of another, which others may change: a write skew may come of it.

        It takes two who have the same lists the other way round. Among all lists they meet a few times in a long
        history, and in some not at all; so half of them have the same two.
        """
        target, other = [(name, self._key(running)) for name in self._rng.sample(LISTS, 2)]
        if self._rng.random() < 0.5:
            target, other = [(name, self._key(running, 1)) for name in self._rng.sample(LISTS[:2], 2)]
        self._lock(running, [target])
        self._read(running, [target, other])
        self._write_list(running, target)

    def _add(self, running: Running) -> None:
        key = self._key(running)
        component = LockComponent(DATABASE, SETS, f"k={key}", LockType.SHARED_READ, DataOperation.INSERT)
        self._acquire(running, [component])
        if self._rng.random() < 0.2:
            self._read(running, [(self._rng.choice(LISTS), key)])
        self._write_set(running, key)

    # -- life -------------------------------------------------------------------------

    def _attempt(self, number: int, body: Callable[[Running], None], kind: TxnType = TxnType.DEFAULT) -> None:
        running = Running(number)
        with self._recorded(running):
            self._open(running, self._client.timeout_s, kind)
            body(running)
            if self._rng.random() < 0.03:
                self._recorder.done(number, running.operations, commit=False)
                self._transactions.abort(running.txn_id, "as planned")
                self._recorder.ended(number, Status.ABORTED, "PLANNED")
                return
            self._commit(running)

    def _park(self, number: int) -> int:
        """Leave a transaction with a short time-out open, to be committed when it may have been reaped."""
        running = Running(number)
        with self._recorded(running):
            self._open(running, _PARKED_TIMEOUT_S, TxnType.DEFAULT)
            # Its locks are in the way of others until it is reaped.
            if self._rng.random() < 0.9:
                self._add(running)
            else:
                self._append(running)
            self._parked.append((time.monotonic() + _PARKED_S, running))
            return 0
        return 1

    def _end(self, running: Running) -> None:
        with self._recorded(running):
            self._commit(running)

    @contextmanager
    def _recorded(self, running: Running) -> Iterator[None]:
        """An error of the transaction is its end; it is aborted then, and its client gets the reason."""
        try:
            yield
        except CommitOutcomeUnknownError as error:
            self._recorder.ended(running.number, Status.UNKNOWN, error.code)
        except (TransactionError, LockTimeoutError, StoreUnavailableError) as error:
            if running.txn_id:
                with suppress(TransactionError, StoreUnavailableError):
                    self._transactions.abort(running.txn_id, error.code)
            self._recorder.ended(running.number, Status.ABORTED, error.code)
            if isinstance(error, StoreUnavailableError):
                # As a client does; without, the history would fill with refusals while the database is away.
                time.sleep(_UNAVAILABLE_PAUSE_S)

    def _open(self, running: Running, timeout_s: int, kind: TxnType) -> None:
        if kind is TxnType.READ_ONLY:
            running.txn_id = self._next_reader(running.number, timeout_s)
        else:
            self._recorder.begin(running.number)
            (running.txn_id,) = self._transactions.open(user=self._client.name, timeout=timeout_s, type=kind)
        self._recorder.opened(running.number, running.txn_id)
        running.snapshot = self._transactions.valid_txns(running.txn_id)

    def _next_reader(self, number: int, timeout_s: int) -> int:
        """One of several transactions that are opened by one call and used one after the other."""
        if self._opened:
            txn_id, began_ns = self._opened.pop(0)
            self._recorder.begin(number, began_ns)
            return txn_id
        began_ns = time.monotonic_ns()
        self._recorder.begin(number, began_ns)
        first, *others = self._transactions.open(
            READERS, user=self._client.name, timeout=timeout_s, type=TxnType.READ_ONLY
        )
        self._opened = [(txn_id, began_ns) for txn_id in others]
        return first

    def _commit(self, running: Running) -> None:
        self._recorder.done(running.number, running.operations, commit=True)
        self._transactions.commit(running.txn_id, self.changes(running), exclusive_write_locks=running.exclusive)
        self._recorder.ended(running.number, Status.COMMITTED)

    def changes(self, running: Running) -> Callable[[Connection], None] | None:
        """What a commit does besides: it makes known what was written."""
        if not running.written:
            return None

        def register(connection: Connection) -> None:
            for key, write in running.written.items():
                self.register(connection, running, key, write)

        return register

    def register(self, connection: Connection, running: Running, key: Key, write: Write) -> None:
        """Make one written directory known."""
        made = WrittenDirectory(f"k={key[1]}", (key[1],), _directory_name(write), files=1, rows=1, size_bytes=1)
        facts = TableWrite(running.txn_id, write.write_id, CLUSTER, write.statement_id, overwrite=write.overwrite)
        registration = Registration.of_write(self._reader.tables[key[0]], facts, [made])
        self._metastore.catalog.joining(connection).register(registration)

    # -- locks ------------------------------------------------------------------------

    def _lock(self, running: Running, targets: Sequence[Key]) -> None:
        """Lock partitions for update: mostly shared, so that the first committer wins, else exclusively."""
        dice = self._rng.random()
        kind = LockType.SHARED_WRITE if dice < 0.85 else LockType.EXCL_WRITE if dice < 0.97 else LockType.EXCLUSIVE
        components = [LockComponent(DATABASE, name, f"k={key}", kind, DataOperation.UPDATE) for name, key in targets]
        # In two requests two transactions may wait for each other.
        requests = [components[:1], components[1:]] if self._rng.random() < 0.4 else [components]
        for request in filter(None, requests):
            self._acquire(running, request)
        if kind in _EXCLUSIVE:
            # The locks keep others out from now on; what came before must be in the snapshot.
            running.snapshot = self._transactions.valid_txns(running.txn_id)
            names = sorted({f"{DATABASE}.{name}" for name, _ in targets})
            if self._transactions.written_since(names, running.snapshot):
                raise _SnapshotTooOldError
            running.exclusive = True

    def _acquire(self, running: Running, components: Sequence[LockComponent]) -> None:
        self._metastore.locks.acquire(components, running.txn_id, user=self._client.name, timeout=20)

    # -- operations -------------------------------------------------------------------

    def _key(self, running: Running, among: int | None = None) -> str:
        generation = running.txn_id // self._client.generation
        return str(generation * self._client.keys + self._rng.randrange(among or self._client.keys))

    def _read(self, running: Running, keys: Sequence[Key], *, pause_s: float = 0) -> None:
        by_table: dict[str, list[str]] = defaultdict(list)
        for name, key in keys:
            by_table[name].append(key)
        write_ids = self._reader.write_ids(by_table, running.snapshot)
        for name, names in by_table.items():
            function = read_set if name == SETS else read
            for key, elements in self._reader.read(name, names, write_ids, running.snapshot).items():
                running.seen[key] = elements
                running.operations.append(function("/".join(key), *elements))
            if pause_s:
                # A slow reader, during whose snapshot others commit.
                time.sleep(pause_s)

    def _write_list(self, running: Running, key: Key) -> None:
        element = self._element(running)
        running.seen[key] = (*running.seen[key], element)
        self.write(running, key, running.seen[key])
        running.operations.append(append("/".join(key), element))

    def _write_set(self, running: Running, key: str) -> None:
        element = self._element(running)
        self.write(running, (SETS, key), (element,))
        running.operations.append(add(f"{SETS}/{key}", element))

    def _read_own(self, running: Running, key: Key) -> None:
        """Read a list that was just written: its own directory is chosen by the rules that choose others'."""
        write_ids = self._reader.write_ids([key[0]], running.snapshot)[key[0]]
        own = running.written[key]
        visible = directory_state([_directory_name(own)], write_ids, running.snapshot).base is not None
        elements = read_elements(self._place(key, own)) if visible else ()
        running.operations.append(read("/".join(key), *elements))

    def write(self, running: Running, key: Key, elements: Sequence[int]) -> None:
        """Write one directory of a transaction."""
        name = key[0]
        if name not in running.write_ids:
            allocated = self._transactions.allocate_write_ids([running.txn_id], DATABASE, name)
            running.write_ids[name] = allocated[running.txn_id]
        table = self._reader.tables[name]
        write = Write(
            path="",
            table=table.full_name,
            columns=table.columns,
            partition_columns=table.partition_keys,
            write_id=running.write_ids[name],
            overwrite=name != SETS,
        )
        write_elements(self._place(key, write), elements)
        running.written[key] = write

    def _place(self, key: Key, write: Write) -> Path:
        location = self._reader.tables[key[0]].storage.primary.location
        return self._reader.root / location / f"k={key[1]}" / _directory_name(write)

    def _element(self, running: Running) -> int:
        running.elements += 1
        assert running.elements <= _NUMBERS_PER_TRANSACTION
        return (running.number * _NUMBERS_PER_TRANSACTION + running.elements) * 100 + self._client.number


class _SnapshotTooOldError(TransactionError):
    """Something was committed while the locks were waited for: to be tried again in a new transaction."""

    code = "SNAPSHOT_TOO_OLD"

    def __init__(self) -> None:
        super().__init__("the snapshot is too old")


def _directory_name(write: Write) -> str:
    if write.overwrite:
        return f"base_{write.write_id:07d}"
    return f"delta_{write.write_id:07d}_{write.write_id:07d}_{write.statement_id:04d}"


def read_everything(metastore: Metastore, folder: Path, recorder: Recorder) -> None:
    """One transaction that reads all lists and sets, for the end of a history."""
    reader = Reader(metastore, folder)
    number = 0
    recorder.begin(number)
    (txn_id,) = metastore.transactions.open(user="final", timeout=3600)
    recorder.opened(number, txn_id)
    snapshot = metastore.transactions.valid_txns(txn_id)
    write_ids = reader.write_ids([*LISTS, SETS], snapshot)
    operations = [
        (read_set if name == SETS else read)("/".join(key), *elements)
        for name in write_ids
        for key, elements in reader.read(name, None, write_ids, snapshot).items()
    ]
    recorder.done(number, operations, commit=True)
    metastore.transactions.commit(txn_id)
    recorder.ended(number, Status.COMMITTED)
