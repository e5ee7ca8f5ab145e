"""Our choice of directories is Hive's, for any listing that Hive 2.3 can have.

The listings have nothing that Hive 2.3 does not know: no visibility suffixes, and no bases of overwrites. For these our
rule is stricter than that of Hive (docs/reference/directories.md, "Directories of a snapshot").
Directories whose write ids are all aborted are ``aborted`` for us; Hive 2.3 does not mention them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from airflow_hivex.core.errors import NotEnoughHistoryError
from airflow_hivex.core.model.directories import FIRST_COMPACTION, directory_state
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from tests.hive_oracle import HiveState, state, transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HIGHEST = 12
NOT_ENOUGH_HISTORY = "Not enough history"

ids = st.integers(1, HIGHEST)
padded = st.sampled_from(["{:07d}", "{:d}"])


@st.composite
def delta_names(draw: st.DrawFn) -> str:
    lo, hi = sorted((draw(ids), draw(ids))) if draw(st.booleans()) else [draw(ids)] * 2
    kind = draw(st.sampled_from(["delta", "delete_delta"]))
    statement = draw(st.sampled_from(["", "_0000", "_0001", "_0007"]))
    form = draw(padded)
    return f"{kind}_{form.format(lo)}_{form.format(hi)}{statement}"


@st.composite
def listings(draw: st.DrawFn) -> list[str]:
    numbers = draw(st.sets(st.one_of(ids, st.just(FIRST_COMPACTION)), max_size=3))
    bases = [f"base_{draw(padded).format(number)}" for number in numbers]
    deltas = draw(st.sets(delta_names(), max_size=7))
    others = draw(st.sets(st.sampled_from(["000000_0", "000001_0_copy_1", "sub", "_tmp", ".hive-staging"]), max_size=3))
    return sorted({*bases, *deltas, *others})


@st.composite
def write_id_lists(draw: st.DrawFn) -> ValidWriteIdList:
    high_watermark = draw(st.integers(0, HIGHEST + 1))
    known = st.sets(st.integers(1, high_watermark), max_size=4) if high_watermark else st.just(set())
    opened, aborted = draw(known), draw(known)
    return ValidWriteIdList.of("db.t", high_watermark, opened, aborted - opened)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("listings")


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.shrink])
@example(["base_5", "delta_6_6"], ValidWriteIdList.of("db.t", 6, open_ids=[3]))
@example(["base_5", "delta_1_3", "delta_6_6"], ValidWriteIdList.of("db.t", 6, aborted_ids=[3]))
@example(["delta_1_3", "delta_2_6", "delta_4_4"], ValidWriteIdList.of("db.t", 6))
@given(names=listings(), write_ids=write_id_lists())
def test_hive_reads_the_same_directories(
    spark: SparkSession, root: Path, names: list[str], write_ids: ValidWriteIdList
) -> None:
    assert of_hive(spark, root, names, write_ids) == ours(names, write_ids)


def of_hive(spark: SparkSession, root: Path, names: list[str], write_ids: ValidWriteIdList) -> HiveState | str:
    directory = root / "t"
    directory.mkdir()
    try:
        for name in names:
            if name[0].isdigit():
                (directory / name).touch()
            else:
                (directory / name).mkdir()
                (directory / name / "000000_0").touch()
        return state(spark, directory, transactions(write_ids))
    except Py4JJavaError as error:
        if NOT_ENOUGH_HISTORY not in str(error.java_exception):
            raise
        return NOT_ENOUGH_HISTORY
    finally:
        shutil.rmtree(directory)


def ours(names: list[str], write_ids: ValidWriteIdList) -> HiveState | str:
    try:
        found = directory_state(names, write_ids, ValidTxnList.parse(None), compacted_bases=names)
    except NotEnoughHistoryError:
        return NOT_ENOUGH_HISTORY
    originals = [name if name[0].isdigit() else f"{name}/000000_0" for name in found.originals]
    return HiveState(found.base, found.deltas, tuple(sorted(found.obsolete)), tuple(sorted(originals)))
