"""Statements that change one table at the same time: each is done or refused, and no two wait for each other."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement

import pytest
from sqlalchemy import text

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError, StoreUnavailableError
from airflow_hivex.core.store.engine import Store
from tests import evidence

SETUP = (
    "CREATE DATABASE IF NOT EXISTS d",
    "CREATE TABLE IF NOT EXISTS d.t (a int) PARTITIONED BY (p int)",
    "ALTER TABLE d.t ADD IF NOT EXISTS PARTITION (p = 1)",
    "CREATE EXTERNAL TABLE IF NOT EXISTS d.x (a int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'x'",
)
OF_MANAGED = (
    "ALTER TABLE d.t SET TBLPROPERTIES ('by {n}' = '{n}')",
    "ALTER TABLE d.t ADD PARTITION (p = 1{n})",
    "ALTER TABLE d.t DROP IF EXISTS PARTITION (p = 1)",
    "ALTER TABLE d.t PARTITION (p = 1) RENAME TO PARTITION (p = 2{n})",
    "ALTER TABLE d.t ADD COLUMNS (c{n} int)",
    "ALTER TABLE d.t RENAME TO d.u",
    "ALTER TABLE d.u RENAME TO d.t",
    "CREATE TABLE d.t (a int) PARTITIONED BY (p int)",
    "DROP TABLE d.t",
    "ANALYZE TABLE d.t COMPUTE STATISTICS NOSCAN",
    "INSERT INTO d.t PARTITION (p = 1) VALUES (1)",
    "INSERT OVERWRITE d.t PARTITION (p = 1) VALUES (2)",
    "DROP DATABASE d CASCADE",
)
OF_EXTERNAL = (
    "ALTER TABLE d.x SET TBLPROPERTIES ('by {n}' = '{n}')",
    "ALTER TABLE d.x ADD IF NOT EXISTS PARTITION (p = 1)",
    "ALTER TABLE d.x DROP IF EXISTS PARTITION (p = 1)",
    "DROP DATABASE d CASCADE",
)
PAIRS = [pair for statements in (OF_MANAGED, OF_EXTERNAL) for pair in combinations_with_replacement(statements, 2)]


def run(metastore: Metastore, statement: str) -> HivexError | None:
    """Run a statement in a session of its own; how it was refused."""
    with metastore.session(user="tester") as session:
        try:
            session.sql(statement)
        except HivexError as refused:
            return refused
    return None


def at_once(pool: ThreadPoolExecutor, metastore: Metastore, statements: Iterable[str]) -> list[HivexError]:
    """Run statements at once; how some were refused."""
    running = [pool.submit(run, metastore, statement) for statement in statements]
    return [refused for each in running if (refused := each.result()) is not None]


def deadlocks(url: str) -> int:
    """How many deadlocks the database has broken; connections report theirs when they are closed."""
    store = Store(url)
    try:
        with store.read() as connection:
            if not store.is_postgresql:
                return 0
            query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            return int(connection.execute(text(query)).scalar_one())
    finally:
        store.close()


@pytest.mark.evidence
@pytest.mark.timeout(300)
def test_no_two_statements_on_a_table_wait_for_each_other(
    metastore_url: str, clusters: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    before = deadlocks(metastore_url)
    numbers = itertools.count(1)
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore,
        ThreadPoolExecutor(4) as pool,
    ):
        for pair in evidence.drawn("pairs of statements", PAIRS, 30):
            for statement in SETUP:
                assert run(metastore, statement) is None
            refused = at_once(pool, metastore, [each.format(n=next(numbers)) for each in pair * 2])
            lost = [each for each in refused if isinstance(each, StoreUnavailableError)]
            assert not lost, (pair, lost)
        assert metastore.locks.show() == []
        assert [each.id for each in metastore.transactions.show() if each.state.name == "OPEN"] == []
    assert deadlocks(metastore_url) == before


@pytest.mark.parametrize("table", ["d.t", "d.x"])
def test_no_change_of_properties_is_lost(metastore: Metastore, table: str) -> None:
    for statement in SETUP:
        assert run(metastore, statement) is None
    keys = [f"k{number}" for number in range(24)]
    with ThreadPoolExecutor(6) as pool:
        changes = [f"ALTER TABLE {table} SET TBLPROPERTIES ('{key}' = 'v')" for key in keys]
        assert at_once(pool, metastore, changes) == []
    assert keys == sorted(
        (key for key in metastore.catalog.get_table(*table.split(".")).parameters if key in keys), key=keys.index
    )


def test_no_change_of_a_database_is_lost(metastore: Metastore) -> None:
    assert run(metastore, "CREATE DATABASE d") is None
    keys = [f"k{number}" for number in range(24)]
    with ThreadPoolExecutor(6) as pool:
        changes = [f"ALTER DATABASE d SET DBPROPERTIES ('{key}' = 'v')" for key in keys]
        closing = [
            "ALTER DATABASE d SET DBPROPERTIES ('hivex.namespace.mode' = 'true')",
            "COMMENT ON DATABASE d IS 'c'",
        ]
        assert at_once(pool, metastore, [*changes[:12], *closing, *changes[12:]]) == []
    found = metastore.catalog.get_database("d")
    assert found.description == "c"
    assert found.parameters == {**dict.fromkeys(keys, "v"), "hivex.namespace.mode": "true"}
