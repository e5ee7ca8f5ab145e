"""The conversion of flat files to full ACID files of Hive's layout, by editing their tails.

ORC numbers its columns in pre-order. The sixth column of a flat file, a placeholder, has the number that the struct
``row`` needs, and the columns after it have the numbers of the struct's fields. So only the tail is rewritten, for a
file of any size. Like the placeholder, a struct has a stream that says which values are present; readers ignore the
placeholder's other stream. Source: docs/reference/directories.md, "Row layout"; https://orc.apache.org/docs/acid.html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job.orc_tail.tail import Tail, as_job_error, read_tail, replace_tail
from airflow_hivex.core.job.orc_tail.types import BOOLEANS, VALUES, Kind, children, integer_range, kind, names, struct
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import Place

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
"""The fields of a full ACID file, by which readers recognise it."""
KEY_INDEX, STATISTICS, VERSION_KEY = "hive.acid.key.index", "hive.acid.stats", "hive.acid.version"
VERSION = b"2"

_FLAT_KINDS = [Kind.STRUCT, Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.BOOLEAN]
_OPERATION, _ORIGINAL_WRITE_ID, _BUCKET, _ROW_ID = range(1, 5)
WRITE_ID, ROW = 5, 6
KEY = (_ORIGINAL_WRITE_ID, _BUCKET, _ROW_ID)
"""The sort columns of the rows."""
_OPERATIONS = (0, 1, 2)
"""The numbers of the operations insert, update and delete."""


def nest(source: Place, target: Place) -> int:
    """Turn a flat file into a full ACID file of Hive; return its new size in bytes.

    The first six columns of a flat file, with any names, are operation (int), original write id (bigint), bucket (int),
    row id (bigint), write id (bigint) and a boolean placeholder. The placeholder is true for rows, and NULL for delete
    events, which then have a null ``row``. A file has only rows or only events. The columns after the placeholder
    become the fields of ``row``. The rows must be sorted by original write id, bucket and row id, because readers of
    Hive rely on this order.

    The file is moved to ``target``. In a local file system, ``target`` can be ``source`` itself. If either place is not
    in a local file system, the file is copied and ``source`` stays.

    Raises:
        JobError: ``source`` cannot be read, is not an ORC file, or has another form. No file is changed.
    """
    return replace_tail(source, target, nested(source, read_tail(source)))


def nested(file: Place, tail: Tail) -> Tail:
    """Return the tail that turns a flat file into a full ACID file of Hive; see :func:`nest`.

    Raises:
        JobError: the file does not have the needed form.
    """
    _refuse_other_forms(file, tail)
    _refuse_mixtures(file, tail)
    metadata = {KEY_INDEX: _key_index(file, tail), STATISTICS: _counts(file, tail), VERSION_KEY: VERSION}
    return _nested(tail).with_user_metadata(metadata)


def _refuse_other_forms(file: Place, tail: Tail) -> None:
    types = tail.types
    first = list(range(1, ROW + 1))
    if [kind(type_) for type_ in types[: ROW + 1]] != _FLAT_KINDS or children(types[0])[:ROW] != first:
        raise JobError(
            "",
            f"{file.path} is not a flat file of rows: its first columns are not operation, original write id, bucket, "
            "row id, write id and a boolean placeholder; write it with these and try again.",
        )


def _refuse_mixtures(file: Place, tail: Tail) -> None:
    """Refuse a file that has both rows and delete events.

    If ``row`` is null, readers expect that its fields have no values, not even NULL. If ``row`` is null in the whole
    file, readers skip its fields, and values of the fields do no harm.
    """
    if tail.statistics:
        present = tail.statistics[ROW].number(VALUES)
    else:
        stripes = [_values(file, tail, at, [ROW])[0] for at in range(len(tail.stripes))]
        present = sum(len(values) - values.null_count for values in stripes)
    if present not in (0, tail.rows):
        raise JobError(
            "",
            f"{file.path} has {present} rows and {tail.rows - present} delete events; write them to different files.",
        )


def _nested(tail: Tail) -> Tail:
    root, *rest = tail.types
    fields = list(zip(names(root), children(root), strict=True))
    rest[ROW - 1] = struct(root, fields[ROW:])
    tail = tail.with_types([struct(root, list(zip(ACID_FIELDS, range(1, ROW + 1), strict=True))), *rest])
    return tail.with_statistics(_of_struct(tail.statistics)).with_stripe_statistics(
        list(map(_of_struct, tail.stripe_statistics))
    )


def _of_struct(statistics: list[Message]) -> list[Message]:
    """Return the statistics of all columns, with the placeholder's statistics reduced to those of a struct."""
    return [columns.without(BOOLEANS) if at == ROW else columns for at, columns in enumerate(statistics)]


def _key_index(file: Place, tail: Tail) -> bytes:
    """Return the key index: the last key of each stripe. A stripe is read only if its statistics lack the key."""
    statistics = tail.stripe_statistics
    keys = []
    for at in range(len(tail.stripes)):
        ranges = [integer_range(statistics[at][column]) for column in KEY] if at < len(statistics) else [None]
        known = [found for found in ranges if found is not None]
        if len(known) == len(KEY) and all(found.minimum == found.maximum for found in known[:-1]):
            keys.append([found.maximum for found in known])
        else:
            keys.append([values[-1].as_py() for values in _values(file, tail, at, KEY)])
    return "".join(f"{','.join(map(str, key))};" for key in keys).encode()


def _counts(file: Place, tail: Tail) -> bytes:
    """Return the numbers of inserts, updates and deletes, encoded for the tail."""
    counts = [0] * len(_OPERATIONS)
    known = integer_range(tail.statistics[_OPERATION]) if tail.statistics else None
    if known is not None and known.minimum == known.maximum and known.minimum in _OPERATIONS:
        counts[known.minimum] = tail.rows
    else:
        for at in range(len(tail.stripes)):
            (operations,) = _values(file, tail, at, [_OPERATION])
            for operation, count in Counter(operations.to_pylist()).items():
                if operation not in _OPERATIONS:
                    raise JobError("", f"{file.path} has a row with operation {operation}; 0, 1 and 2 are known.")
                counts[operation] += count
    return ",".join(map(str, counts)).encode()


def _values(file: Place, tail: Tail, stripe: int, columns: Sequence[int]) -> list[Any]:
    """Return the values of top-level columns in one stripe."""
    from pyarrow import orc

    chosen = [names(tail.types[0])[column - 1] for column in columns]
    with as_job_error(file), file.open() as data:
        rows = orc.ORCFile(data).read_stripe(stripe, columns=chosen)
    return [rows.column(rows.schema.get_field_index(name)) for name in chosen]
