"""The expected numbers come from Hive's own Murmur3 (hive-storage-api), over the bytes that Hive hashes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_hivex.core.job.bucketing import bucket_hash, bucket_numbers


def hashes(values: list[Any], arrow: pa.DataType, type: str) -> list[int]:
    return bucket_hash(pa.array(values, arrow), type).view(np.int32).tolist()


def test_text_is_hashed_with_signed_tail_bytes_as_hive_does() -> None:
    expected = [-885266671, 809524160, -965378730, 0]
    assert hashes(["abc", "é€", "", None], pa.string(), "string") == expected
    assert hashes(["abc", "é€", "", None], pa.string(), "varchar") == expected
    assert hashes(["abc  ", "é€ ", "   ", None], pa.string(), "char") == expected
    assert hashes([b"abc", "é€".encode(), b"", None], pa.binary(), "binary") == expected


def test_whole_numbers_are_hashed_as_big_endian_bytes() -> None:
    assert hashes([7], pa.int32(), "int") == [-970880120]
    assert hashes([date(1970, 1, 8)], pa.date32(), "date") == [-970880120]
    assert hashes([b"\0\0\0\7"], pa.binary(), "binary") == [-970880120]
    assert hashes([7], pa.int64(), "bigint") == hashes([b"\0" * 7 + b"\7"], pa.binary(), "binary")
    assert hashes([-2], pa.int16(), "smallint") == hashes([b"\xff\xfe"], pa.binary(), "binary")


def test_booleans_and_tinyints_are_their_own_hash() -> None:
    assert hashes([True, False, None], pa.bool_(), "boolean") == [1, 0, 0]
    assert hashes([-5, 127, None], pa.int8(), "tinyint") == [-5, 127, 0]


def test_floating_point_is_hashed_by_its_bits_taken_as_a_number() -> None:
    bits = np.float64(1.5).view(np.int64)
    as_number = np.array([bits], dtype=np.float64).astype(">f8").tobytes()
    assert hashes([1.5], pa.float64(), "double") == hashes([as_number], pa.binary(), "binary")
    bits32 = np.float32(-2.5).view(np.int32)
    as_number32 = np.array([bits32], dtype=np.float32).astype(">f4").tobytes()
    assert hashes([-2.5], pa.float32(), "float") == hashes([as_number32], pa.binary(), "binary")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("1.50", b"\x0f"),
        ("-0.01", b"\xff"),
        ("0.00", b"\0"),
        ("100.00", b"\x64"),
        ("-128.00", b"\x80"),
        ("255.00", b"\0\xff"),
    ],
)
def test_decimals_are_hashed_without_trailing_zeros(value: str, stored: bytes) -> None:
    decimal = pa.decimal128(20, 2)
    assert hashes([Decimal(value)], decimal, "decimal") == hashes([stored], pa.binary(), "binary")


def test_columns_are_combined_in_their_order() -> None:
    first, second = pa.array([3, None], pa.int32()), pa.array(["x", "y"])
    one = bucket_hash(first, "int").astype(np.int64)
    two = bucket_hash(second, "string").astype(np.int64)
    expected = ((31 * one + two) & 0x7FFFFFFF) % 7
    assert bucket_numbers([first, second], ["int", "string"], 7).tolist() == expected.tolist()


def test_slices_hash_like_whole_arrays() -> None:
    whole = pa.array(["", "a", "bcdef", None, "0123456789"])
    assert bucket_hash(whole.slice(1, 3), "string").tolist() == bucket_hash(whole, "string").tolist()[1:4]
