from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import permutations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidLockRequestError
from airflow_hivex.core.model.locks import (
    HIVE_2_3,
    HIVE_4,
    MATRICES,
    SHOW_LOCKS_COLUMNS,
    DataOperation,
    LockComponent,
    LockInfo,
    LockLevel,
    LockMatrix,
    LockState,
    LockType,
    covers,
    find_circle,
    meet,
    show_order,
    show_row,
)

TIME = datetime(2026, 1, 1, tzinfo=UTC)
R, W, X, E = LockType
ACQUIRED, WAITING = LockState.ACQUIRED, LockState.WAITING

# Rows are requests, columns locks ahead, both from SHARED_READ to EXCLUSIVE; "." goes on, "#" waits.
CELLS = {
    "4": ["...#", "..##", ".###", "####"],
    "2.3": ["..##", ".###", "####", "####"],
}


def lock(
    lock_id: int,
    component: LockComponent,
    state: LockState = ACQUIRED,
    txn_id: int | None = None,
    internal_id: int = 1,
) -> LockInfo:
    return LockInfo(lock_id, internal_id, txn_id, component, state, TIME, TIME, TIME, "joe", "here")


def on(type: LockType, table: str | None = "t", partition: str | None = None, database: str = "d") -> LockComponent:
    return LockComponent(database, table, partition, type)


def waits(matrix: LockMatrix, request: LockComponent, *ahead: LockInfo, txn_id: int | None = None) -> bool:
    return matrix.blocker(request, txn_id, ahead) is not None


@pytest.mark.parametrize("state", [ACQUIRED, WAITING])
@pytest.mark.parametrize(("row", "column"), list(product(range(4), range(4))))
@pytest.mark.parametrize("name", list(MATRICES))
@pytest.mark.parametrize("level", [("t", None), ("t", "p=1")])
def test_every_cell_of_both_matrices(
    name: str, row: int, column: int, state: LockState, level: tuple[str, str | None]
) -> None:
    types = list(LockType)
    request, ahead = on(types[row], *level), on(types[column], *level)
    assert waits(MATRICES[name], request, lock(1, ahead, state)) == (CELLS[name][row][column] == "#")


@pytest.mark.parametrize("matrix", [HIVE_4, HIVE_2_3])
@pytest.mark.parametrize("state", [ACQUIRED, WAITING])
def test_read_of_a_database_does_not_wait_for_exclusive_locks_in_it(matrix: LockMatrix, state: LockState) -> None:
    assert not waits(matrix, on(R, None), lock(1, on(E, "t"), state))
    assert not waits(matrix, on(R, None), lock(1, on(E, "t", "p=1"), state))
    assert waits(matrix, on(R, None), lock(1, on(E, None), state))
    assert waits(matrix, on(R, "t"), lock(1, on(E, None), state))


@pytest.mark.parametrize("matrix", [HIVE_4, HIVE_2_3])
@pytest.mark.parametrize("state", [ACQUIRED, WAITING])
def test_exclusive_lock_in_a_database_does_not_wait_for_readers_of_it(matrix: LockMatrix, state: LockState) -> None:
    assert not waits(matrix, on(E, "t"), lock(1, on(R, None), state))
    assert not waits(matrix, on(E, "t", "p=1"), lock(1, on(R, None), state))
    assert waits(matrix, on(E, None), lock(1, on(R, None), state))
    assert waits(matrix, on(E, None), lock(1, on(R, "t"), state))
    assert waits(matrix, on(E, "t"), lock(1, on(W, None), state))


def test_old_matrix_ends_its_scan_at_a_shared_lock_that_is_held() -> None:
    held, queued = lock(1, on(R)), lock(2, on(E), WAITING)
    # The waiting exclusive lock is looked at first, so readers do not pass it for ever.
    assert HIVE_2_3.blocker(on(R), None, [held, queued]) == queued
    assert HIVE_2_3.walk([held, lock(3, on(R), WAITING), queued, lock(4, on(E))]) == [
        queued,
        lock(3, on(R), WAITING),
        lock(4, on(E)),
        held,
    ]
    assert HIVE_2_3.blocker(on(R), None, [lock(4, on(E)), held]) == lock(4, on(E))


def test_first_blocker_is_the_one_that_came_first() -> None:
    first, second = lock(3, on(E)), lock(7, on(E), WAITING)
    for ahead in permutations([second, first, lock(1, on(R))]):
        assert HIVE_4.blocker(on(R), None, ahead) == first


@pytest.mark.parametrize("matrix", [HIVE_4, HIVE_2_3])
def test_locks_of_one_transaction_bear_each_other(matrix: LockMatrix) -> None:
    assert not waits(matrix, on(E), lock(1, on(E), txn_id=7), txn_id=7)
    assert waits(matrix, on(E), lock(1, on(E), txn_id=7), txn_id=8)
    assert waits(matrix, on(E), lock(1, on(E)))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("d", None, None), ("d", None, None), True),
        (("d", None, None), ("e", None, None), False),
        (("d", None, None), ("d", "t", None), True),
        (("d", None, None), ("d", "t", "p=1"), True),
        (("d", "t", None), ("d", "t", None), True),
        (("d", "t", None), ("d", "u", None), False),
        (("d", "t", None), ("e", "t", None), False),
        (("d", "t", None), ("d", "t", "p=1"), True),
        (("d", "t", None), ("d", "u", "p=1"), False),
        (("d", "t", "p=1"), ("d", "t", "p=1"), True),
        (("d", "t", "p=1"), ("d", "t", "p=2"), False),
        (("d", "t", "p=1"), ("d", "u", "p=1"), False),
    ],
)
def test_locks_meet_where_they_cover_something_in_common(
    one: tuple[str, str | None, str | None], other: tuple[str, str | None, str | None], expected: bool
) -> None:
    assert meet(LockComponent(*one), LockComponent(*other)) is expected
    assert meet(LockComponent(*other), LockComponent(*one)) is expected


def test_names_are_compared_without_case_but_partition_values_are_not() -> None:
    assert LockComponent("D", "T", "DS=Ab/H=1") == LockComponent("d", "t", "ds=Ab/h=1")
    assert not meet(LockComponent("d", "t", "ds=Ab"), LockComponent("d", "t", "ds=ab"))


def test_level_follows_from_what_is_named() -> None:
    assert on(R, None).level is LockLevel.DB
    assert on(R).level is LockLevel.TABLE
    assert on(R, "t", "p=1").level is LockLevel.PARTITION
    assert on(R, "t", "p=1").resource == "d/t/p=1"


@pytest.mark.parametrize("names", [("", "t"), ("d", ""), ("d", "t", ""), ("d", None, "p=1"), ("d", "t\0")])
def test_lock_on_nothing_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidLockRequestError):
        LockComponent(*names)


def test_types_rise_in_strictness() -> None:
    assert [each.strictness for each in (R, W, X, E)] == [0, 1, 2, 3]
    assert [each.value for each in LockType] == ["r", "w", "x", "e"]


def test_writing_operations_are_those_that_change_rows() -> None:
    assert [each for each in DataOperation if each.writes] == [
        DataOperation.INSERT,
        DataOperation.UPDATE,
        DataOperation.DELETE,
    ]


def edges(locks: Sequence[LockInfo], matrix: LockMatrix, txn_ids: Collection[int]) -> dict[int, set[int]]:
    """Whom each of the transactions waits for, one lock after the other held against all."""
    found: dict[int, set[int]] = {}
    for mine in locks:
        if mine.state is not WAITING or mine.txn_id not in txn_ids:
            continue
        own = [lock.component for lock in locks if lock.txn_id == mine.txn_id and lock.state is ACQUIRED]
        if any(covers(held, mine.component) for held in own):
            continue
        found.setdefault(mine.txn_id, set()).update(
            theirs.txn_id
            for theirs in locks
            if theirs.txn_id
            and theirs.txn_id != mine.txn_id
            and theirs.lock_id < mine.lock_id
            and matrix.blocker(mine.component, mine.txn_id, [theirs]) is not None
        )
    return found


def find_deadlock(txn_id: int, locks: Sequence[LockInfo], matrix: LockMatrix) -> tuple[int, ...]:
    return find_circle(txn_id, lambda txn_ids: edges(locks, matrix, txn_ids))


def test_circle_of_two_is_found() -> None:
    locks = [
        lock(1, on(X, "t"), txn_id=5),
        lock(2, on(X, "u"), txn_id=6),
        lock(3, on(X, "u"), WAITING, txn_id=5),
        lock(4, on(X, "t"), WAITING, txn_id=6),
    ]
    assert set(find_deadlock(5, locks, HIVE_4)) == {5, 6}
    assert set(find_deadlock(6, locks, HIVE_4)) == {5, 6}
    assert find_deadlock(5, locks[:3], HIVE_4) == ()
    assert find_deadlock(99, locks, HIVE_4) == ()


def test_circle_of_three_is_found_and_bystanders_are_not_in_it() -> None:
    tables = ["t", "u", "v"]
    held = [lock(number, on(X, table), txn_id=number) for number, table in enumerate(tables, 1)]
    asked = [lock(10 + number, on(X, tables[number % 3]), WAITING, txn_id=number) for number in (1, 2, 3)]
    bystander = lock(20, on(X, "t"), WAITING, txn_id=9)
    assert find_deadlock(1, [*held, *asked, bystander], HIVE_4) == (1, 2, 3)
    assert find_deadlock(9, [*held, *asked, bystander], HIVE_4) == ()


def test_circle_through_the_queue_is_found() -> None:
    # 1 reads t, 2 waits to drop it, and 1's second read of t stands behind 2 in the queue.
    locks = [
        lock(1, on(R), txn_id=1),
        lock(2, on(E), WAITING, txn_id=2),
        lock(3, on(W, "u"), txn_id=2),
        lock(4, on(E, "u"), WAITING, txn_id=1),
    ]
    assert set(find_deadlock(1, locks, HIVE_4)) == {1, 2}


@given(
    st.lists(st.tuples(st.sampled_from(LockType), st.sampled_from("tu"), st.integers(1, 4), st.booleans()), max_size=12)
)
def test_a_circle_is_one_in_which_each_waits_for_the_next(drawn: list[tuple[LockType, str, int, bool]]) -> None:
    locks = [
        lock(number, on(kind, table), WAITING if waiting else ACQUIRED, txn_id)
        for number, (kind, table, txn_id, waiting) in enumerate(drawn, 1)
    ]
    for txn_id in range(1, 5):
        circle = find_deadlock(txn_id, locks, HIVE_4)
        for one, following in zip(circle, [*circle[1:], *circle[:1]], strict=True):
            assert any(
                mine.state is WAITING and mine.txn_id == one and waits(HIVE_4, mine.component, theirs, txn_id=one)
                for mine in locks
                for theirs in locks
                if theirs.txn_id == following and theirs.lock_id < mine.lock_id
            )


def test_stricter_lock_on_the_same_or_a_wider_thing_covers_another() -> None:
    assert covers(on(E), on(R))
    assert covers(on(E), on(E, "t", "p=1"))
    assert covers(on(E, None), on(X, "t", "p=1"))
    assert not covers(on(R), on(X))
    assert covers(on(R, None), on(R, None))
    assert not covers(on(R, None), on(R))
    assert not covers(on(E, "t", "p=1"), on(R))
    assert not covers(on(E, "u"), on(R, "t"))
    assert not covers(on(E, None, database="e"), on(R))


@example((R, (None, None)), (R, ("t", None)), (E, ("t", None)))
@example((E, ("t", None)), (X, ("t", None)), (R, (None, None)))
@given(*[st.tuples(st.sampled_from(LockType), st.sampled_from([(None, None), ("t", None), ("t", "p=1")]))] * 3)
def test_who_bears_the_covering_lock_bears_the_covered_one(
    held: tuple[LockType, tuple[str | None, str | None]],
    asked: tuple[LockType, tuple[str | None, str | None]],
    other: tuple[LockType, tuple[str | None, str | None]],
) -> None:
    first, second, third = (on(kind, *level) for kind, level in (held, asked, other))
    for matrix in (HIVE_4, HIVE_2_3):
        together = not waits(matrix, first, lock(1, third)) and not waits(matrix, third, lock(1, first))
        if covers(first, second) and together:
            assert not waits(matrix, second, lock(1, third))


def test_line_of_show_locks_has_hive_columns() -> None:
    held = LockInfo(4, 2, 7, on(R, "t", "p=1"), ACQUIRED, TIME, TIME, TIME, "joe", "here", "dag run 1", blocked_by=None)
    assert dict(zip(SHOW_LOCKS_COLUMNS, show_row(held), strict=True)) == {
        "lockid": "4.2",
        "database": "d",
        "table": "t",
        "partition": "p=1",
        "lock_state": "ACQUIRED",
        "blocked_by": " " * 12,
        "lock_type": "SHARED_READ",
        "transaction_id": "7",
        "last_heartbeat": "1767225600000",
        "acquired_at": "1767225600000",
        "user": "joe",
        "hostname": "here",
        "agent_info": "dag run 1",
    }
    waiting = LockInfo(5, 1, None, on(E, None), WAITING, TIME, TIME, None, "joe", "here", blocked_by=(4, 2))
    assert show_row(waiting)[2:6] == (None, None, "WAITING", "4.2")
    assert show_row(waiting)[7:] == (None, "1767225600000", None, "joe", "here", None)


def test_show_locks_has_acquired_ones_first_then_the_mildest() -> None:
    locks = [lock(1, on(E), WAITING), lock(2, on(X)), lock(3, on(R)), lock(4, on(R), internal_id=2), lock(4, on(R))]
    ordered = sorted(locks, key=show_order)
    assert [(each.lock_id, each.internal_id) for each in ordered] == [(3, 1), (4, 1), (4, 2), (2, 1), (1, 1)]


def test_blocker_is_described_for_people() -> None:
    held = LockInfo(4, 2, 7, on(X), ACQUIRED, TIME, TIME, TIME, "joe", "here", "daily run of 2026-01-01")
    assert held.describe() == (
        "joe on here (daily run of 2026-01-01) holds EXCL_WRITE on d/t since 2026-01-01 00:00:00 UTC "
        "(lock 4.2, transaction 7)"
    )
