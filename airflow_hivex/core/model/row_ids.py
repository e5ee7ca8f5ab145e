"""The ids of rows: the bucket property, the numbers of rows in original files, and ``ROW__ID`` in a query.

Only the catalog knows which tables have row ids. Therefore the parser first reads a query into values of this module.
Source: docs/reference/directories.md; Hive's BucketCodec, VirtualColumn.ROWID and RecordIdentifier.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_hivex.core.model.directories import MAX_STATEMENT_ID

ROW_ID = "ROW__ID"
"""Hive's name of the virtual column. Its fields are ``writeid``, ``bucketid`` and ``rowid``."""
WRITTEN_BITS = 33
"""The number of bits of a row id from a write. A rebalance puts the id of its transaction above these bits.

Therefore row ids from a rebalance are unique in all versions and partitions, and differ from row ids of writes.
"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tables and sub-queries of one scope (a SELECT) from which a name ROW__ID may come.

    A table is given by its index among the query's table references. The scope reads ``tables`` directly. It reads the
    tables ``through`` by a sub-query with a star; the star contains the column only if the table itself has a column of
    this name. ``named`` is the number of columns with this name in sub-queries. ``others`` are the aliases of the
    sources that are not tables. ``is_open`` means that another source may have such a column, ``is_pivoted`` that PIVOT
    removes the columns.
    """

    tables: tuple[int, ...] = ()
    through: tuple[int, ...] = ()
    named: int = 0
    others: tuple[str, ...] = ()
    is_open: bool = False
    is_pivoted: bool = False


@dataclass(frozen=True, slots=True)
class RowIdUse:
    """A place, from ``start`` to ``end`` in a query, where a name may mean the virtual column ROW__ID.

    ``scopes`` are the scopes to search, from the innermost one. ``alias`` is the name of the result's column if the
    query gives no other name.
    """

    start: int
    end: int
    scopes: tuple[Candidates, ...]
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnStar:
    """A star that stands for all columns of ``tables``.

    To exclude columns, replace the text from ``start`` to ``end`` by ``before``, the names of these columns, and
    ``after``.
    """

    start: int
    end: int
    before: str
    after: str
    tables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowIdReads:
    """The uses of ROW__ID in a query.

    ``result`` are the sources of a column with this name in the query's own result. With ``is_named_otherwise`` the
    query also uses the name for another object.
    """

    uses: tuple[RowIdUse, ...] = ()
    stars: tuple[ColumnStar, ...] = ()
    result: Candidates = Candidates()
    is_named_otherwise: bool = False


MAX_WRITER_ID = 4095
"""The highest bucket id that fits the field for bucket ids. Higher ids use bits of the statement id."""

VERSION_SHIFT = 29
WRITER_SHIFT = 16

_FIELD_BITS = 12
_FIELD_MASK = (1 << _FIELD_BITS) - 1


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """The version, bucket id and statement id of a bucket property.

    Version 0 is a plain bucket id without statement id.
    """

    version: int
    bucket_id: int
    statement_id: int


def encode_bucket(bucket_id: int, statement_id: int = 0, max_statement_id: int | None = None) -> int:
    """Return the bucket property in version 1. A statement id below 0 becomes 0.

    Bucket ids above :data:`MAX_WRITER_ID` need ``max_statement_id``, the highest statement id that is ever used. Their
    higher bits are stored in the bits that this statement id leaves free.

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
"""The write id of rows from before the table was transactional; every snapshot sees it."""

_HIVE_NAME = re.compile(r"([0-9]+)_[0-9]+(?:_copy_[0-9]+)?")


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """An original file, whose rows have consecutive row ids from ``first_row_id`` in the bucket ``bucket_id``."""

    name: str
    bucket_id: int
    first_row_id: int
    rows: int


def number_files(files: Iterable[tuple[str, int]]) -> tuple[NumberedFile, ...]:
    """Return the buckets and first row ids of original files. ``files`` are pairs of a name and a number of rows.

    Names are relative to the partition. A name of Hive's form ``BBBBBB_A`` or ``BBBBBB_A_copy_N`` has the number of the
    bucket. As in Hive, the rows of a bucket are numbered through its files in the order of their names. A file with any
    other name, such as a name from Spark, is in the bucket of its position among such files in the order of names. In a
    bucket, the rows of such files come after the rows of files with names of Hive's form.
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
    """Return the bucket in a file name of Hive's form, or None for another name or too large a bucket."""
    found = _HIVE_NAME.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found and int(found[1]) <= MAX_WRITER_ID else None


def _java_order(name: str) -> bytes:
    # Hive compares paths as Java does, by UTF-16 units.
    return name.encode("utf-16-be", "surrogatepass")
