"""The checker on histories written by hand: one that is fine, and one for every anomaly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.histories.checker import Anomaly, check, strongly_connected
from tests.histories.history import (
    Operation,
    Recorder,
    Status,
    Transaction,
    add,
    append,
    load,
    next_number,
    read,
    read_set,
)

ABORTED, UNKNOWN = Status.ABORTED, Status.UNKNOWN


def transaction(
    name: str,
    *operations: Operation,
    status: Status = Status.COMMITTED,
    began: int = 0,
    ended: int | None = None,
    txn_id: int | None = None,
    asked: bool = True,
) -> Transaction:
    """At the same time as all others, unless it says otherwise."""
    return Transaction(name, operations, status, began, ended, txn_id, asked)


def anomalies(*history: Transaction, reaped: Sequence[int] = ()) -> set[Anomaly]:
    return check(history, reaped=reaped).anomalies


def test_serial_history_is_fine() -> None:
    report = check(
        [
            transaction("a", read("x"), append("x", 1), read("x", 1), append("x", 2), began=1, ended=2),
            transaction("b", read("x", 1, 2), append("y", 3), add("s", 4), began=3, ended=4),
            transaction("c", read_set("s", 4), read("y", 3), append("x", 5), status=ABORTED, began=5, ended=6),
            transaction("d", read("x", 1, 2), read_set("s", 4), read("x", 1, 2), began=7, ended=8),
        ]
    )
    assert report.findings == []
    assert (report.committed, report.aborted, report.unknown) == (3, 1, 0)
    assert report.edges["wr"] >= 2
    assert report.edges["rt"] > 0


def test_write_skew_is_allowed_and_counted() -> None:
    report = check(
        [
            transaction("a", read("x"), read("y"), append("x", 1)),
            transaction("b", read("x"), read("y"), append("y", 2)),
            transaction("c", read("x", 1), read("y", 2)),
        ]
    )
    assert report.findings == []
    assert report.write_skews == 1


def test_read_only_anomaly_of_snapshot_isolation_is_allowed() -> None:
    # Fekete, O'Neil and O'Neil 2004: a reader sees the second of two that are in a skew, but not the first.
    history = (
        transaction("a", read("x"), read("y"), append("x", 1)),
        transaction("b", read("y"), append("y", 2)),
        transaction("c", read("x"), read("y", 2)),
        transaction("d", read("x", 1), read("y", 2)),
    )
    assert anomalies(*history) == set()


def test_dirty_writes_in_a_circle() -> None:
    history = (
        transaction("a", append("x", 1), append("y", 2)),
        transaction("b", append("x", 3), append("y", 4)),
        transaction("c", read("x", 1, 3), read("y", 4, 2)),
    )
    assert Anomaly.G0 in anomalies(*history)


def test_aborted_read() -> None:
    for how in ({"status": ABORTED}, {"status": ABORTED, "asked": False}):
        history = (transaction("a", append("x", 1), **how), transaction("b", read("x", 1)))  # type: ignore[arg-type]
        assert anomalies(*history) == {Anomaly.G1A}
    assert anomalies(transaction("a", add("s", 1), status=ABORTED), transaction("b", read_set("s", 1))) == {Anomaly.G1A}


def test_intermediate_read() -> None:
    history = (
        transaction("a", append("x", 1), append("x", 2)),
        transaction("b", read("x", 1)),
        transaction("c", read("x", 1, 2)),
    )
    assert Anomaly.G1B in anomalies(*history)


def test_circular_information_flow() -> None:
    history = (
        transaction("a", append("x", 1), read("y", 2)),
        transaction("b", append("y", 2), read("x", 1)),
    )
    assert anomalies(*history) == {Anomaly.G1C}


def test_read_skew() -> None:
    history = (
        transaction("a", append("x", 1), append("y", 2)),
        transaction("b", read("x"), read("y", 2)),
        transaction("c", read("x", 1), read("y", 2)),
    )
    assert anomalies(*history) == {Anomaly.G_SINGLE}


def test_read_skew_between_a_list_and_a_set() -> None:
    history = (
        transaction("a", append("x", 1), add("s", 2)),
        transaction("b", read("x", 1), read_set("s")),
    )
    assert anomalies(*history) == {Anomaly.G_SINGLE}


def test_long_fork_is_recognised() -> None:
    history = (
        transaction("a", append("x", 1), append("y", 1)),
        transaction("b", append("z", 2), append("w", 2)),
        transaction("c", read("x", 1), read("z")),
        transaction("d", read("w", 2), read("y")),
        transaction("e", read("x", 1), read("y", 1), read("z", 2), read("w", 2)),
    )
    report = check(history)
    assert report.findings == []
    assert len(report.long_forks) == 1
    # Circles with fewer anti-dependencies in the same part of the graph are found nevertheless.
    report = check([*history, transaction("f", read("x", 1), read("y"))])
    assert report.anomalies == {Anomaly.G_SINGLE}


def test_lost_update_that_was_never_read() -> None:
    history = (
        transaction("a", read("x"), append("x", 1), began=1, ended=4),
        transaction("b", read("x"), append("x", 2), began=2, ended=5),
        transaction("c", read("x", 2), began=6, ended=7),
    )
    assert anomalies(*history) == {Anomaly.LOST_UPDATE, Anomaly.LOST_WRITE}


def test_lost_update_that_was_read() -> None:
    history = (
        transaction("a", read("x"), append("x", 1), began=1, ended=4),
        transaction("b", read("x"), append("x", 2), began=2, ended=7),
        transaction("c", read("x", 1), began=5, ended=6),
        transaction("d", read("x", 2, 3), began=8, ended=9),
        transaction("e", read("x", 2), append("x", 3), began=8, ended=9),
    )
    assert {Anomaly.LOST_UPDATE, Anomaly.FORK} <= anomalies(*history)


def test_lost_update_on_an_old_version() -> None:
    history = (
        transaction("a", read("x"), append("x", 1)),
        transaction("b", read("x"), append("x", 2)),
        transaction("c", read("x", 1, 2)),
    )
    assert anomalies(*history) == {Anomaly.LOST_UPDATE, Anomaly.G_SINGLE}


def test_acknowledged_write_that_is_gone() -> None:
    history = (transaction("a", append("x", 1), began=1, ended=2), transaction("b", read("x"), began=3, ended=4))
    assert Anomaly.LOST_WRITE in anomalies(*history)
    history = (transaction("a", add("s", 1), began=1, ended=2), transaction("b", read_set("s"), began=3, ended=4))
    assert Anomaly.LOST_WRITE in anomalies(*history)


def test_acknowledged_write_may_be_missed_by_who_began_before() -> None:
    history = (transaction("a", append("x", 1), began=1, ended=3), transaction("b", read("x"), began=2, ended=4))
    assert anomalies(*history) == set()


def test_stale_read() -> None:
    history = (
        transaction("a", append("x", 1), began=1, ended=2),
        transaction("b", read("x"), began=3, ended=4),
        transaction("c", read("x", 1), began=3, ended=4),
    )
    assert anomalies(*history) == {Anomaly.REAL_TIME}


def test_stale_read_through_a_third_one() -> None:
    # b misses a's commit, and has written what c read before a began.
    history = (
        transaction("b", append("y", 1), read("x"), began=1, ended=9),
        transaction("c", read("y", 1), began=2, ended=3),
        transaction("a", append("x", 2), began=4, ended=5),
        transaction("d", read("x"), read("y", 1), began=6, ended=7),
        transaction("e", read("x", 2), began=8, ended=9),
    )
    report = check(history)
    assert report.anomalies == {Anomaly.REAL_TIME}
    assert "a -rt->" in report.describe()


def test_duplicates() -> None:
    assert anomalies(transaction("a", append("x", 1)), transaction("b", read("x", 1, 1))) == {Anomaly.DUPLICATE}
    assert anomalies(transaction("a", add("s", 1)), transaction("b", read_set("s", 1, 1))) == {Anomaly.DUPLICATE}


def test_reads_that_no_one_order_explains() -> None:
    history = (
        transaction("a", append("x", 1)),
        transaction("b", append("x", 2)),
        transaction("c", read("x", 1, 2)),
        transaction("d", read("x", 2)),
    )
    assert anomalies(*history) == {Anomaly.FORK}


def test_reads_within_a_transaction_repeat() -> None:
    writer = transaction("a", append("x", 1), add("s", 2))
    assert anomalies(writer, transaction("b", read("x"), read("x", 1))) == {Anomaly.NON_REPEATABLE_READ}
    assert anomalies(writer, transaction("b", read_set("s"), read_set("s", 2))) == {Anomaly.NON_REPEATABLE_READ}


def test_own_writes_are_read() -> None:
    assert anomalies(transaction("a", read("x"), append("x", 1), read("x", 1))) == set()
    assert anomalies(transaction("a", append("x", 1), read("x", 1), append("x", 2), read("x", 1, 2))) == set()
    assert anomalies(transaction("a", read("x"), append("x", 1), read("x"))) == {Anomaly.OWN_WRITE_MISSING}
    assert anomalies(transaction("a", add("s", 1), read_set("s"))) == {Anomaly.OWN_WRITE_MISSING}


def test_element_from_nowhere() -> None:
    assert anomalies(transaction("a", read("x", 1))) == {Anomaly.FROM_NOWHERE}


def test_unknown_outcome_counts_as_committed_once_it_was_read() -> None:
    writer = transaction("a", append("x", 1), append("y", 2), status=UNKNOWN)
    assert anomalies(writer, transaction("b", read("x"), read("y"))) == set()
    assert anomalies(writer, transaction("b", read("x", 1), read("y", 2))) == set()
    assert anomalies(writer, transaction("b", read("x", 1), read("y")), transaction("c", read("y", 2))) == {
        Anomaly.G_SINGLE
    }
    later = transaction("b", read("x", 1), append("z", 3), status=UNKNOWN)
    report = check([writer, later, transaction("c", read("z", 3))])
    assert (report.findings, report.committed, report.unknown) == ([], 3, 0)


def test_reaped_transaction_that_commits() -> None:
    assert anomalies(transaction("a", append("x", 1), txn_id=7), reaped=[7]) == {Anomaly.FENCE}
    assert anomalies(transaction("a", append("x", 1), txn_id=7, status=ABORTED), reaped=[7]) == set()


def test_commit_without_a_request() -> None:
    assert anomalies(transaction("a", asked=False)) == {Anomaly.UNASKED}


def test_strongly_connected_parts() -> None:
    adjacency = [[1], [2], [0, 3], [4], [5], [3], [6], []]
    parts = {tuple(sorted(part)) for part in strongly_connected(adjacency) if len(part) > 1}
    assert parts == {(0, 1, 2), (3, 4, 5)}
    chain = [[n + 1] for n in range(100_000)] + [[]]
    assert sum(1 for _ in strongly_connected(chain)) == 100_001


def test_large_history_takes_seconds() -> None:
    history = []
    state: dict[str, tuple[int, ...]] = {}
    for n in range(25_000):
        key, other = f"k{n // 200}.{n % 8}", f"k{n // 200}.{n % 7}"
        operations = [read(key, *state.get(key, ())), read(other, *state.get(other, ()))]
        if n % 2:
            operations.append(append(key, n))
            state[key] = (*state.get(key, ()), n)
        history.append(transaction(f"t{n}", *operations, began=10 * n, ended=10 * n + 75))
    began = time.process_time()
    report = check(history)
    assert report.findings == []
    assert sum(report.edges.values()) > 50_000
    assert time.process_time() - began < 20


def test_recorder_and_files(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "c1.jsonl")
    recorder.begin(0)
    recorder.opened(0, 17)
    recorder.done(0, [read("x", 1), append("x", 2), read_set("s"), add("s", 3)], commit=True)
    recorder.ended(0, Status.COMMITTED)
    recorder.begin(1)
    recorder.opened(1, 18)
    recorder.begin(2)
    recorder.opened(2, 19)
    recorder.done(2, [append("x", 4)], commit=True)
    recorder.close()
    with (tmp_path / "c1.jsonl").open("a") as file:
        file.write('[2,"commi')
    first, second, third = load(tmp_path / "c1.jsonl")
    assert first.operations == (read("x", 1), append("x", 2), read_set("s"), add("s", 3))
    assert (first.status, first.txn_id) == (Status.COMMITTED, 17)
    assert first.ended_ns is not None
    assert first.began_ns <= first.ended_ns
    assert (second.status, second.asked) == (ABORTED, False)
    assert (third.status, third.txn_id, third.operations) == (UNKNOWN, 19, (append("x", 4),))
    assert next_number(tmp_path / "c1.jsonl") == 3
