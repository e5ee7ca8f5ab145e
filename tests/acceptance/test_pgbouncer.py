"""A metastore behind pgbouncer in transaction mode: each transaction may have another connection to the server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from tests.pgbouncer import Pgbouncer
from tests.waiting import wait_until


@pytest.fixture
def pooled_url(postgresql_url: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="hivex-pgbouncer-") as folder:
        bouncer = Pgbouncer(postgresql_url, Path(folder))
        yield bouncer.url
        bouncer.stop()


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Metastore]:
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(url, clusters=clusters) as metastore:
        yield metastore


def test_clients_share_few_connections(pooled_url: str, postgresql_url: str, tmp_path: Path) -> None:
    def insert(client: int) -> None:
        with opened(pooled_url, tmp_path) as metastore, metastore.session() as session:
            for number in range(10):
                session.sql(f"INSERT INTO t VALUES ({client}, {number})")
            session.sql(f"ALTER TABLE t SET TBLPROPERTIES ('client{client}' = 'done')")
            session.sql("START TRANSACTION")
            session.sql(f"INSERT INTO t VALUES ({client}, 10)")
            session.sql(f"INSERT INTO t VALUES ({client}, 11)")
            session.sql("COMMIT")

    with opened(pooled_url, tmp_path) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (client int, number int)")
    with ThreadPoolExecutor() as pool:
        list(pool.map(insert, range(4)))
    with opened(postgresql_url, tmp_path) as metastore, metastore.session() as session:
        found = session.to_arrow("t").to_pylist()
        assert sorted((row["client"], row["number"]) for row in found) == [(i, j) for i in range(4) for j in range(12)]
        properties = metastore.catalog.get_table("default", "t").parameters
        assert {f"client{number}" for number in range(4)} <= set(properties)


def test_a_wait_for_a_lock_ends_soon_after_the_lock(pooled_url: str, tmp_path: Path) -> None:
    def drop() -> float:
        with second.session() as other:
            other.sql("DROP TABLE t")
        return time.monotonic()

    with opened(pooled_url, tmp_path) as first, opened(pooled_url, tmp_path) as second, first.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO t VALUES (1)")
        with ThreadPoolExecutor() as pool, first.session() as looking:
            waiting = pool.submit(drop)
            wait_until(lambda: "waiting" in str(looking.sql("SHOW LOCKS").rows).lower(), limit_s=30)
            session.sql("ROLLBACK")
            ended = time.monotonic()
            # The server's announcement does not arrive; the waiting client asks twice a second.
            assert waiting.result() - ended < 10


def test_a_commit_of_another_client_is_followed(pooled_url: str, tmp_path: Path) -> None:
    with (
        opened(pooled_url, tmp_path) as first,
        opened(pooled_url, tmp_path) as second,
        first.session() as writer,
        second.session() as reader,
    ):
        writer.sql("CREATE TABLE t (id int)")
        for number in range(3):
            writer.sql(f"INSERT INTO t VALUES ({number})")
            assert sorted(reader.to_arrow("t")["id"].to_pylist()) == [*range(number + 1)]
