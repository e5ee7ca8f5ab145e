from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TFramedTransport

from airflow_hivex.cli.main import main
from airflow_hivex.core.thrift.metrics import METRICS
from tests.hive_endpoint import hive_client


@contextmanager
def served(url: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """``hivex metastore serve`` in a process, with the ports that it prints."""
    command = [sys.executable, "-m", "airflow_hivex.cli.main", "--metastore", url, "metastore", "serve"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--http-port", "0", *options], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
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


def test_command_serves_until_it_is_told_to_stop(sqlite_url: str) -> None:
    with served(sqlite_url, "--access-log") as (process, port, http_port), hive_client(port, "alice") as hive:
        assert hive.get_all_databases() == ["default"]
        assert page(http_port, "health") == "alive\n"
        assert page(http_port, "ready") == "ready\n"
        metrics = page(http_port, "metrics")
        assert 'calls_total{method="get_all_databases",outcome="ok"} 1' in metrics
        assert re.findall(r"# TYPE (\w+)", metrics) == list(METRICS)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r"alice get_all_databases ok [0-9.]+ ms", told)
    assert told.endswith("stopped\n")


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


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 with its key in one file."""
    path = tmp_path / "server.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(path)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *name, *files]
    subprocess.run(command, capture_output=True, check=True)
    path.write_text(path.read_text() + (tmp_path / "key.pem").read_text())
    return path


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


def framed_client(channel: Any) -> Any:
    return ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(TFramedTransport(channel), fallback=False))


def step(status: int, content: bytes) -> bytes:
    return pack(">BI", status, len(content)) + content
