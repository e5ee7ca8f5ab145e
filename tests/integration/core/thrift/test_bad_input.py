from __future__ import annotations

import errno
import random
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.Thrift import TApplicationException

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.thrift.clients import Credentials
from airflow_hivex.core.thrift.messages import Head, encoded, written_head
from airflow_hivex.core.thrift.server import Limits
from tests import evidence
from tests.hive_endpoint import Serving, descriptor, hive_client, partition, serving, table
from tests.postgresql_proxy import PostgresqlProxy
from tests.unit.core.thrift.hostile_messages import hostile
from tests.waiting import wait_until

LOOKS_S = 0.3
"""A limit that the server looks after three times as often, with the clock of this machine."""


class Seconds:
    """The time of a server, which a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time_s() -> Seconds:
    return Seconds()


@pytest.fixture
def metastore_url(sqlite_url: str) -> str:
    """What comes over the wire has nothing to do with the database."""
    return sqlite_url


def call(name: str, args: object) -> bytes:
    return written_head(Head(name.encode(), 1, 1, True, 0), 1) + encoded(args)


def send(port: int, content: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes, or nothing comes any more."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as channel:
        received = b""
        try:
            channel.sendall(content)
            channel.shutdown(socket.SHUT_WR)
            while piece := channel.recv(65536):
                received += piece
        except OSError as error:
            # The server may close the connection before it has all of it.
            if error.errno not in (errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE):
                raise
        return received


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\x82\x21\x01\x04name",
        b"\x80\x01\x00\x01\x7f\xff\xff\xff",
        b"\x7f\xff\xff\xff\x80\x01\x00\x01",
        b"\x00\x00\x00\x05\x80\x01\x00\x01\x00",
        b"\x80\x01\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x01\x00",
        b"\x01\x00\x00\x00\x06GSSAPI",
        b"\xff" * 1000,
        b"\x80\x01\x00\x01\x00\x00\x00\x09get_table\x00\x00\x00\x01\x0b\x00\x01\x7f\xff\xff\xff",
    ],
)
def test_bytes_that_are_not_a_call_end_their_connection_alone(endpoint: Serving, hive: Any, content: bytes) -> None:
    send(endpoint.port, content)
    assert hive.get_all_databases() == ["default"]
    assert len(endpoint.server.connections) <= 2


def test_half_a_message_waits_for_the_rest_and_others_are_served(endpoint: Serving, hive: Any) -> None:
    whole = call("get_all_databases", ThriftHiveMetastore.get_all_databases_args())
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as channel:
        for at in range(len(whole)):
            channel.sendall(whole[at : at + 1])
            if at == 20:
                assert hive.get_all_databases() == ["default"]
        assert b"default" in channel.recv(65536)
        # Two calls in one piece have two answers.
        channel.sendall(whole + whole)
        received = b""
        while received.count(b"default") < 2:
            received += channel.recv(65536)


def test_calls_that_come_while_one_runs_are_all_answered(endpoint: Serving, hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"n": "int"}))
    slow = call(
        "add_partitions",
        ThriftHiveMetastore.add_partitions_args([partition("default", "p", str(n)) for n in range(200)]),
    )
    quick = call("get_all_databases", ThriftHiveMetastore.get_all_databases_args())
    # More than is read ahead, and the client says that nothing follows.
    number = (200 << 10) // len(quick)
    received = send(endpoint.port, slow + quick * number)
    assert struct.pack(">i", 200) in received
    assert received.count(b"\x00\x00\x00\x07default") == number


def test_text_that_is_not_utf_8_is_reported_and_the_connection_lives_on(endpoint: Serving) -> None:
    bad = call("get_table", ThriftHiveMetastore.get_table_args("default", "tXt")).replace(b"tXt", b"t\xfft")
    good = call("get_all_databases", ThriftHiveMetastore.get_all_databases_args())
    received = send(endpoint.port, bad + good)
    assert b"not UTF-8" in received
    assert b"default" in received


def test_unknown_fields_and_methods_are_skipped(endpoint: Serving) -> None:
    args = b"\x0b\x00\x63\x00\x00\x00\x02ab\x0f\x00\x64\x0c\x00\x00\x00\x02\x00\x00\x00"
    known = written_head(Head(b"get_all_databases", 1, 1, True, 0), 1) + args
    unknown = written_head(Head(b"no_such\xff\n", 1, 2, True, 0), 1) + args
    received = send(endpoint.port, known + unknown + known)
    assert received.count(b"default") == 2
    assert b"Invalid method name" in received
    assert b"\n" not in received.split(b"Invalid method name")[1].split(b"\x08")[0]


def test_limits_of_connections_and_idle_time(metastore: Metastore, time_s: Seconds) -> None:
    limits = Limits(connections=2, idle_s=10, login_s=LOOKS_S, message_bytes=10_000)
    with serving(metastore, limits=limits, monotonic=time_s) as running, hive_client(running.port) as hive:
        assert len(running.server.connections) == 1
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as idle:
            while len(running.server.connections) < 2:
                assert hive.getStatus() == 2
            with socket.create_connection(("127.0.0.1", running.port), timeout=30) as refused:
                assert end_of(refused)
            time_s.now = 6
            assert hive.getStatus() == 2
            time_s.now = 12
            # One of them has said something six seconds ago.
            assert end_of(idle)
            assert hive.getStatus() == 2
        hive.get_table_objects_by_name("default", ["x" * 100] * 90)
        with pytest.raises(Exception, match=r"bytes|reset|closed|Broken"):
            hive.get_table_objects_by_name("default", ["x" * 100] * 900)


def end_of(channel: socket.socket) -> bool:
    try:
        return channel.recv(1) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_cost_little_and_do_not_stop_others(endpoint: Serving, hive: Any) -> None:
    channels = [socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) for _ in range(300)]
    try:
        for channel in channels[::2]:
            channel.sendall(b"\x80\x01\x00\x01\x00\x00")
        while len(endpoint.server.connections) < 301:
            assert hive.getStatus() == 2
    finally:
        for channel in channels:
            channel.close()
    while len(endpoint.server.connections) > 1:
        assert hive.getStatus() == 2


@pytest.mark.parametrize("limits", [Limits(unread_s=10, login_s=LOOKS_S), Limits(unread_bytes=1 << 16)])
def test_client_that_does_not_read_its_answers_loses_its_connection(
    metastore: Metastore, limits: Limits, time_s: Seconds
) -> None:
    with serving(metastore, limits=limits, monotonic=time_s) as running, hive_client(running.port) as hive:
        columns = {f"column_{number}_{'x' * 100}": "string" for number in range(1000)}
        hive.create_table(table("default", "wide", sd=descriptor(**columns)))
        content = call("get_table", ThriftHiveMetastore.get_table_args("default", "wide")) * 100
        silent = [served_channel(running.port) for _ in range(3)]
        for channel in silent:
            channel.sendall(content)
        while len(running.server.connections) > 1:
            assert hive.get_table("default", "wide").tableName == "wide"
            time_s.now += 1
        for channel in silent:
            channel.close()


def served_channel(port: int) -> socket.socket:
    """A connection that the server has taken, as its first answer shows."""
    channel = socket.create_connection(("127.0.0.1", port), timeout=30)
    channel.sendall(call("getStatus", ThriftHiveMetastore.get_all_databases_args()))
    assert b"getStatus" in channel.recv(65536)
    return channel


def test_calls_without_an_end_are_bounded_together(metastore: Metastore) -> None:
    # A name of a table that never ends.
    head = call("get_table", ThriftHiveMetastore.get_table_args("default", "t"))
    begun = head[: head.rindex(b"\x00\x00\x00\x01t")] + struct.pack(">i", 50 << 20)
    with (
        serving(metastore, limits=Limits(unfinished_bytes=8 << 20)) as running,
        hive_client(running.port) as hive,
    ):
        endless = [served_channel(running.port) for _ in range(3)]
        for channel in endless:
            channel.sendall(begun + b"x" * (3 << 20))
        while len(running.server.connections) > 3:
            assert hive.getStatus() == 2
        assert sum(each.unfinished_bytes for each in running.server.connections) <= 8 << 20
        assert hive.get_all_databases() == ["default"]
        for channel in endless:
            channel.close()
        while len(running.server.connections) > 1:
            assert hive.getStatus() == 2


def test_client_that_does_not_log_in_loses_its_connection(metastore: Metastore, time_s: Seconds) -> None:
    limits = Limits(login_s=10, unread_s=LOOKS_S)
    credentials = Credentials({"alice": "s3cret"})
    with (
        serving(metastore, limits=limits, credentials=credentials, monotonic=time_s) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=30) as known,
        socket.create_connection(("127.0.0.1", running.port), timeout=30) as silent,
    ):
        secret = b"\0alice\0s3cret"
        known.sendall(struct.pack(">bi", 1, 5) + b"PLAIN" + struct.pack(">bi", 2, len(secret)) + secret)
        assert known.recv(5)[0] == 5
        silent.sendall(b"\x01\x00")
        wait_until(lambda: len(running.server.connections) == 2)
        time_s.now = 11
        assert end_of(silent)
        status = call("getStatus", ThriftHiveMetastore.get_all_databases_args())
        known.sendall(struct.pack(">i", len(status)) + status)
        assert b"getStatus" in known.recv(65536)


def test_long_and_wild_patterns_do_not_hold_up_others(endpoint: Serving, hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"k": "string", "n": "int"}))
    hive.add_partitions([partition("default", "p", f"{number:03}" + "0" * 200, str(number)) for number in range(50)])
    assert hive.get_tables("default", "*" * 500 + "x") == []
    assert hive.get_tables("default", ".*") == ["p"]
    assert hive.get_partitions_by_filter("default", "p", f'k like "{".*0" * 40}.*x"', -1) == []
    listed = " or ".join(f'k = "{number:03}{"0" * 200}"' for number in range(40, 140))
    assert len(hive.get_partitions_by_filter("default", "p", listed, -1)) == 10
    mixed = " or ".join(["n = 1", 'k = "x"', "n = 2", 'k like "003.*"', 'n = "4"'])
    assert [each.values[1] for each in hive.get_partitions_by_filter("default", "p", mixed, -1)] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("is_framed", [False, True], ids=["unframed", "framed"])
def test_messages_that_would_grow_do_not_hold_up_others(
    endpoint: Serving, hive: Any, is_framed: bool, counts: Any
) -> None:
    hive.create_table(table("default", "t"))
    waits: list[float] = []
    is_over = threading.Event()

    def other() -> None:
        with hive_client(endpoint.port, "bob") as client:
            while not is_over.is_set():
                began = time.monotonic()
                assert client.get_table("default", "t").tableName == "t"
                waits.append(time.monotonic() - began)

    thread = threading.Thread(target=other)
    thread.start()
    served = []
    try:
        for shape, message in hostile(evidence.amount("HIVEX_HOSTILE_BYTES", 300_000, 10_000_000)):
            framed = struct.pack(">I", len(message)) + message if is_framed else message
            before = len(waits)
            with suppress(ConnectionError):
                send(endpoint.port, framed)
            wait_until(lambda before=before: len(waits) > before)
            served.append(shape)
    finally:
        is_over.set()
        thread.join(60)
    assert len(waits) > len(served)
    assert hive.get_table("default", "t").tableName == "t"
    counts["hostile messages to the endpoint"] = {"messages": len(served)}


def test_server_stops_after_the_calls_that_run(endpoint: Serving, hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"n": "int"}))
    request = call(
        "add_partitions",
        ThriftHiveMetastore.add_partitions_args([partition("default", "p", str(n)) for n in range(2000)]),
    )
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as channel:
        channel.sendall(request)
        while not any(each.is_busy for each in list(endpoint.server.connections)):
            pass
        endpoint.stop()
        assert struct.pack(">i", 2000) in channel.recv(65536)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=30)


def test_call_without_its_request_is_refused_alone(endpoint: Serving, hive: Any) -> None:
    with hive_client(endpoint.port) as other:
        for ask in (other.get_table_req, other.get_partitions_by_expr, other.create_function, other.create_database):
            with pytest.raises(ttypes.MetaException, match=r"its argument .* is missing"):
                ask(None)
        with pytest.raises(TApplicationException, match="its argument rqst is missing"):
            # Hive's interface declares no exception of this method that fits.
            other.commit_txn(None)
        assert other.getStatus() == 2
    assert hive.get_all_databases() == ["default"]


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1])
def test_name_of_an_impossible_length_ends_its_connection_at_once(endpoint: Serving, length: int) -> None:
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as channel:
        channel.sendall(b"\x80\x01\x00\x01" + struct.pack(">i", length))
        assert end_of(channel)


def test_secret_in_the_name_of_a_user_is_not_shown(
    endpoint: Serving, caplog: pytest.LogCaptureFixture, metastore: Metastore
) -> None:
    with (
        caplog.at_level("DEBUG"),
        caplog.at_level("DEBUG", "airflow_hivex.metastore.access"),
        hive_client(endpoint.port, "bob:pa55word@c1") as hive,
    ):
        hive.create_table(table("default", "t"))
        (txn_id,) = hive.open_txns(ttypes.OpenTxnRequest(1, None, "host")).txn_ids
        with pytest.raises(ttypes.NoSuchObjectException):
            hive.get_table("default", "nope")
    assert metastore.transactions.get(txn_id).user == "bob"
    assert "bob" in caplog.text
    assert "pa55word" not in caplog.text


SEEDS = [
    call("get_table", ThriftHiveMetastore.get_table_args("default", "t")),
    call("get_all_databases", ThriftHiveMetastore.get_all_databases_args()),
    call("get_partitions_by_filter", ThriftHiveMetastore.get_partitions_by_filter_args("default", "p", "n > 1", -1)),
    call("get_partitions_by_names", ThriftHiveMetastore.get_partitions_by_names_args("default", "p", ["n=1", "n=2"])),
    call("set_ugi", ThriftHiveMetastore.set_ugi_args("ann", ["a", "b"])),
    call(
        "lock",
        ThriftHiveMetastore.lock_args(ttypes.LockRequest([ttypes.LockComponent(1, 2, "default", "t")], 0, "a", "b")),
    ),
    call("getStatus", ttypes.UnlockRequest()),
]
"""Calls that change nothing, and that random changes make others of."""


FUZZED = evidence.amount("HIVEX_FUZZED_MESSAGES", 2_000, 200_000)


@pytest.mark.evidence
def test_random_messages_never_hurt(endpoint: Serving, hive: Any, counts: Any) -> None:
    drawn = random.Random(evidence.SEED)
    sent = 0
    while sent < FUZZED:
        content = bytearray()
        for _ in range(drawn.randrange(1, 40)):
            content += mutated(drawn, drawn.choice(SEEDS))
            sent += 1
        send(endpoint.port, bytes(content))
    assert hive.getStatus() == 2
    assert hive.get_all_databases()[:1] == ["default"]
    counts["random messages to the endpoint"] = {"messages": sent}


def mutated(drawn: random.Random, message: bytes) -> bytes:
    found = bytearray(message)
    for _ in range(drawn.choice((0, 0, 1, 1, 2, 8))):
        kind, place = drawn.randrange(4), drawn.randrange(len(found))
        if kind == 0:
            found[place] = drawn.choice((0, 1, 11, 12, 13, 15, 127, 128, 255, drawn.randrange(256)))
        elif kind == 1:
            del found[place : place + drawn.randrange(1, 5)]
        elif kind == 2:
            found[place:place] = drawn.randbytes(drawn.randrange(1, 5))
        else:
            found[place : place + 4] = struct.pack(">i", drawn.choice((-1, 0, 1, 2**31 - 1, 2**20, 255)))
        if not found:
            return message
    return bytes(found)


def test_database_that_is_away_for_a_while_is_reported_and_asked_again(
    postgresql_url: str, properties: dict[str, Any]
) -> None:
    with (
        PostgresqlProxy(postgresql_url) as proxy,
        Metastore.open(proxy.url, clusters=properties, default_cluster="c1") as metastore,
        serving(metastore) as running,
        hive_client(running.port) as hive,
    ):
        hive.create_table(table("default", "t"))
        proxy.cut()
        # An exception that the call does not declare: a client of Hive repeats the call.
        with pytest.raises(TApplicationException):
            hive.get_database("default")
        proxy.mend()
        while True:
            try:
                assert hive.get_table("default", "t").tableName == "t"
                break
            except TApplicationException:
                continue
