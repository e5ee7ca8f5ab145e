"""An open metastore over two clusters, and its endpoint."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core.metastore import Metastore
from tests.hive_endpoint import Serving, hive_client, serving


@pytest.fixture
def metastore_url(postgresql_url: str) -> str:
    """What the endpoint calls is tested on both databases; the endpoint itself on the one that servers share."""
    return postgresql_url


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, Any]:
    return {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[1]"} for name in ("c1", "c2")}


@pytest.fixture
def metastore(metastore_url: str, properties: dict[str, Any]) -> Iterator[Metastore]:
    with Metastore.open(metastore_url, clusters=properties, default_cluster="c1") as metastore:
        yield metastore


@pytest.fixture
def endpoint(metastore: Metastore) -> Iterator[Serving]:
    with serving(metastore) as running:
        yield running


@pytest.fixture
def hive(endpoint: Serving) -> Iterator[Any]:
    """A client of the endpoint."""
    with hive_client(endpoint.port) as client:
        yield client


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
