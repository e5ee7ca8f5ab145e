"""A script of calls about transactions, locks, heartbeats and compactions, the illegal ones among them.

It runs on any Hive Metastore. Ids in its answers count from the first one, so that the answers of two servers can be
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from hive_metastore import ttypes
from thrift.Thrift import TException

from tests.hive_endpoint import table

SHARED_READ, SHARED_WRITE, EXCLUSIVE = 1, 2, 3
SELECT, INSERT, UPDATE, DELETE, UNSET, NO_TXN = range(1, 7)
MISSING = 987_654_321
Answer = tuple[str, str]
_STATES = {1: "ACQUIRED", 2: "WAITING", 3: "ABORT", 4: "NOT_ACQUIRED"}


class Script:
    """Runs calls and keeps their answers."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.answers: list[Answer] = []
        self._first_txn = 0
        self._first_lock = 0

    def call(self, label: str, call: Callable[[], Any], show: Callable[[Any], object] = lambda _: "ok") -> Any:
        """Make a call, and keep what ``show`` makes of its answer, or its exception."""
        answer = None
        try:
            answer = call()
            shown = show(answer)
        except TException as error:
            shown = type(error).__name__
        self.answers.append((label, str(shown)))
        return answer

    # -- transactions

    def open(self, count: int = 1) -> list[int]:
        """Open transactions."""
        found = self.call(
            f"open_txns({count})",
            lambda: list(self.client.open_txns(ttypes.OpenTxnRequest(count, "ann", "host")).txn_ids),
            lambda ids: (len(ids), ids == [each + ids[0] for each in range(len(ids))]),
        )
        return list(found or [])

    def commit(self, label: str, txn_id: int) -> None:
        """Commit a transaction."""
        self.call(f"commit_txn of {label}", lambda: self.client.commit_txn(ttypes.CommitTxnRequest(txn_id)))

    def abort(self, label: str, txn_id: int) -> None:
        """Abort a transaction."""
        self.call(f"abort_txn of {label}", lambda: self.client.abort_txn(ttypes.AbortTxnRequest(txn_id)))

    def beat(self, label: str, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Send a heartbeat."""
        request = ttypes.HeartbeatRequest(lockid=lock_id, txnid=txn_id)
        self.call(f"heartbeat of {label}", lambda: self.client.heartbeat(request))

    def beat_range(self, label: str, lo: int, hi: int) -> None:
        """Send a heartbeat of a range of transactions."""
        self.call(
            f"heartbeat_txn_range of {label}",
            lambda: self.client.heartbeat_txn_range(ttypes.HeartbeatTxnRangeRequest(lo, hi)),
            lambda found: (sorted(each - lo for each in found.nosuch), sorted(each - lo for each in found.aborted)),
        )

    # -- locks

    def lock(self, label: str, *components: Any, txn_id: int | None = None) -> int:
        """Request locks, and return their id."""
        request = ttypes.LockRequest(list(components), txn_id, "ann", "host", "script")
        found = self.call(f"lock {label}", lambda: self.client.lock(request), lambda each: state(each.state))
        return found.lockid if found is not None else MISSING

    def check(self, label: str, lock_id: int) -> None:
        """Ask again for locks."""
        request = ttypes.CheckLockRequest(lock_id)
        self.call(f"check_lock {label}", lambda: self.client.check_lock(request), lambda each: state(each.state))

    def unlock(self, label: str, lock_id: int) -> None:
        """Release locks."""
        self.call(f"unlock {label}", lambda: self.client.unlock(ttypes.UnlockRequest(lock_id)))

    def show(self, label: str) -> None:
        """List all locks."""

        def shown(found: Any) -> object:
            return sorted(
                str((each.dbname, each.tablename, each.partname, state(each.state), each.type, bool(each.txnid)))
                for each in found.locks
            )

        self.call(f"show_locks {label}", lambda: self.client.show_locks(ttypes.ShowLocksRequest()), shown)

    # -- compactions

    def compact(self, label: str, name: str, part: str | None = None, kind: int = 2) -> None:
        """Request a compaction."""
        request = ttypes.CompactionRequest("d", name, part, kind)
        self.call(
            f"compact2 {label}",
            lambda: self.client.compact2(request),
            lambda found: (found.accepted, found.state),
        )


def state(number: int) -> str:
    """The name of a lock's state."""
    return _STATES[number]


def component(type: int, operation: int = SELECT, name: str | None = "t", part: str | None = None) -> Any:
    """One lock of a request."""
    level = 1 if name is None else 2 if part is None else 3
    return ttypes.LockComponent(type, level, "d", name, part, operation, True)


def make_tables(client: Any) -> None:
    """Make the tables of the script."""
    client.create_database(ttypes.Database("d", None, None, {}))
    for name, keys in (("t", {}), ("u", {}), ("p", {"ds": "string"})):
        client.create_table(table_of_script(name, keys))


def table_of_script(name: str, keys: dict[str, str] | None = None) -> Any:
    """A transactional table."""
    described = table("d", name, keys=keys or {}, parameters={"transactional": "true"})
    # Hive 2.3 asks for buckets.
    described.sd.numBuckets, described.sd.bucketCols = 2, ["id"]
    return described


def run(client: Any) -> list[Answer]:
    """Return the answers of all calls, with what each call is."""
    script = Script(client)
    for part in (_lives, _heartbeats, _matrix, _levels, _illegal_locks, _missing, _queue, _compactions):
        for _ in part(script):
            pass
    return script.answers


def _lives(script: Script) -> Iterator[None]:
    for count in (1, 3, 0, -1):
        for txn_id in script.open(count):
            script.abort("one that is open", txn_id)
    committed, aborted, open_ = script.open(3)
    script.commit("an open one", committed)
    script.abort("an open one", aborted)
    for label, txn_id in (("a committed one", committed), ("an aborted one", aborted), ("a missing one", MISSING)):
        script.commit(label, txn_id)
        script.abort(label, txn_id)
    for wrong in (0, -1):
        script.commit(str(wrong), wrong)
        script.abort(str(wrong), wrong)
    for label, ids in (("open", [open_]), ("none", []), ("aborted", [aborted]), ("missing", [MISSING])):
        request = ttypes.AbortTxnsRequest(ids)
        script.call(f"abort_txns of {label}", lambda request=request: script.client.abort_txns(request))
    script.call("get_open_txns_info", script.client.get_open_txns_info, lambda each: each.txn_high_water_mark >= open_)
    yield


def _heartbeats(script: Script) -> Iterator[None]:
    first, second, third = script.open(3)
    script.beat("an open transaction", first)
    script.beat_range("all open", first, third)
    script.abort("the second", second)
    script.beat("an aborted transaction", second)
    script.beat_range("one aborted", first, third)
    script.commit("the third", third)
    script.beat("a committed transaction", third)
    script.beat_range("one committed", first, third)
    script.beat_range("ids to come", first, third + 2)
    script.beat_range("nothing", third, first)
    script.beat("a missing transaction", MISSING)
    script.beat("nothing")
    script.beat("a missing lock", lock_id=MISSING)
    lock_id = script.lock("without transaction", component(SHARED_READ))
    script.beat("a lock", lock_id=lock_id)
    script.beat("a lock and a transaction", first, lock_id)
    script.beat("a lock and an aborted transaction", second, lock_id)
    script.beat("a missing lock and a transaction", first, MISSING)
    script.unlock("without transaction", lock_id)
    script.beat("a released lock", lock_id=lock_id)
    script.commit("the first", first)
    yield


def _matrix(script: Script) -> Iterator[None]:
    operations = {SHARED_READ: SELECT, SHARED_WRITE: UPDATE, EXCLUSIVE: DELETE}
    for held, wanted in product(operations, operations):
        holder, requester = script.open(2)
        label = f"{held} held, {wanted} wanted"
        script.lock(f"{label}: held", component(held, operations[held]), txn_id=holder)
        waiting = script.lock(label, component(wanted, operations[wanted]), txn_id=requester)
        script.check(label, waiting)
        script.abort(f"{label}: holder", holder)
        script.check(f"{label}: after its end", waiting)
        script.abort(f"{label}: requester", requester)
    yield


def _levels(script: Script) -> Iterator[None]:
    places = {"database": (None, None), "table": ("p", None), "partition": ("p", "ds=a"), "other": ("p", "ds=b")}
    for held, wanted in product(places, places):
        label = f"EXCLUSIVE on {held}, SHARED_READ on {wanted}"
        first = script.lock(f"{label}: held", component(EXCLUSIVE, NO_TXN, *places[held]))
        second = script.lock(label, component(SHARED_READ, SELECT, *places[wanted]))
        script.unlock(f"{label}: waiting", second)
        script.unlock(f"{label}: held", first)
    yield


def _illegal_locks(script: Script) -> Iterator[None]:
    committed, aborted, open_ = script.open(3)
    script.commit("one for locks", committed)
    script.abort("one for locks", aborted)
    for label, txn_id in (("committed", committed), ("aborted", aborted), ("missing", MISSING)):
        script.lock(f"in a transaction that is {label}", component(SHARED_READ), txn_id=txn_id)
    script.lock("without components", txn_id=open_)
    script.lock("without an operation", component(SHARED_WRITE, UNSET), txn_id=open_)
    several = [
        component(SHARED_READ),
        component(SHARED_READ, SELECT, "u"),
        component(SHARED_WRITE, INSERT, "p", "ds=a"),
    ]
    lock_id = script.lock("of several tables", *several, txn_id=open_)
    script.show("of several tables")
    script.unlock("of an open transaction", lock_id)
    script.commit("the owner", open_)
    script.check("of a committed transaction", lock_id)
    for wrong in (MISSING, 0, -1):
        script.check(str(wrong), wrong)
        script.unlock(str(wrong), wrong)
    script.show("after the end")
    yield


def _missing(script: Script) -> Iterator[None]:
    (owner,) = script.open()
    for txn_id in (None, owner):
        label, kind = ("in a transaction", DELETE) if txn_id else ("without transaction", NO_TXN)
        table = script.lock(f"of a missing table {label}", component(EXCLUSIVE, kind, "new"), txn_id=txn_id)
        part = script.lock(
            f"of a missing partition {label}", component(SHARED_READ, SELECT, "p", "ds=z"), txn_id=txn_id
        )
        nowhere = component(SHARED_READ, SELECT, "new")
        nowhere.dbname = "nowhere"
        third = script.lock(f"of a table of a missing database {label}", nowhere, txn_id=txn_id)
        other = script.lock(f"of a missing table that is locked {label}", component(SHARED_READ, SELECT, "new"))
        described = table_of_script("new")
        script.call(f"create_table of a locked name {label}", lambda made=described: script.client.create_table(made))
        script.check(f"of a created table {label}", other)
        script.call(f"drop_table of a locked name {label}", lambda: script.client.drop_table("d", "new", True))
        script.show(f"of missing objects {label}")
        script.check(f"of a dropped table {label}", other)
        for lock_id in (table, part, third) if txn_id is None else ():
            script.unlock("of a missing object", lock_id)
        if txn_id is not None:
            script.commit("the owner of locks of missing objects", txn_id)
        script.check(f"of a missing table after its owner {label}", other)
        script.unlock("of a missing table", other)
    yield


def _queue(script: Script) -> Iterator[None]:
    first = script.lock("first, SHARED_READ", component(SHARED_READ))
    second = script.lock("second, EXCLUSIVE", component(EXCLUSIVE, NO_TXN))
    third = script.lock("third, SHARED_READ", component(SHARED_READ))
    script.show("of a queue")
    script.check("third", third)
    script.unlock("second", second)
    script.check("second", second)
    script.check("third after second", third)
    script.unlock("first", first)
    script.unlock("third", third)
    script.unlock("third again", third)
    script.show("of nothing")
    yield


def _compactions(script: Script) -> Iterator[None]:
    for kind in (1, 2):
        script.compact(f"{kind} of a table", "t", kind=kind)
        script.compact(f"{kind} of a table again", "t", kind=kind)
    script.compact("of another table", "u")
    script.compact("of a missing table", "missing")
    script.compact("of a partitioned table", "p")
    script.compact("of a missing partition", "p", "ds=z")

    def shown(found: Any) -> object:
        return sorted(str((each.tablename, each.partitionname, each.type, each.state)) for each in found.compacts)

    script.call("show_compact", lambda: script.client.show_compact(ttypes.ShowCompactRequest()), shown)
    yield
