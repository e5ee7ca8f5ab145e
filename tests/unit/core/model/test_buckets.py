from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.model.row_ids import BucketProperty, decode_bucket, encode_bucket


@pytest.mark.parametrize(
    ("bucket", "statement", "expected"),
    [(0, 0, 536870912), (7, 16, 537329680), (4095, 4095, 0x2FFF0FFF), (1, -1, 0x20010000)],
)
def test_bucket_property_has_hives_value(bucket: int, statement: int, expected: int) -> None:
    assert encode_bucket(bucket, statement) == expected


@pytest.mark.parametrize(
    ("bucket", "statement", "most", "writer", "field"), [(5000, 12, 100, 904, 140), (65535, 150, 150, 4095, 3990)]
)
def test_high_bucket_ids_borrow_bits_of_the_statement(
    bucket: int, statement: int, most: int, writer: int, field: int
) -> None:
    value = encode_bucket(bucket, statement, most)
    assert decode_bucket(value) == BucketProperty(1, writer, field)
    assert decode_bucket(value, most) == BucketProperty(1, bucket, statement)


@pytest.mark.parametrize(
    ("bucket", "statement", "most"),
    [(-1, 0, None), (0, 4096, None), (4096, 0, None), (65536, 150, 150), (5000, 128, 100), (0, 0, 4096)],
)
def test_what_does_not_fit_is_refused(bucket: int, statement: int, most: int | None) -> None:
    with pytest.raises(ValueError, match="id"):
        encode_bucket(bucket, statement, most)


def test_version_0_is_the_bucket_itself() -> None:
    assert decode_bucket(77) == BucketProperty(0, 77, 0)


@pytest.mark.parametrize("value", [2 << 29, 3 << 29, -1])
def test_unknown_versions_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="version"):
        decode_bucket(value)


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_encoding_is_reversible(bucket: int, statement: int) -> None:
    assert decode_bucket(encode_bucket(bucket, statement)) == BucketProperty(1, bucket, statement)


@given(st.data(), st.integers(0, 4095))
def test_encoding_with_a_known_maximum_is_reversible(data: st.DataObject, most: int) -> None:
    statement = data.draw(st.integers(0, most))
    bucket = data.draw(st.integers(0, (1 << 24 - most.bit_length()) - 1))
    assert decode_bucket(encode_bucket(bucket, statement, most), most) == BucketProperty(1, bucket, statement)
