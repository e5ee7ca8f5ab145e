"""The bucket numbers of rows by Hive's bucketing version 2, vectorised.

Spark's Python workers get this module by value, so it imports no other module of this package. Source: Hive
ObjectInspectorUtils.getBucketHashCode, hashCodeMurmur and Murmur3.hash32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SEED = 104729
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)


def bucket_numbers(columns: Sequence[pa.Array], types: Sequence[str], num_buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each row, from its bucket columns in their declared order.

    ``types`` has the name of each column's primitive type, such as ``decimal``.
    """
    total = np.zeros(len(columns[0]), dtype=np.uint32)
    for column, declared in zip(columns, types, strict=True):
        total = total * np.uint32(31) + bucket_hash(column, declared)
    buckets = (total & np.uint32(0x7FFFFFFF)) % np.uint32(num_buckets)
    return np.asarray(buckets, dtype=np.int32)


def bucket_hash(column: pa.Array, type: str) -> NDArray[np.uint32]:
    """Return the hash of each value as an unsigned number; NULL has the hash 0."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    hashes = _hash(column, type)
    if column.null_count:
        hashes[np.asarray(column.is_null())] = 0
    return hashes


def _hash(column: pa.Array, type: str) -> NDArray[np.uint32]:
    if type in ("boolean", "tinyint"):
        # The values of these two types are their hashes.
        return _filled(column.cast(pa.int8())).astype(np.int32).view(np.uint32)
    if type in ("smallint", "int", "bigint"):
        return _hash_fixed(_filled(column))
    if type == "date":
        return _hash_fixed(_filled(column.cast(pa.int32())))
    if type in ("float", "double"):
        return _hash_fixed(_floating(column))
    if type == "decimal":
        return _hash_binary(pa.array([_decimal_bytes(value) for value in column.to_pylist()], pa.large_binary()))
    if type == "char":
        column = pc.utf8_rtrim(column, characters=" ")
    return _hash_binary(column.cast(pa.large_binary()))


def _filled(column: pa.Array) -> NDArray[Any]:
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values


def _floating(column: pa.Array) -> NDArray[Any]:
    # Hive takes the bits as a whole number, and stores this number as floating point again.
    values = np.array(_filled(column))
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int32 if values.dtype == np.float32 else np.int64)
    return bits.astype(values.dtype)


def _decimal_bytes(value: Any) -> bytes | None:
    # Hive stores a decimal without trailing zeros, as the shortest two's complement.
    if value is None:
        return None
    unscaled, scale = int(value.scaleb(-value.as_tuple().exponent)), -value.as_tuple().exponent
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _hash_fixed(values: NDArray[Any]) -> NDArray[np.uint32]:
    width = values.dtype.itemsize
    data = values.astype(values.dtype.newbyteorder(">")).view(np.uint8)
    return _murmur(data, np.arange(len(values), dtype=np.int64) * width, np.full(len(values), width, dtype=np.int64))


def _hash_binary(column: pa.Array) -> NDArray[np.uint32]:
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", dtype=np.uint8)
    return _murmur(data, offsets[:-1], np.diff(offsets))


def _murmur(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the 32-bit Murmur3 hash of each part of ``data``."""
    hashes = np.full(len(starts), _SEED, dtype=np.uint32)
    blocks = lengths >> 2
    rows = np.flatnonzero(blocks)
    block = 0
    while len(rows):
        at = starts[rows] + 4 * block
        word = sum((data[at + i].astype(np.uint32) << np.uint32(8 * i) for i in range(4)), np.zeros(1, np.uint32))
        mixed = hashes[rows] ^ _scramble(word)
        hashes[rows] = _rotate(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        block += 1
        rows = rows[blocks[rows] > block]
    tails = lengths & 3
    rows = np.flatnonzero(tails)
    word = np.zeros(len(rows), dtype=np.uint32)
    for i in range(3):
        within = tails[rows] > i
        # Hive's tail takes bytes with their sign, unlike the reference Murmur3.
        signed = data[starts[rows[within]] + 4 * blocks[rows[within]] + i].view(np.int8).astype(np.int32)
        word[within] ^= signed.view(np.uint32) << np.uint32(8 * i)
    hashes[rows] ^= _scramble(word)
    hashes ^= lengths.astype(np.uint32)
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _scramble(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotate(word * _C1, 15) * _C2


def _rotate(word: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return word << np.uint32(bits) | word >> np.uint32(32 - bits)


def bucket_number_sql(names: Sequence[str], types: Sequence[str], num_buckets: int) -> str | None:
    """Return Spark SQL for the bucket of a row, or None if only Python can compute it.

    ``names`` are the quoted names of the bucket columns. Spark hashes whole numbers as Hive does, except for the order
    of bytes and the seed.
    """
    hashes = [_hash_sql(name, declared) for name, declared in zip(names, types, strict=True)]
    known = [each for each in hashes if each is not None]
    if len(known) < len(hashes):
        return None
    total = f"CAST({known[0]} AS BIGINT)"
    for each in known[1:]:
        total = f"(({total} & {_UNSIGNED}L) * 31 + {each})"
    return f"CAST(({total} & {0x7FFFFFFF}) % {num_buckets} AS INT)"


_UNSIGNED = 0xFFFFFFFF
_SEEDING = 1867871456
"""The number that turns Spark's seed, 42, into Hive's seed. Spark hashes this number first, and then the value."""


def _hash_sql(name: str, type: str) -> str | None:
    if type in ("boolean", "tinyint"):
        return f"coalesce(CAST({name} AS INT), 0)"
    if type == "date":
        name = f"unix_date({name})"
    elif type not in ("int", "bigint"):
        return None
    width = 8 if type == "bigint" else 4
    byte = [f"(shiftrightunsigned({name}, {8 * i}) & {0xFF})" for i in range(width)]
    reversed_bytes = " | ".join(f"shiftleft({each}, {8 * (width - 1 - i)})" for i, each in enumerate(byte))
    return f"if({name} IS NULL, 0, hash({_SEEDING}, {reversed_bytes}))"


def bucket_number_function(types: Sequence[str], num_buckets: int) -> Any:
    """Return a Spark function from the bucket columns to the bucket of each row."""

    def bucket_number(*columns: pa.Array) -> pa.Array:
        return pa.array(bucket_numbers(columns, types, num_buckets), pa.int32())

    bucket_number.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    # Not imported at the top: executors get this module by value, and need only the imports of the computation.
    from airflow_hivex.core.job import functions

    return functions.arrow_udf(bucket_number, "int")
