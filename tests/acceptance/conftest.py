"""A metastore over three clusters, used as people use it: through sessions."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.opening import RAWSTORE_VARIABLE
from tests import evidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITHOUT_CACHE = 0.2

CopyTable = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def rawstore(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five tests, each commit draws one that runs without the cache of metadata; the variable decides for all."""
    is_drawn = random.Random(f"{evidence.SEED} {request.node.nodeid}").random() < _WITHOUT_CACHE
    if is_drawn and not os.environ.get(RAWSTORE_VARIABLE):
        monkeypatch.setenv(RAWSTORE_VARIABLE, "ObjectStore")


@pytest.fixture
def clusters(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2", "c3")}


@pytest.fixture
def metastore(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore:
        yield metastore


@pytest.fixture
def lockless(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    """The same, where readers lock nothing, so that overwrites do not wait for them."""
    settings = {"hive.acid.lockless.reads.enabled": True}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        yield metastore


@pytest.fixture
def session(metastore: Metastore) -> Iterator[Session]:
    with metastore.session(user="tester") as session:
        yield session


@pytest.fixture
def copy_table(metastore: Metastore, tmp_path: Path) -> CopyTable:
    """Copies a table's files to a cluster by other means, and registers the copy."""

    def copy(table: str, cluster: str, partitions: Sequence[str] | None = None) -> list[str]:
        primary = metastore.catalog.get_table("default", table).storage.primary
        for part in partitions or [""]:
            source = tmp_path / primary.cluster / primary.location / part
            shutil.copytree(source, tmp_path / cluster / primary.location / part, dirs_exist_ok=True)
        return metastore.catalog.register_copy("default", table, cluster, partitions)

    return copy


@pytest.fixture
def spark(session: Session) -> SparkSession:
    """A Spark session of the user's, in the Spark of this process."""
    from pyspark.sql import SparkSession

    session.sql("SELECT 1")
    return SparkSession.builder.getOrCreate().newSession()
