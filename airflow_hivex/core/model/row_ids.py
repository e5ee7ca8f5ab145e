"""Row ids: the bucket property, the row ids of rows in original files, and the column ``ROW__ID`` in a query.

The parser does not know which tables have row ids. It records each place of ``ROW__ID`` in a query as a value of this
module. Source: docs/reference/directories.md; Hive's BucketCodec, VirtualColumn.ROWID and RecordIdentifier.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_hivex.core.model.directories import MAX_STATEMENT_ID

ROW_ID = "ROW__ID"
"""Hive's name of the virtual column with a row id. Its fields are ``writeid``, ``bucketid`` and ``rowid``."""
WRITTEN_BITS = 33
"""The number of bits of a row id from a write. Row ids from a rebalance are larger.

A rebalance stores the id of its transaction in the higher bits, so that its row ids are unique in the table.
"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tables and sub-queries in the FROM clause of one SELECT (a scope) that can have a column ROW__ID.

    Each of ``tables`` and ``through`` is the index of a table among the query's table references. The FROM clause names
    ``tables`` directly, and has a sub-query with a star over the tables ``through``. Such a star contains ROW__ID only
    if the table declares a column of this name. ``named`` is the number of columns ROW__ID in sub-queries. ``others``
    are the aliases of the sources that are not tables. ``is_open`` is true if it is not known whether another source
    has such a column. ``is_pivoted`` is true if a PIVOT removes the columns.
    """

    tables: tuple[int, ...] = ()
    through: tuple[int, ...] = ()
    named: int = 0
    others: tuple[str, ...] = ()
    is_open: bool = False
    is_pivoted: bool = False


@dataclass(frozen=True, slots=True)
class RowIdUse:
    """A place, from ``start`` to ``end`` in a query, where the name ROW__ID can mean the virtual column.

    ``scopes`` are the scopes in which the name is looked up, the innermost one first. ``alias`` is the name of the
    column in the result, if the query has no alias for it.
    """

    start: int
    end: int
    scopes: tuple[Candidates, ...]
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnStar:
    """A star that stands for all columns of ``tables``.

    To exclude columns from the star, replace the text from ``start`` to ``end`` by ``before``, the names of the
    excluded columns, and ``after``.
    """

    start: int
    end: int
    before: str
    after: str
    tables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowIdReads:
    """The uses of ROW__ID in a query.

    ``result`` are the possible sources of a column ROW__ID in the result of the query. If ``is_named_otherwise`` is
    true, the query also uses the name ROW__ID for something that is not a column.
    """

    uses: tuple[RowIdUse, ...] = ()
    stars: tuple[ColumnStar, ...] = ()
    result: Candidates = Candidates()
    is_named_otherwise: bool = False


MAX_WRITER_ID = 4095
"""The highest bucket id that fits the field for bucket ids. Higher bucket ids also use the field for statement ids."""

VERSION_SHIFT = 29
WRITER_SHIFT = 16

_FIELD_BITS = 12
_FIELD_MASK = (1 << _FIELD_BITS) - 1


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """The version, bucket id and statement id of a bucket property.

    A bucket property of version 0 is the bucket id itself, and has no statement id.
    """

    version: int
    bucket_id: int
    statement_id: int


def encode_bucket(bucket_id: int, statement_id: int = 0, max_statement_id: int | None = None) -> int:
    """Return the bucket property in version 1. A negative statement id becomes 0.

    ``max_statement_id`` is the highest statement id that is ever used. Bucket ids above :data:`MAX_WRITER_ID` need it.

    Raises:
        ValueError: the bucket or statement id does not fit.
    """
    statement = max(statement_id, 0)
    if statement > MAX_STATEMENT_ID:
        raise ValueError(f"statement id {statement_id} is above {MAX_STATEMENT_ID}")
    if bucket_id < 0:
        raise ValueError(f"bucket id {bucket_id} is negative")
    overflow = bucket_id >> _FIELD_BITS
    if overflow or max_statement_id is not None:
        bits = _statement_bits(max_statement_id, bucket_id)
        if statement.bit_length() > bits:
            raise ValueError(f"statement id {statement_id} is above the highest one announced, {max_statement_id}")
        if overflow.bit_length() > _FIELD_BITS - bits:
            raise ValueError(f"bucket id {bucket_id} does not fit with statement ids up to {max_statement_id}")
        statement |= overflow << bits
    return 1 << VERSION_SHIFT | (bucket_id & _FIELD_MASK) << WRITER_SHIFT | statement


def decode_bucket(value: int, max_statement_id: int | None = None) -> BucketProperty:
    """Return the fields of a bucket property. ``max_statement_id`` must be the same as in :func:`encode_bucket`.

    Raises:
        ValueError: the version of the property is neither 0 nor 1.
    """
    version = (value & 0xFFFFFFFF) >> VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, value, 0)
    if version != 1:
        raise ValueError(f"bucket property {value} has version {version}; known are 0 and 1")
    writer, field = value >> WRITER_SHIFT & _FIELD_MASK, value & _FIELD_MASK
    if max_statement_id is None:
        return BucketProperty(1, writer, field)
    bits = _statement_bits(max_statement_id, writer)
    return BucketProperty(1, writer | field >> bits << _FIELD_BITS, field & (1 << bits) - 1)


def _statement_bits(max_statement_id: int | None, bucket_id: int) -> int:
    if max_statement_id is None:
        raise ValueError(f"bucket id {bucket_id} is above {MAX_WRITER_ID} and the highest statement id is not known")
    if not 0 <= max_statement_id <= MAX_STATEMENT_ID:
        raise ValueError(f"highest statement id {max_statement_id} is not between 0 and {MAX_STATEMENT_ID}")
    return max_statement_id.bit_length()


# The row ids of original files: plain files that lie in a table from before it was transactional.
#
# They have no metadata columns. Their rows have operation 0 and the write id 0, or the write id of the delta in which a
# real Hive's LOAD DATA has put the file; bucket and row id follow from the files' names and numbers of rows.
# Source: docs/reference/directories.md, "Original files".


ORIGINAL_WRITE_ID = 0
"""The write id of rows in original files. Every snapshot sees it."""

_HIVE_NAME = re.compile(r"([0-9]+)_[0-9]+(?:_copy_[0-9]+)?")


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """An original file. Its rows have consecutive row ids, from ``first_row_id``, in the bucket ``bucket_id``."""

    name: str
    bucket_id: int
    first_row_id: int
    rows: int


def number_files(files: Iterable[tuple[str, int]]) -> tuple[NumberedFile, ...]:
    """Return the buckets and first row ids of original files. ``files`` are pairs of a name and a number of rows.

    Names are relative to the partition. As in Hive, a file ``BBBBBB_A`` or ``BBBBBB_A_copy_N`` is in the bucket
    ``BBBBBB``, and the rows of a bucket are numbered in the order of the names of its files. Files with other names,
    such as those from Spark, are put into the buckets 0, 1, 2, ... in the order of their names. In each bucket their
    rows come last.
    """
    in_order = sorted(files, key=lambda file: _java_order(file[0]))
    numbered = []
    rows_before: Counter[int] = Counter()
    others = []
    for name, rows in in_order:
        bucket_id = hive_bucket(name)
        if bucket_id is None:
            others.append((name, rows))
        else:
            numbered.append(NumberedFile(name, bucket_id, rows_before[bucket_id], rows))
            rows_before[bucket_id] += rows
    for place, (name, rows) in enumerate(others):
        bucket_id = place % (MAX_WRITER_ID + 1)
        numbered.append(NumberedFile(name, bucket_id, rows_before[bucket_id], rows))
        rows_before[bucket_id] += rows
    return tuple(numbered)


def hive_bucket(name: str) -> int | None:
    """Return the bucket in a file name of Hive's form, or None for any other name or too large a bucket."""
    found = _HIVE_NAME.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found and int(found[1]) <= MAX_WRITER_ID else None


def _java_order(name: str) -> bytes:
    # Hive compares paths as Java does, by UTF-16 units.
    return name.encode("utf-16-be", "surrogatepass")
