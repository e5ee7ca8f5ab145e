from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.job.orc_tail.wire import BYTES, FIXED32, FIXED64, VARINT, Field, Message, signed, unsigned

numbers = st.integers(1, 2**29 - 1)
fields = st.one_of(
    st.builds(Field, numbers, st.just(VARINT), st.integers(0, 2**64 - 1)),
    st.builds(Field, numbers, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.builds(Field, numbers, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    st.builds(Field, numbers, st.just(BYTES), st.binary()),
)


@given(st.lists(fields))
def test_every_field_is_kept(given: list[Field]) -> None:
    message = Message(tuple(given))
    assert Message.parse(bytes(message)) == message


@given(st.lists(fields, min_size=1))
def test_a_message_that_is_cut_off_is_none(given: list[Field]) -> None:
    data = bytes(Message(tuple(given)))
    for size in range(len(data)):
        try:
            parsed = Message.parse(data[:size])
        except ValueError:
            continue
        assert parsed.fields == tuple(given[: len(parsed.fields)])


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers(number: int) -> None:
    assert signed(unsigned(number)) == number
    assert 0 <= unsigned(number) < 2**64


def test_a_field_is_replaced_where_it_is_and_the_last_value_counts() -> None:
    message = Message((Field(1, VARINT, 5), Field(2, BYTES, b"a"), Field(9, BYTES, b"unknown"), Field(2, BYTES, b"b")))
    assert message.data(2) == b"b"
    assert message.replaced(2, [b"c"]).fields == (
        Field(1, VARINT, 5),
        Field(2, BYTES, b"c"),
        Field(9, BYTES, b"unknown"),
    )
    assert message.replaced(3, [7]).fields[-1] == Field(3, VARINT, 7)
    assert message.without(1, 2).fields == (Field(9, BYTES, b"unknown"),)
    assert Message.parse(b"\x0a\x03\x01\x80\x02").numbers(1) == [1, 256]


@pytest.mark.parametrize("data", [b"\x0b", b"\x08", b"\x0a\x05ab", b"\xff" * 12])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"wire type|cut off"):
        Message.parse(data)
