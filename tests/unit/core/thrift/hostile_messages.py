"""Messages that take much more memory or time than their bytes, and large ones of honest clients."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from hive_metastore import ThriftHiveMetastore, ttypes

from airflow_hivex.core.thrift.messages import Head, encoded, written_head
from tests.hive_endpoint import descriptor

_STRUCT, _MAP, _SET, _LIST = 12, 13, 14, 15


def call(name: str, content: bytes) -> bytes:
    """Return a message with these arguments."""
    return written_head(Head(name.encode(), 1, 7, True, 0), 1) + content


def field(kind: int, number: int, content: bytes) -> bytes:
    """Return a field of a structure."""
    return struct.pack(">bh", kind, number) + content


def several(kind: int, count: int, one: bytes) -> bytes:
    """Return a list or set of the same value."""
    return struct.pack(">bi", kind, count) + one * count


def hostile(size: int) -> Iterator[tuple[str, bytes]]:
    """Yield messages of about this number of bytes, with what each of them has."""

    def added(content: bytes) -> bytes:
        return call("add_partitions", field(_LIST, 1, content) + b"\0")

    yield "empty structures", added(several(_STRUCT, size, b"\0"))
    number = field(8, 4, struct.pack(">i", 1)) + b"\0"
    yield "small structures", added(several(_STRUCT, size // len(number), number))
    empty_sd = field(_STRUCT, 6, field(_STRUCT, 7, b"\0") + b"\0") + b"\0"
    yield "structures in structures", added(several(_STRUCT, size // len(empty_sd), empty_sd))
    lists = field(_LIST, 1, several(11, 0, b"")) + b"\0"
    yield "structures with empty lists", added(several(_STRUCT, size // len(lists), lists))
    pairs = b"".join(struct.pack(">i8si", 8, b"%08x" % number, 0) for number in range(size // 16))
    parameters = field(_MAP, 7, struct.pack(">bbi", 11, 11, size // 16) + pairs) + b"\0"
    yield "a map", added(several(_STRUCT, 1, parameters))
    yield "unknown structures", call("add_partitions", field(_LIST, 99, several(_STRUCT, size, b"\0")) + b"\0")
    unknown = field(_LIST, 99, several(_SET, size // 5, struct.pack(">bi", 11, 0))) + b"\0"
    yield "unknown sets", call("get_table", unknown)
    unknown = field(_MAP, 99, struct.pack(">bbi", 3, 12, size // 2) + b"\1\0" * (size // 2)) + b"\0"
    yield "an unknown map", call("get_table", unknown)
    yield "deep structures", call("get_table", field(_STRUCT, 99, b"") * (size // 3))
    yield "deep lists", call("get_table", field(_LIST, 99, struct.pack(">bi", _LIST, 1) * (size // 5)))
    yield "a text", call("get_table", field(11, 1, struct.pack(">i", size) + b"x" * size) + b"\0")
    wide = b"x" * (size - 4) + "\N{GRINNING FACE}".encode()
    yield "a text of wide characters", call("get_table", field(11, 1, struct.pack(">i", len(wide)) + wide) + b"\0")
    yield (
        "numbers",
        call(
            "abort_txns", field(_STRUCT, 1, field(_LIST, 1, several(10, size // 8, bytes(7) + b"\1")) + b"\0") + b"\0"
        ),
    )
    texts = field(11, 1, b"\0\0\0\0") + field(11, 2, b"\0\0\0\0") + field(_LIST, 3, several(11, size // 4, bytes(4)))
    yield "empty texts", call("get_partitions_by_names", texts + b"\0")
    different = b"".join(struct.pack(">i5s", 5, b"%05x" % number) for number in range(size // 9))
    names = field(_LIST, 3, struct.pack(">bi", 11, size // 9) + different)
    yield "short texts", call("get_partitions_by_names", names + b"\0")


def honest(partitions: int) -> bytes:
    """Return a call that adds this number of partitions, as clients send them."""
    columns = {f"column_{number}": "string" for number in range(20)}
    found = [
        ttypes.Partition(
            values=[str(number)],
            dbName="default",
            tableName="p",
            sd=descriptor(f"file:/warehouse/default.db/p/ds={number}", **columns),
            parameters={"transient_lastDdlTime": "1700000000"},
        )
        for number in range(partitions)
    ]
    arguments: Any = ThriftHiveMetastore.add_partitions_args(found)
    return call("add_partitions", encoded(arguments))
