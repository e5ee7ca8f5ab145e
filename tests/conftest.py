"""Fixtures for all tests: metastore databases."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.util import LRUCache

from airflow_hivex.core.spark import class_archive
from airflow_hivex.core.store import engine
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.migrating import VERSION_TABLE, prepare
from airflow_hivex.core.store.schema import metadata
from tests import spark_options, unsynchronized
from tests.postgresql import EmptiedDatabases, start_postgresql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL, Dialect, Engine

    from tests.postgresql import PostgresqlServer

assert unsynchronized

# Read by every Spark that tests and their processes start.
os.environ.setdefault(spark_options.VARIABLE, spark_options.java_options())
# They have an archive of classes of their own.
os.environ.setdefault(class_archive.VARIABLE, "")

_COUNT = "count: "


class Counts:
    """What tests tell about themselves after the run, by title; it travels with the test's report."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._properties = request.node.user_properties

    def __setitem__(self, title: str, text: str) -> None:
        self._properties.append((f"{_COUNT}{title}", text))


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> Counts:
    """What is printed after the run, by title."""
    return Counts(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have counted."""
    found = {
        name.removeprefix(_COUNT): text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name.startswith(_COUNT)
    }
    if found:
        terminalreporter.section("counts")
        for title, text in found.items():
            terminalreporter.write_line(f"{title}: {text}")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """One PostgreSQL server for the whole run."""
    server = start_postgresql()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an SQLite metastore as it is when it was opened first; migrating takes longer than copying."""
    file = tmp_path_factory.mktemp("template") / "metastore.db"
    _prepare(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The name of such a database on PostgreSQL."""
    url = postgresql_server.create_database()
    _prepare(url)
    yield url.rpartition("/")[2]
    postgresql_server.drop_database(url)


def _prepare(url: str) -> None:
    store = Store(url)
    prepare(store)
    store.close()
    _COMPILED[store.engine.dialect.name] = store.engine.dialect, LRUCache(10_000)


_COMPILED: dict[str, tuple[Dialect, LRUCache[Any, Any]]] = {}


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Let engines of one kind of database share the statements that they have compiled.

    SQLAlchemy compiles a statement once for each engine. Nearly every test has an engine of its own, and would spend
    a third of its time on that.
    """
    make = engine._engine

    def make_sharing(url: URL, *, create: bool) -> Engine:
        made = make(url, create=create)
        if made.dialect.name in _COMPILED:
            # What was compiled is found by the dialect, too.
            made.dialect, made._compiled_cache = _COMPILED[made.dialect.name]
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "_engine", make_sharing)
        yield


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """The URL of a new SQLite metastore."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'metastore.db')}"


@pytest.fixture(scope="session")
def postgresql_databases(postgresql_server: PostgresqlServer, postgresql_template: str) -> Iterator[EmptiedDatabases]:
    """Such databases for one test after the other."""
    tables = [VERSION_TABLE, *(table.name for table in metadata.sorted_tables)]
    databases = EmptiedDatabases(postgresql_server, postgresql_template, tables)
    yield databases
    databases.drop()


@pytest.fixture
def postgresql_url(postgresql_databases: EmptiedDatabases) -> Iterator[str]:
    """The URL of a new metastore on PostgreSQL."""
    url = postgresql_databases.take()
    yield url
    postgresql_databases.give_back(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def metastore_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new metastore: once on SQLite, once on PostgreSQL."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'empty.db'}"


@pytest.fixture
def empty_postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database."""
    url = postgresql_server.create_database()
    yield url
    postgresql_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_metastore_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new, empty database: once on SQLite, once on PostgreSQL."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
