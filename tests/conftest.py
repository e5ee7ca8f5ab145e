"""Fixtures for all tests: metastore databases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from airflow_hivex.core.opening import RETENTION_VARIABLE
from airflow_hivex.core.runners import java
from airflow_hivex.core.store.engine import ENGINE_LISTENERS, Store
from airflow_hivex.core.store.migrating import VERSION_TABLE, prepare
from airflow_hivex.core.store.schema import metadata
from tests import evidence, spark_options, unsynchronized
from tests.object_store import ObjectStore, connector_jars, start_object_store
from tests.postgresql import EmptiedDatabases, start_postgresql
from tests.standalone_clusters import StandaloneCluster, running_clusters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Dialect, Engine

    from tests.postgresql import PostgresqlServer

assert unsynchronized

# Read by every Spark that tests and their processes start.
os.environ.setdefault(spark_options.VARIABLE, spark_options.java_options())
# At the end of the class path, where it does not spoil the archive of classes.
os.environ.setdefault("SPARK_DIST_CLASSPATH", os.pathsep.join(map(str, connector_jars())))
# They have an archive of classes of their own.
os.environ.setdefault(java.VARIABLE, "")
# The cleaner deletes at once what a compaction has replaced. Tests of earlier versions have a setting of their own.
os.environ.setdefault(RETENTION_VARIABLE, "0")

# The speed of examples depends on the machine alone.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

_COUNTED = pytest.StashKey[evidence.Counted]()


class Counts:
    """The numbers that tests report after the run, by title; it travels with the test's report."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._properties = request.node.user_properties

    def __setitem__(self, title: str, counted: str | Mapping[str, int]) -> None:
        """Report a text, or numbers, which are added to those of other tests of that title."""
        self._properties.append((f"{evidence.COUNT}{title}", counted if isinstance(counted, str) else dict(counted)))


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> Counts:
    """What is printed after the run, by title."""
    return Counts(request)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-counts", metavar="FILE", help="write what tests have counted into this page, too")


def pytest_configure(config: pytest.Config) -> None:
    page = config.getoption("--write-counts")
    config.stash[_COUNTED] = evidence.Counted(Path(page) if page else None)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(config.stash[_COUNTED])


def pytest_report_header() -> str:
    return evidence.described()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what tests have counted."""
    if counted := config.stash[_COUNTED].by_title():
        terminalreporter.section("counts")
        for title, text in counted.items():
            terminalreporter.write_line(f"{title}: {text}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of long tests that are not drawn; ``make evidence`` takes all."""
    kept = _drawn_of_spark(_drawn_cases(_on_drawn_backends(items)))
    if left := set(items).difference(kept):
        config.hook.pytest_deselected(items=list(left))
        items[:] = kept
    for item in items:
        if evidence.IS_WHOLE and item.get_closest_marker("evidence"):
            item.add_marker(pytest.mark.timeout(_LONG_S), append=False)


def _on_drawn_backends(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Keep one of the databases that an acceptance test is there for, unless it is about them."""
    alike: dict[str, list[pytest.Item]] = {}
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        is_about_databases = item.get_closest_marker("every_backend") or _ACCEPTANCE not in item.path.parents
        if "metastore_url" in parameters and not is_about_databases:
            alike.setdefault(item.nodeid.replace(parameters["metastore_url"], ""), []).append(item)
    left = set[pytest.Item]()
    for name, same in alike.items():
        if len(same) > 1:
            for item in same:
                item.add_marker("evidence")
            left |= set(same).difference(evidence.drawn(name, same, 1))
    return [item for item in items if item not in left]


def _drawn_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Keep as many cases of a parametrized test as its marker says: ``@pytest.mark.evidence(cases=1)``.

    With ``among="a name"`` they are drawn from all tests whose marker has that name.
    """
    cases: dict[str, list[pytest.Item]] = {}
    most: dict[str, int] = {}
    for item in items:
        marked = [marker.kwargs for marker in item.iter_markers("evidence") if "cases" in marker.kwargs]
        if marked:
            name = marked[0].get("among") or item.nodeid.partition("[")[0]
            cases.setdefault(name, []).append(item)
            most[name] = marked[0]["cases"]
    left = set[pytest.Item]()
    for name, same in cases.items():
        left |= set(same).difference(evidence.drawn(name, same, most[name]))
    return [item for item in items if item not in left]


def _drawn_of_spark(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Keep an eighth of the cases of each test that starts Spark, at least one, where all modules run.

    Who names a module gets all of them. Those whose marker says how many cases run have been drawn already.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_drawn = any("cases" in marker.kwargs for marker in item.iter_markers("evidence"))
        if item.get_closest_marker("spark") and not is_drawn:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    runs_all = len({item.path for item in items}) >= _MANY_MODULES
    left = set[pytest.Item]()
    for name, same in cases.items():
        if len(same) > 1 and (runs_all or evidence.IS_WHOLE):
            for item in same:
                item.add_marker("evidence")
            left |= set(same).difference(evidence.drawn(name, same, -(-len(same) // 8)))
    return [item for item in items if item not in left]


_MANY_MODULES = 100
_LONG_S = 4 * 3600
_ACCEPTANCE = Path(__file__).parent / "acceptance"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """One PostgreSQL server for the whole run."""
    server = start_postgresql()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """One server of S3 for the whole run."""
    store = start_object_store(tmp_path_factory.mktemp("object_store") / "log")
    yield store
    store.stop()


@pytest.fixture(scope="session")
def spark_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[StandaloneCluster]]:
    """Two real Spark standalone clusters for the whole run."""
    with running_clusters(tmp_path_factory.mktemp("spark_clusters")) as clusters:
        yield clusters


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
    _COMPILED[store.engine.dialect.name] = store.engine.dialect, {}


_COMPILED: dict[str, tuple[Dialect, dict[Any, Any]]] = {}


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Let engines of one kind of database share the statements that they have compiled.

    SQLAlchemy compiles a statement once for each engine. Nearly every test has an engine of its own, and would spend
    a third of its time on that.
    """
    ENGINE_LISTENERS.append(_share_compiled)
    yield
    ENGINE_LISTENERS.remove(_share_compiled)


def _share_compiled(engine: Engine) -> None:
    if engine.dialect.name in _COMPILED:
        # What was compiled is found by the dialect, too.
        engine.dialect, compiled = _COMPILED[engine.dialect.name]
        engine.update_execution_options(compiled_cache=compiled)


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
