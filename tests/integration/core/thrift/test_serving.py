from __future__ import annotations

import json
import logging
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import Database
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

from airflow_hivex.cli.main import main
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.thrift.server import METRICS, Limits
from airflow_hivex.core.thrift.serving import Listening
from tests.hive_endpoint import hive_client, serving


@contextmanager
def served(url: str, *options: str, files: int | None = None) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """``hivex metastore serve`` in a process, with the ports that it prints; it may open that many ``files``."""
    command = [sys.executable, "-m", "airflow_hivex.cli.main", "--metastore", url, "metastore", "serve"]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    process = subprocess.Popen(
        [*command, "--port", "0", "--http-port", "0", *options], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if files is not None:
            assert f"At most {files - 128} connections are taken" in line
            line = process.stderr.readline()
        found = re.fullmatch(r"serving thrift://127.0.0.1:(\d+); .*http://127.0.0.1:(\d+)\n", line)
        assert found, line + process.stderr.read()
        yield process, int(found[1]), int(found[2])
    finally:
        process.kill()
        process.communicate()


def page(port: int, name: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=30) as answer:
        return str(answer.read().decode())


def test_command_serves_until_it_is_stopped(sqlite_url: str) -> None:
    with served(sqlite_url, "--access-log") as (process, port, http_port), hive_client(port, "alice") as hive:
        assert hive.get_all_databases() == ["default"]
        assert page(http_port, "health") == "alive\n"
        assert page(http_port, "ready") == "ready\n"
        metrics = page(http_port, "metrics")
        assert 'calls_total{method="get_all_databases",outcome="ok"} 1' in metrics
        assert re.findall(r"# TYPE (\w+)", metrics) == list(METRICS)
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r"alice get_all_databases ok [0-9.]+ ms", output)
    assert output.endswith("stopped\n")


def test_clients_leave_files_and_pages_to_the_server(sqlite_url: str) -> None:
    """With the shell's limit of open files, connections of clients took those of the database."""
    with served(sqlite_url, files=160) as (_, port, http_port), hive_client(port) as hive:
        silent = [socket.create_connection(("127.0.0.1", http_port), timeout=30) for _ in range(20)]
        idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(200)]
        assert end_of(idle[-1])
        hive.create_database(Database("d1"))
        assert page(http_port, "ready") == "ready\n"
        # A request that does not come keeps no thread for ever.
        assert all(map(end_of, silent))
        for each in (*silent, *idle):
            each.close()


def end_of(channel: socket.socket) -> bool:
    with suppress(ConnectionResetError):
        return channel.recv(1) == b""
    return True


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--host", "0.0.0.0"], "not a loopback address"),
        (["--host", "0.0.0.0", "--tls-certificate", "x"], "not a loopback address"),
        (["--credentials", "x"], "needs --tls-certificate"),
        (["--port", "70000"], "not a valid port"),
        (["--idle-timeout", "0"], "must be positive"),
        (["--cluster", "c9"], "c9"),
        (["--tls-certificate", "missing.pem"], "missing.pem"),
        (["--tls-certificate", "x", "--credentials", "missing.json"], "missing.json"),
    ],
)
def test_wrong_options_are_refused(
    sqlite_url: str, options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--metastore", sqlite_url, "metastore", "serve", "--port", "0", *options]
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code
    assert reason in capsys.readouterr().err
    # The command leaves the log of a process that calls it as it was.
    assert not logging.getLogger("airflow_hivex").handlers


def test_tls_and_plain_let_known_users_in(sqlite_url: str, certificate: Path, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials.json"
    credentials.write_text(json.dumps({"alice": "s3cret"}))
    options = ["--tls-certificate", str(certificate), "--credentials", str(credentials)]
    with served(sqlite_url, *options) as (_, port, http_port):
        assert page(http_port, "ready") == "ready\n"
        context = ssl.create_default_context(cafile=str(certificate))
        for secret, answer in (("s3cret", 5), ("wrong", 3)):
            channel = TSSLSocket("127.0.0.1", port, ssl_context=context)
            channel.open()
            channel.write(step(1, b"PLAIN") + step(2, f"\0alice\0{secret}".encode()))
            assert channel.read(5)[0] == answer
            if answer == 5:
                client = framed_client(channel)
                assert client.set_ugi("bob", []) == ["bob"]
                assert client.get_all_databases() == ["default"]
            channel.close()
        plain = TSocket("127.0.0.1", port)
        plain.setTimeout(30_000)
        plain.open()
        with pytest.raises(Exception, match=r"read 0 bytes|reset|closed"):
            framed_client(plain).get_all_databases()
        plain.close()


def test_handshakes_that_do_not_end_count_as_connections_for_a_while(
    sqlite_url: str, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(connections=4, login_s=2)
    tls = Listening(certificate=str(certificate)).tls_context()
    with (
        Metastore.open(sqlite_url) as metastore,
        serving(metastore, limits=limits, tls=tls) as running,
        encrypted_channel(running.port, certificate) as channel,
    ):
        client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(TBufferedTransport(channel), fallback=False))
        assert client.get_all_databases() == ["default"]
        # A client without TLS, one that says nothing, and the beginning of a handshake.
        begun = [socket.create_connection(("127.0.0.1", running.port), timeout=30) for _ in range(3)]
        begun[0].sendall(b"\x80\x01\x00\x01\x00\x00\x00\x0cget_database")
        begun[1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")
        while not running.server.metrics.refused:
            # The first one may have lost its place by now; the client that gets it says nothing, either.
            begun.append(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            assert client.getStatus() == 2
        assert client.get_all_databases() == ["default"]
        for each in begun:
            with suppress(ConnectionResetError):
                while each.recv(100):
                    pass
            each.close()
        while running.server.clients > 1:
            assert client.getStatus() == 2
    assert "its TLS handshake has failed" in caplog.text
    assert "there are 4 connections" in caplog.text


@contextmanager
def encrypted_channel(port: int, certificate: Path) -> Iterator[Any]:
    channel = TSSLSocket("127.0.0.1", port, ssl_context=ssl.create_default_context(cafile=str(certificate)))
    channel.open()
    try:
        yield channel
    finally:
        channel.close()


def framed_client(channel: Any) -> Any:
    return ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(TFramedTransport(channel), fallback=False))


def step(status: int, content: bytes) -> bytes:
    return pack(">BI", status, len(content)) + content
