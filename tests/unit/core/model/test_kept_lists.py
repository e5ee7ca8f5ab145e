"""Lists that are kept with what was read, and carried on by commits."""

from __future__ import annotations

import random

import pytest

from airflow_hivex.core.model.write_ids import ValidWriteIdList, covers, equivalent, with_committed


def of(high_watermark: int, *exceptions: int) -> ValidWriteIdList:
    return ValidWriteIdList.of("default.t", high_watermark, exceptions)


def seen(ids: ValidWriteIdList) -> set[int]:
    return {each for each in range(1, 40) if ids.is_valid(each)}


def drawn(random: random.Random) -> ValidWriteIdList:
    high_watermark = random.randint(0, 12)
    exceptions = {each for each in range(1, high_watermark + 1) if random.random() < 0.4}
    aborted = {each for each in exceptions if random.random() < 0.5}
    return ValidWriteIdList.of("default.t", high_watermark, exceptions - aborted, aborted)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (of(12, 7, 8), of(12, 7, 8), True),
        (of(12, 7), of(12, 7, 8), True),
        (of(12, 7, 8), of(12, 7), False),
        (of(14, 7, 8), of(12, 7, 8), True),
        (of(12, 7, 8), of(13, 7, 8, 13), True),
        (of(12, 7, 8), of(13, 7, 8), False),
        (of(0), of(3, 1, 2, 3), True),
    ],
)
def test_list_covers_another_one(a: ValidWriteIdList, b: ValidWriteIdList, expected: bool) -> None:
    assert covers(a, b) is expected


def test_covering_is_having_all_committed_ids() -> None:
    random_ = random.Random(17)
    for _ in range(5_000):
        a, b = drawn(random_), drawn(random_)
        assert covers(a, b) is (seen(a) >= seen(b)), (a, b)


def test_commit_adds_one_id() -> None:
    random_ = random.Random(18)
    for _ in range(5_000):
        ids, write_id = drawn(random_), random_.randint(1, 16)
        carried = with_committed(ids, write_id)
        assert seen(carried) == seen(ids) | {write_id}, (ids, write_id)
        assert equivalent(carried, ValidWriteIdList.parse(str(carried)))
        assert carried.min_open == (carried.open_ids[0] if carried.open_ids else None)
