"""An open metastore over two clusters, and its endpoint."""

from __future__ import annotations

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
