"""The bucket property: which writer made a row, in which statement, as one int.

Source: docs/reference/directories.md, "Bucket property" (Hive BucketCodec).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.model.directories import MAX_STATEMENT_ID

MAX_WRITER_ID = 4095
"""The highest bucket id that has a field of its own; higher ones borrow bits of the statement id."""

VERSION_SHIFT = 29
WRITER_SHIFT = 16

_FIELD_BITS = 12
_FIELD_MASK = (1 << _FIELD_BITS) - 1


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """The parts of a bucket property. Version 0 is a plain bucket id and knows no statement."""

    version: int
    bucket_id: int
    statement_id: int


def encode_bucket(bucket_id: int, statement_id: int = 0, max_statement_id: int | None = None) -> int:
    """Return the bucket property, version 1; a statement id below 0 counts as 0.

    Bucket ids above :data:`MAX_WRITER_ID` need ``max_statement_id``, the highest statement id
    that will ever be used: the bits that it leaves free hold the rest of the bucket id.

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
    """Return the parts of a bucket property; ``max_statement_id`` as it was encoded with.

    Raises:
        ValueError: its version is neither 0 nor 1.
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
