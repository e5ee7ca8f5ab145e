"""A server of S3 for the tests, which keeps what it is given in memory."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tests import evidence
from tests.hosts.networks import Host

_PROGRAM = Path(sys.prefix) / "object-store" / "bin" / "moto_server"
_START_LIMIT_S = 60
_KEY, _SECRET = "a-key", "a-secret-of-the-store"
_buckets = itertools.count()
_CONNECTOR = Path(sys.prefix) / "s3-connector"
CONNECTOR = {
    f"spark.hadoop.fs.s3a.{name}": value
    for name, value in (
        ("threads.keepalivetime", "60"),
        ("connection.timeout", "200000"),
        ("connection.establish.timeout", "5000"),
        ("multipart.purge.age", "86400"),
        ("change.detection.mode", "none"),
    )
}
"""Settings of Spark for Hadoop's connector of the tests, which is older than Spark's own Hadoop and its defaults."""


def connector_jars() -> list[Path]:
    """The jars of Hadoop's connector to S3, with which Spark reads and writes there."""
    return sorted(_CONNECTOR.glob("*.jar"))


needs_connector = pytest.mark.skipif(
    not connector_jars() and not evidence.IS_WHOLE, reason=f"{_CONNECTOR} is not there; make evidence downloads it"
)


class ObjectStore:
    """A running server. ``options`` are the storage options of clusters that have their files in it."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url
        self.options: dict[str, Any] = {"key": _KEY, "secret": _SECRET, "endpoint_url": url}
        self.environment = {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def create_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{next(_buckets)}"
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT")).close()
        return name

    def properties(self, jobtracker: str, root: str = "", **conf: str) -> dict[str, Any]:
        """The properties of a cluster with its files below a root in a new bucket. Keys are in its storage options."""
        filesystem = f"s3://{self.create_bucket()}{root}"
        return {
            "filesystem": filesystem,
            "jobtracker": jobtracker,
            "storage_options": self.options,
            "spark_conf": {**CONNECTOR, **conf},
        }

    def stop(self) -> None:
        """End the server; what it holds is gone."""
        self._process.kill()
        self._process.wait()


def start_object_store(log: Path, host: Host | None = None) -> ObjectStore:
    """Start a server on a free port, on this machine or on a host; its output goes to ``log``."""
    command, address = ((), "127.0.0.1") if host is None else (host.command, host.address)
    if not _PROGRAM.exists():
        raise FileNotFoundError(f"{_PROGRAM} is not there; `make test` installs it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(_PROGRAM), "-H", address, "-p", str(port)], stdout=output, stderr=subprocess.STDOUT
        )
    store = ObjectStore(process, f"http://{address}:{port}")
    limit = time.monotonic() + _START_LIMIT_S
    while process.poll() is None and time.monotonic() < limit:
        try:
            urllib.request.urlopen(f"{store.url}/moto-api/").close()
        except URLError:
            # It is not there yet.
            time.sleep(0.1)
        else:
            return store
    store.stop()
    raise RuntimeError(f"the server of S3 did not start: {log.read_text(errors='replace')}")
