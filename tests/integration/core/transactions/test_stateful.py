"""The transaction manager and the lock table against a plain model, step by step, in random orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, update

from airflow_hivex.core.errors import (
    HivexError,
    LockOfOpenTransactionError,
    NoSuchLockError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
    WriteConflictError,
)
from airflow_hivex.core.model.locks import (
    HIVE_2_3,
    HIVE_4,
    DataOperation,
    LockComponent,
    LockMatrix,
    LockState,
    LockType,
    meet,
)
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import schema
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock

pytestmark = pytest.mark.usefixtures("warehouse")

TIMEOUT_S = 300
TABLES = ("tab1", "tab3")
LETTERS = {"i": DataOperation.INSERT, "u": DataOperation.UPDATE, "d": DataOperation.DELETE}
BEARS = {
    # The published tables of both matrices, written down once more: what a request does not wait for.
    "4": {"r": "rwx", "w": "rw", "x": "r", "e": ""},
    "2.3": {"r": "rw", "w": "r", "x": "", "e": ""},
}


@dataclass
class Txn:
    """What the model knows of a transaction."""

    state: str = "o"
    beat_ms: int = 0
    commit_id: int = 0
    write_ids: dict[str, int] = field(default_factory=dict)
    writes: set[tuple[str, str | None, str]] = field(default_factory=set)
    snapshot: tuple[Any, dict[str, list[bool]]] | None = None


@dataclass
class Request:
    """What the model knows of a request for locks."""

    txn_id: int | None
    components: list[LockComponent]
    granted: bool
    beat_ms: int


class Machine(RuleBasedStateMachine):
    """Every step is made on both sides, and both must answer the same."""

    store: ClassVar[Store]
    matrix: ClassVar[LockMatrix]

    @initialize()
    def begin(self) -> None:
        self.clock = Clock()
        options = Settings({"hivex.lock.matrix": self.matrix.name})
        self.transactions = TransactionManager(self.store, options, self.clock)
        self.locks = LockManager(self.store, options, self.clock, self.transactions)
        self.housekeeper = Housekeeper(self.store, options, self.clock, self.transactions, self.locks)
        self.txns: dict[int, Txn] = {}
        self.next_write_ids = dict.fromkeys(TABLES, 1)
        self.requests: dict[int, Request] = {}
        self.last_lock_id = 0

        def wipe(connection: Any) -> None:
            for table in (
                schema.locks,
                schema.write_set,
                schema.completed_txn_components,
                schema.txn_components,
                schema.txn_to_write_id,
                schema.txns,
            ):
                connection.execute(delete(table))
            connection.execute(update(schema.counters).where(schema.counters.c.name != "event").values(value=0))
            connection.execute(update(schema.next_write_ids).values(next=1))

        self.store.write(wipe)

    # -- transactions ---------------------------------------------------------------

    def known(self, number: int) -> int:
        """An id of a transaction, often one that exists."""
        return number % (len(self.txns) + 2)

    def refusal(self, txn_id: int) -> type[HivexError] | None:
        state = self.txns[txn_id].state if txn_id in self.txns else None
        return {
            "o": None,
            "a": TransactionAbortedError,
            "c": TransactionCommittedError,
        }.get(state or "", NoSuchTransactionError)

    def same(self, expected: type[HivexError] | None, call: Callable[[], Any]) -> Any:
        if expected is None:
            return call()
        with pytest.raises(expected):
            call()
        return None

    def end(self, txn_id: int, state: str) -> None:
        self.txns[txn_id].state = state
        self.requests = {key: each for key, each in self.requests.items() if each.txn_id != txn_id}

    @rule(count=st.integers(1, 3))
    def open(self, count: int) -> None:
        first = len(self.txns) + 1
        assert self.transactions.open(count) == list(range(first, first + count))
        for txn_id in range(first, first + count):
            self.txns[txn_id] = Txn(beat_ms=self.clock.now_ms)

    @rule(number=st.integers(0, 30), table=st.sampled_from(TABLES), reallocate=st.booleans())
    def allocate(self, number: int, table: str, reallocate: bool) -> None:
        txn_id = self.known(number)
        expected = None if self.refusal(txn_id) is None else TransactionNotOpenError
        allocated = self.same(
            expected,
            lambda: self.transactions.allocate_write_ids([txn_id], "default", table, reallocate=reallocate),
        )
        if expected is None:
            txn = self.txns[txn_id]
            if reallocate or table not in txn.write_ids:
                txn.write_ids[table] = self.next_write_ids[table]
                self.next_write_ids[table] += 1
            assert allocated == {txn_id: txn.write_ids[table]}

    @rule(number=st.integers(0, 30))
    def take_snapshot(self, number: int) -> None:
        txn_id = self.known(number)
        if self.refusal(txn_id) is not None or self.txns[txn_id].snapshot is not None:
            return
        snapshot = self.transactions.valid_txns(txn_id)
        for other, txn in self.txns.items():
            # What was aborted, left nothing behind and is forgotten, counts as seen: there is nothing to see.
            if txn.state != "A":
                assert snapshot.is_valid(other) == (other == txn_id or (other < txn_id and txn.state in "cC"))
        self.txns[txn_id].snapshot = snapshot, self.visible(snapshot)

    @rule(number=st.integers(0, 30), checked=st.booleans())
    def commit(self, number: int, checked: bool) -> None:
        txn_id = self.known(number)
        if self.refusal(txn_id) is TransactionCommittedError:
            self.transactions.commit(txn_id)
            return
        expected = self.refusal(txn_id)
        if expected is None and checked and self.conflicts(txn_id):
            expected = WriteConflictError
        self.same(expected, lambda: self.transactions.commit(txn_id, exclusive_write_locks=not checked))
        if expected is None:
            self.txns[txn_id].commit_id = len(self.txns)
            self.end(txn_id, "c")
        elif expected is WriteConflictError:
            self.end(txn_id, "a")

    def conflicts(self, txn_id: int) -> bool:
        return any(
            other.state in "cC" and other.commit_id >= txn_id and table == its_table and partition == its_partition
            for table, partition, letter in self.txns[txn_id].writes
            for other in self.txns.values()
            for its_table, its_partition, its_letter in other.writes
            if letter != "i" and its_letter != "i"
        )

    @rule(number=st.integers(0, 30))
    def abort(self, number: int) -> None:
        txn_id = self.known(number)
        expected = self.refusal(txn_id)
        if expected is not TransactionAbortedError:
            self.same(expected, lambda: self.transactions.abort(txn_id))
        if expected is None:
            self.end(txn_id, "a")

    @rule(numbers=st.lists(st.integers(-2, 30), max_size=4))
    def abort_many(self, numbers: list[int]) -> None:
        expected = sorted({each for each in numbers if each in self.txns and self.txns[each].state == "o"})
        assert self.transactions.abort_many(numbers) == expected
        for txn_id in expected:
            self.end(txn_id, "a")

    @rule(number=st.integers(0, 30))
    def heartbeat(self, number: int) -> None:
        txn_id = self.known(number)
        expected = self.refusal(txn_id)
        if expected is TransactionCommittedError:
            expected = NoSuchTransactionError
        self.same(expected, lambda: self.transactions.heartbeat(txn_id))
        if expected is None:
            self.txns[txn_id].beat_ms = self.clock.now_ms

    @rule(lo=st.integers(1, 10), width=st.integers(0, 6))
    def heartbeat_range(self, lo: int, width: int) -> None:
        found = self.transactions.heartbeat_range(lo, lo + width)
        for txn_id in range(lo, lo + width + 1):
            state = self.txns[txn_id].state if txn_id in self.txns else "u"
            assert (txn_id in found.aborted, txn_id in found.no_such) == (state == "a", state in "cCAu")
            if state == "o":
                self.txns[txn_id].beat_ms = self.clock.now_ms

    # -- locks ----------------------------------------------------------------------

    def blocked(self, lock_id: int, components: list[LockComponent], txn_id: int | None) -> bool:
        own = [
            held
            for each in self.requests.values()
            if txn_id is not None and each.txn_id == txn_id and each.granted
            for held in each.components
        ]
        return any(
            meet(component, ahead)
            and ahead.type.value not in BEARS[self.matrix.name][component.type.value]
            and not self.matrix.is_harmless(component, ahead)
            and not any(
                held.type.strictness >= component.type.strictness
                and held.table in (None, component.table)
                and held.partition in (None, component.partition)
                for held in own
            )
            for component in components
            for other_id, other in self.requests.items()
            if other_id < lock_id and (txn_id is None or other.txn_id != txn_id)
            for ahead in other.components
        )

    components = st.builds(
        lambda kind, place, letter: LockComponent("default", place[0], place[1], kind, LETTERS[letter]),
        st.sampled_from(LockType),
        st.sampled_from([(None, None), ("tab3", None), ("tab1", "p=1"), ("tab1", "p=2")]),
        st.sampled_from(sorted(LETTERS)),
    )

    @rule(number=st.integers(0, 30), wanted=st.lists(components, min_size=1, max_size=3, unique=True))
    def lock(self, number: int, wanted: list[LockComponent]) -> None:
        txn_id = self.known(number) or None
        if txn_id is not None and any(not each.granted for each in self.requests.values() if each.txn_id == txn_id):
            return  # One statement at a time.
        holds = any(each.txn_id == txn_id for each in self.requests.values())
        if txn_id is not None and holds and self.blocked(self.last_lock_id + 1, wanted, txn_id):
            return  # A transaction that holds locks and waits may be in a circle; those have tests of their own.
        expected = None if txn_id is None else self.refusal(txn_id)
        response = self.same(expected, lambda: self.locks.acquire(wanted, txn_id, wait=False))
        if expected is not None:
            return
        # A request that was not granted at once has used more than one id.
        assert response.lock_id > self.last_lock_id
        self.last_lock_id = response.lock_id
        granted = not self.blocked(self.last_lock_id, wanted, txn_id)
        assert (response.state is LockState.ACQUIRED) == granted
        assert (response.blocked_by is None) == granted
        self.requests[self.last_lock_id] = Request(txn_id, wanted, granted, self.clock.now_ms)
        if txn_id is not None:
            self.txns[txn_id].writes |= {
                (each.table, each.partition, each.operation.name[0].lower())
                for each in wanted
                if each.table is not None
            }

    @precondition(lambda self: self.last_lock_id)
    @rule(number=st.integers(0, 30))
    def check(self, number: int) -> None:
        lock_id = 1 + number % (self.last_lock_id + 1)
        request = self.requests.get(lock_id)
        if request is None:
            self.same(NoSuchLockError, lambda: self.locks.check(lock_id))
            return
        if not request.granted:
            request.granted = not self.blocked(lock_id, request.components, request.txn_id)
        assert (self.locks.check(lock_id).state is LockState.ACQUIRED) == request.granted
        request.beat_ms = self.clock.now_ms
        if request.txn_id is not None:
            self.txns[request.txn_id].beat_ms = self.clock.now_ms

    @precondition(lambda self: self.last_lock_id)
    @rule(number=st.integers(0, 30))
    def unlock(self, number: int) -> None:
        lock_id = 1 + number % (self.last_lock_id + 1)
        request = self.requests.get(lock_id)
        refused = request is not None and request.txn_id is not None and request.granted
        self.same(LockOfOpenTransactionError if refused else None, lambda: self.locks.unlock(lock_id))
        if not refused:
            self.requests.pop(lock_id, None)

    # -- time -----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 140, 290]))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def keep_house(self) -> None:
        oldest = self.clock.now_ms - TIMEOUT_S * 1000
        late = [txn_id for txn_id, txn in self.txns.items() if txn.state == "o" and txn.beat_ms < oldest]
        for txn_id in late:
            self.end(txn_id, "a")
        dropped = [key for key, each in self.requests.items() if each.txn_id is None and each.beat_ms < oldest]
        for key in dropped:
            del self.requests[key]
        result = self.housekeeper.run()
        assert (list(result.aborted), list(result.dropped_locks)) == (late, dropped)
        # Of those that have ended, the records may be gone; then the test does not ask for them any more.
        self.forgotten()

    def forgotten(self) -> None:
        for txn_id, txn in self.txns.items():
            if txn.state != "o":
                try:
                    self.transactions.get(txn_id)
                except NoSuchTransactionError:
                    txn.state = txn.state.upper()

    # -- what always holds ----------------------------------------------------------

    def visible(self, snapshot: Any) -> dict[str, list[bool]]:
        found = self.transactions.valid_write_ids([f"default.{table}" for table in TABLES], snapshot)
        return {
            table: [found[f"default.{table}"].is_valid(each) for each in range(1, self.next_write_ids[table])]
            for table in TABLES
        }

    @invariant()
    def locks_are_the_same(self) -> None:
        if not hasattr(self, "requests"):
            return
        stored = {(lock.lock_id, lock.internal_id): lock.state for lock in self.locks.show()}
        assert stored == {
            (lock_id, number): LockState.ACQUIRED if request.granted else LockState.WAITING
            for lock_id, request in self.requests.items()
            for number in range(1, len(request.components) + 1)
        }

    @invariant()
    def open_transactions_are_the_same_and_see_what_they_saw(self) -> None:
        if not hasattr(self, "txns"):
            return
        snapshot = self.transactions.valid_txns()
        assert set(snapshot.open_ids) == {txn_id for txn_id, txn in self.txns.items() if txn.state == "o"}
        assert all(not snapshot.is_valid(txn_id) for txn_id, txn in self.txns.items() if txn.state == "a")
        assert all(snapshot.is_valid(txn_id) for txn_id, txn in self.txns.items() if txn.state in "cC")
        now = self.visible(snapshot)
        for txn in self.txns.values():
            for table, write_id in txn.write_ids.items():
                if txn.state in "ocC":
                    assert now[table][write_id - 1] == (txn.state in "cC")
            if txn.state == "o" and txn.snapshot is not None:
                taken, before = txn.snapshot
                for table, seen in self.visible(taken).items():
                    for other in self.txns.values():
                        write_id = other.write_ids.get(table)
                        if write_id is not None and write_id <= len(before[table]):
                            assert seen[write_id - 1] == before[table][write_id - 1]


@pytest.mark.parametrize("matrix", [HIVE_4, HIVE_2_3], ids=["hive-4", "hive-2.3"])
def test_store_agrees_with_a_plain_model(store: Store, matrix: LockMatrix) -> None:
    class Bound(Machine):
        pass

    Bound.store, Bound.matrix = store, matrix
    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
