"""Plans and results as JSON documents, which are sent to a cluster and back.

Values keep their types: parameters are tagged, rows are sent as Arrow. A failed job also returns a document, which
becomes a HivexError in the caller's process.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    ColumnCountMismatchError,
    ConstraintViolationError,
    ExecutorsLostError,
    FolderExpectedError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    JobCancelledError,
    JobCause,
    JobError,
    MergeCardinalityError,
    NoSuchColumnError,
    ReplaceConditionError,
    RootUnseenError,
    SparkProcessError,
    StorageError,
    TypeMismatchError,
    UnreadableTextError,
    WrittenRowsMissingError,
)
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import VERSION, JobResult, Plan

# A frame of a stack of Java or Python, or the number of left out frames.
_FRAME = re.compile(r"\s+(?:at |\.\.\. \d+ more|File \")|\s*Traceback ")
_LONGEST_CAUSE = 4000

_ERRORS: dict[str, type[HivexError]] = {
    error.code: error
    for error in (
        AnalysisError,
        ColumnCountMismatchError,
        InvalidObjectError,
        InvalidOperationError,
        InvalidParametersError,
        ConstraintViolationError,
        ReplaceConditionError,
        MergeCardinalityError,
        NoSuchColumnError,
        FolderExpectedError,
        RootUnseenError,
        StorageError,
        TypeMismatchError,
        UnreadableTextError,
        WrittenRowsMissingError,
    )
}

_JOB_ERRORS: dict[str, type[JobError]] = {
    "cancelled": JobCancelledError,
    "lost": ExecutorsLostError,
    "unreachable": ClusterUnreachableError,
    "process": SparkProcessError,
}


def plan_to_json(plan: Plan) -> str:
    """Return the document of a plan.

    Raises:
        InvalidParametersError: the type of a parameter is not supported.
    """
    document = plain(plan, without="parameters")
    document["version"] = VERSION
    document["parameters"] = {name: _tagged(name, value) for name, value in plan.parameters.items()}
    return json.dumps(document)


def plan_from_json(text: str) -> Plan:
    """Return the plan of a document.

    Raises:
        InvalidOperationError: the document has the version of another release.
    """
    document = json.loads(text)
    version = document.pop("version")
    if version != VERSION:
        raise InvalidOperationError("A job of", f"version {version}", f"this release runs plans of version {VERSION}")
    document["parameters"] = {name: _untagged(value) for name, value in document["parameters"].items()}
    return built(Plan, document)


def result_to_json(result: JobResult, rows: pa.Table | None = None) -> str:
    """Return the document of a result; ``rows`` has the rows of a query as an Arrow table."""
    document = {"version": VERSION, **plain(dataclasses.replace(result, rows=()))}
    document["rows"] = None if rows is None else _arrow_to_text(rows)
    return json.dumps(document)


def error_to_json(error: HivexError, cause: BaseException | None = None) -> str:
    """Return the document of a failed job, with the message of its cause."""
    said = {"cause": _cause(cause)} if cause is not None and cause is not error else {}
    if isinstance(error, JobError):
        kind = next((kind for kind, of_kind in _JOB_ERRORS.items() if type(error) is of_kind), "job")
        return json.dumps({"version": VERSION, "error": {"kind": kind, "facts": list(error.facts[1:]), **said}})
    return json.dumps({"version": VERSION, "error": {"kind": error.code, "facts": plain(error.facts), **said}})


def is_error(text: str) -> bool:
    """Return whether a document is the document of a failed job."""
    return "error" in json.loads(text)


def _cause(error: BaseException) -> str:
    """Return the texts of an exception and of its causes, without the frames of their stacks."""
    lines = [f"{type(error).__name__}: {error}", *(f"caused by {each!r}" for each in _causes_of(error))]
    shown = [line for line in "\n".join(lines).splitlines() if not _FRAME.match(line)]
    return "\n".join(dict.fromkeys(shown))[:_LONGEST_CAUSE]


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    following = error.__cause__ or error.__context__
    while following is not None:
        yield following
        following = following.__cause__ or following.__context__


def result_from_json(text: str, cluster: str) -> JobResult:
    """Return the result from the document of a job on ``cluster``.

    Timestamps have the time zone UTC, values of TIMESTAMP_NTZ have no time zone, and decimals are exact. Arrays become
    lists; structs and maps become dicts. A map whose keys are structs or arrays becomes a list of pairs.

    Raises:
        HivexError: the job failed: AnalysisError and similar errors about the statement, JobCancelledError if it was
            stopped, JobError for any other failure.
    """
    document = json.loads(text)
    if "error" in document:
        cause = document["error"].get("cause")
        raise _error(document["error"], cluster) from (JobCause(cause) if cause else None)
    result = built(JobResult, {name: value for name, value in document.items() if name not in ("version", "rows")})
    if document["rows"] is None:
        return result
    return dataclasses.replace(result, rows=_rows(_text_to_arrow(document["rows"]), result.columns, cluster))


def _error(document: Mapping[str, Any], cluster: str) -> HivexError:
    facts: list[Any] = [tuple(fact) if isinstance(fact, list) else fact for fact in document["facts"]]
    if document["kind"] in _ERRORS:
        return _ERRORS[document["kind"]](*facts)
    return _JOB_ERRORS.get(document["kind"], JobError)(cluster, *facts)


# -- parameters ----------------------------------------------------------------------


def _tagged(name: str, value: object) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": value.hex()}
        case Decimal():
            return {"decimal": str(value)}
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case timedelta():
            return {"microseconds": str(value // timedelta(microseconds=1))}
        case bytes() | bytearray():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case list() | tuple():
            return {"list": [_tagged(name, item) for item in value]}
    raise InvalidParametersError(
        f"Parameter {name} is of type {type(value).__name__}; a query takes numbers, text, bytes, dates, "
        "times, lists of those and None."
    )


def _untagged(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "list":
            return [_untagged(item) for item in content]
        case "bytes":
            return base64.b64decode(content)
        case "microseconds":
            return timedelta(microseconds=int(content))
    readers: dict[str, Any] = {
        "int": int,
        "float": float.fromhex,
        "decimal": Decimal,
        "date": date.fromisoformat,
        "datetime": datetime.fromisoformat,
    }
    return readers[tag](content)


# -- rows ----------------------------------------------------------------------------


def _arrow_to_text(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _text_to_arrow(text: str) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_all()


def _rows(table: pa.Table, columns: Sequence[Column], cluster: str) -> tuple[tuple[object, ...], ...]:
    values = []
    for column, data in zip(columns, table.columns, strict=True):
        try:
            values.append(data.to_pylist(maps_as_pydicts="lossy" if _has_plain_maps(data.type) else None))
        except (ValueError, OverflowError) as error:
            # Spark's texts are bytes, which no function checks.
            advice = "BINARY" if isinstance(error, UnicodeDecodeError) else "STRING"
            raise JobError(
                cluster,
                f"column {column.name} of type {column.type} holds a value that Python cannot hold ({error}); "
                f"CAST it to {advice}",
            ) from error
    return tuple(zip(*values, strict=True)) if values else ((),) * table.num_rows


def _has_plain_maps(type: pa.DataType) -> bool:
    """Return whether every key of every map in the type can be a dict's key."""
    if pa.types.is_map(type) and pa.types.is_nested(type.key_type):
        return False
    return all(_has_plain_maps(type.field(i).type) for i in range(type.num_fields))


# Frozen dataclasses as plain JSON values and back, by the types of their fields.
#
# A new field of a plan needs nothing here. Types are those that plans have: dataclasses, tuples, mappings of texts,
# values of JSON, and None.


T = TypeVar("T")
Builder = Callable[[Any], Any]

_SCALARS = frozenset({str, int, float, bool, type(None)})


def plain(value: Any, without: str = "") -> Any:
    """Return a value as JSON.

    A dataclass becomes an object without the field ``without``, and a sequence becomes a list.
    """
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if names := _field_names(kind):
        return {name: plain(getattr(value, name), without) for name in names if name != without}
    if isinstance(value, Mapping):
        return {key: plain(item, without) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item, without) for item in value]
    return value


@cache
def _field_names(of: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, or an empty tuple for any other type."""
    return tuple(field.name for field in dataclasses.fields(of)) if dataclasses.is_dataclass(of) else ()


def built(of: type[T], document: Mapping[str, Any]) -> T:
    """Return a dataclass from a document of :func:`plain`. Fields that the document lacks get their defaults.

    Raises:
        TypeError: the document has other fields.
    """
    kind: Any = of
    build = _builder(kind)
    assert build is not None, "a dataclass has a builder"
    made: T = build(document)
    return made


@cache
def _builder(of: Any) -> Builder | None:
    """Return the function that makes a value of a type from JSON, or None if the JSON value needs no conversion."""
    if dataclasses.is_dataclass(of):
        return _of_dataclass(of)
    arguments = get_args(of)
    if get_origin(of) is tuple:
        return _of_tuple(arguments)
    if get_origin(of) in (Union, types.UnionType):
        # A field's None needs no builder.
        (inner,) = {_builder(each) for each in arguments if each is not types.NoneType}
        return inner
    return None


def _of_dataclass(of: Any) -> Builder:
    hints = get_type_hints(of)
    found = {field.name: _builder(hints[field.name]) for field in dataclasses.fields(of)}
    builders = [(name, build) for name, build in found.items() if build is not None]

    def build(document: Mapping[str, Any]) -> Any:
        values = dict(document)
        for name, part in builders:
            given = values.get(name)
            if given is not None:
                values[name] = part(given)
        return of(**values)

    return build


def _of_tuple(arguments: tuple[Any, ...]) -> Builder:
    if arguments[-1] is not Ellipsis and any(map(_builder, arguments)):
        raise TypeError("a tuple of parts of several types has values of JSON only")
    inner = _builder(arguments[0])
    return tuple if inner is None else lambda values: tuple(map(inner, values))
