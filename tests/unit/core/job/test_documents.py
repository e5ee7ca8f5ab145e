from __future__ import annotations

import dataclasses
import json
import types
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    ColumnCountMismatchError,
    ExecutorsLostError,
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    JobCancelledError,
    JobError,
    NoSuchColumnError,
    SparkProcessError,
    StorageError,
    TypeMismatchError,
)
from airflow_hivex.core.job.documents import (
    error_to_json,
    plan_from_json,
    plan_to_json,
    result_from_json,
    result_to_json,
)
from airflow_hivex.core.model.objects import Column, SortColumn
from airflow_hivex.core.model.plans import (
    Compaction,
    JobResult,
    Plan,
    Scan,
    ScanPart,
    Write,
    WriteIdFilter,
    WrittenDirectory,
)

COLUMNS = (Column("a", "int", "a comment"), Column("b", "string"))


def test_plan_survives_its_document() -> None:
    plan = Plan(
        tag="t",
        name="a job",
        sql="SELECT :x",
        scans=(
            Scan(
                view="v",
                table="d.t",
                columns=COLUMNS,
                partition_columns=(Column("p", "date"),),
                format="orc",
                base_path="file:///t",
                parts=(
                    ScanPart(("file:///t/p=1/delta_0000001_0000001_0000",), "file:///t", "flat", files=2),
                    ScanPart(("file:///u",), "file:///u", values=(None, "x")),
                ),
                options={"header": "true"},
                is_transactional=True,
                deletes=(ScanPart(("file:///t/p=1/delete_delta_0000002_0000002_0000",), "file:///t", "flat"),),
                filter=WriteIdFilter(7, (2, 3)),
            ),
        ),
        parameters={
            "none": None,
            "bool": True,
            "int": 2**60,
            "float": 0.1,
            "infinite": float("inf"),
            "text": "it's",
            "decimal": Decimal("1.50"),
            "date": date(2013, 1, 1),
            "moment": datetime(2013, 1, 1, 12, tzinfo=UTC),
            "local": datetime(2013, 1, 1, 12, 0, 0, 5),  # noqa: DTZ001
            "bytes": b"\0\xff",
            "list": [1, "x", None],
            "span": timedelta(days=1, microseconds=1),
        },
        max_rows=5,
        write=Write(
            path="file:///w",
            table="d.w",
            columns=COLUMNS,
            partition_columns=(Column("p", "string"),),
            write_id=3,
            statement_id=1,
            static={"p": None},
            input_columns=("b",),
            bucket_columns=("a",),
            sort_columns=(SortColumn("b", ascending=False),),
            num_buckets=4,
            compacted=(1, 3, 9),
        ),
        compaction=Compaction((ScanPart(("file:///t/delete_delta_1_1",), "file:///t", "flat", files=1),), True, 5, 70),
        scheduler_pool="night",
        spark_conf={"spark.sql.shuffle.partitions": "3"},
    )
    assert plan_from_json(plan_to_json(plan)) == plan


def whole(of: Any) -> st.SearchStrategy[Any]:
    """Return values of a type of plans in which no field is left to its default."""
    if dataclasses.is_dataclass(of):
        hints = get_type_hints(of)
        return st.builds(of, **{name: whole(hints[name]) for name in hints if name != "parameters"})
    arguments = get_args(of)
    if get_origin(of) is tuple and arguments[-1] is Ellipsis:
        return st.lists(whole(arguments[0]), max_size=2).map(tuple)
    if get_origin(of) in (Union, types.UnionType):
        return st.one_of(*(whole(each) for each in reversed(arguments)))
    return st.from_type(of)


@settings(suppress_health_check=list(HealthCheck), max_examples=30, deadline=None)
@given(whole(Plan))
def test_every_plan_survives_its_document(plan: Plan) -> None:
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_parameter_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(InvalidParametersError, match="Parameter x is of type set"):
        plan_to_json(Plan("t", "n", "SELECT :x", parameters={"x": {1}}))


def test_a_plan_of_another_version_is_refused() -> None:
    document = json.loads(plan_to_json(Plan("t", "n", "SELECT 1")))
    with pytest.raises(InvalidOperationError, match="version 99"):
        plan_from_json(json.dumps({**document, "version": 99}))


def test_directories_survive_their_document() -> None:
    written = WrittenDirectory("p=1", ("1", None), "base_0000001", 2, 3, 400)
    assert result_from_json(result_to_json(JobResult(directories=(written,))), "c1").directories == (written,)


def test_rows_keep_their_types() -> None:
    table = pa.table(
        {
            "c0": pa.array([Decimal("1.10"), None], pa.decimal128(5, 2)),
            "c1": pa.array([{"k": 1}, None], pa.map_(pa.string(), pa.int32())),
            "c2": pa.array([[([1], 2)], None], pa.map_(pa.list_(pa.int32()), pa.int32())),
            "c3": pa.array([datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        }
    )
    columns = tuple(Column(name, "any") for name in ("a", "a", "m", "t"))
    result = result_from_json(result_to_json(JobResult(columns, truncated=True), table), "c1")
    assert result.rows == (
        (Decimal("1.10"), {"k": 1}, [([1], 2)], datetime(2020, 1, 1, tzinfo=UTC)),
        (None, None, None, None),
    )
    assert result.columns == columns
    assert result.truncated


def test_a_value_that_python_cannot_hold_is_a_clear_error() -> None:
    table = pa.table({"c0": pa.array([400_000_000_000_000_000], pa.timestamp("us", "UTC"))})
    document = result_to_json(JobResult((Column("moment", "timestamp"),)), table)
    with pytest.raises(JobError, match=r"column moment of type timestamp .* CAST it to STRING"):
        result_from_json(document, "c1")
    table = pa.table({"c0": pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())})
    with pytest.raises(JobError, match=r"column name of type string .* CAST it to BINARY"):
        result_from_json(result_to_json(JobResult((Column("name", "string"),)), table), "c1")


@pytest.mark.parametrize(
    "error",
    [
        AnalysisError("no such column"),
        TypeMismatchError("d.t", "a", "int", "a string"),
        ColumnCountMismatchError("d.t", 2, 1, ("a", "b")),
        NoSuchColumnError("d.t", "z", ("a", "b")),
        InvalidOperationError("INSERT", "d.t", "why not"),
        JobError("c1", "overflow"),
        JobCancelledError("c1"),
        ExecutorsLostError("c1", "an executor was killed"),
        ClusterUnreachableError("c1", "nothing answers at sc://host:15002"),
        SparkProcessError("c1", "Java heap space"),
        StorageError("file:///c1/t", "it is full"),
    ],
)
def test_errors_survive_their_document(error: HivexError) -> None:
    with pytest.raises(type(error)) as caught:
        result_from_json(error_to_json(error), "c1")
    assert str(caught.value) == str(error)
    assert caught.value.facts == error.facts
