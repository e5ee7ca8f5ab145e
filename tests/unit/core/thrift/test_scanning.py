from __future__ import annotations

import pytest
from hive_metastore import ThriftHiveMetastore, ttypes
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hivex.core.thrift.messages import (
    Head,
    MalformedMessageError,
    MessageScanner,
    encoded,
    read_head,
    written_head,
)
from tests.hive_endpoint import partition, table

LONGEST = 1 << 20


def message(name: str, struct: object, *, strict: bool = True) -> bytes:
    head = Head(name.encode(), 1, 7, strict, 0)
    return written_head(head, 1) + encoded(struct)


MESSAGES = [
    message("get_table", ThriftHiveMetastore.get_table_args("default", "t")),
    message("get_all_databases", ThriftHiveMetastore.get_all_databases_args(), strict=False),
    message("create_table", ThriftHiveMetastore.create_table_args(table("d", "t", keys={"ds": "string"}))),
    message("add_partitions", ThriftHiveMetastore.add_partitions_args([partition("d", "t", str(n)) for n in range(9)])),
    message("abort_txns", ThriftHiveMetastore.abort_txns_args(ttypes.AbortTxnsRequest(list(range(300))))),
    message(
        "heartbeat_txn_range",
        ThriftHiveMetastore.heartbeat_txn_range_result(ttypes.HeartbeatTxnRangeResponse({1, 2}, set())),
    ),
]


@pytest.mark.parametrize("whole", MESSAGES, ids=range(len(MESSAGES)))
def test_end_is_found_at_the_last_byte_and_no_sooner(whole: bytes) -> None:
    scanner, buffer = MessageScanner(LONGEST), bytearray()
    for number, byte in enumerate(whole, 1):
        buffer.append(byte)
        assert scanner.end(buffer) == (number if number == len(whole) else None)
    buffer += b"the next message"
    scanner.reset()
    assert scanner.end(buffer) == len(whole)
    assert read_head(whole).number == 7


@pytest.mark.parametrize(
    ("beginning", "reason"),
    [
        (b"\x80\x02\x00\x01" + bytes(20), "are not a version"),
        (b"\x80\x01\x00\x01\x7f\xff\xff\xff" + bytes(20), "announces a length of 2147483647"),
        (b"\x80\x01\x00\x01\xff\xff\xff\xff" + bytes(20), "announces a length of -1"),
        (MESSAGES[0][:21] + b"\x0b\x00\x01\x7f\x00\x00\x00", "announces a length"),
        (MESSAGES[0][:21] + b"\x0f\x00\x01\x0b\x7f\x00\x00\x00", "announces 2130706432 elements"),
        (MESSAGES[0][:21] + b"\x0f\x00\x01\x08\x00\x0f\xff\xff", "has more than"),
        (MESSAGES[0][:21] + b"\x0d\x00\x01\x0b\x0b\xff\xff\xff\xff", "announces -1 elements"),
        (MESSAGES[0][:21] + b"\x07\x00\x01" + bytes(8), "not a valid type of a value"),
        (MESSAGES[0][:21] + b"\x0f\x00\x01\x05\x00\x00\x00\x01" + bytes(8), "not a valid type of an element"),
        (MESSAGES[0][:21] + b"\x0c\x00\x01" * 100, "nested deeper"),
    ],
)
def test_message_that_cannot_be_right_is_refused_before_more_is_read(beginning: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessageError, match=reason):
        MessageScanner(LONGEST).end(beginning)


@settings(max_examples=40)
@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4))
def test_pieces_and_the_whole_have_the_same_end(whole: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(whole)
    for place, byte in changes:
        changed[place % len(changed)] = byte

    def end(pieces: list[bytes]) -> object:
        scanner, buffer = MessageScanner(LONGEST), bytearray()
        found: int | None = None
        try:
            for piece in pieces:
                buffer += piece
                found = scanner.end(buffer)
                if found is not None:
                    return found
        except MalformedMessageError:
            return "malformed"
        return found

    assert end([bytes(changed)]) == end([changed[at : at + 1] for at in range(len(changed))])
