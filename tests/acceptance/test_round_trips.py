"""How often a statement asks the metastore database for what it reads, before it writes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.store.engine import Store
from tests.postgresql_proxy import CountingProxy, described
from tests.round_trips import RoundTrips, counted


@pytest.fixture
def store(metastore: Metastore) -> Store:
    return metastore.services.store


@pytest.fixture
def tables(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, b int)")
    session.sql("INSERT INTO t VALUES (1, 2)")
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (day string)")
    for day in ("x", "y"):
        session.sql(f"INSERT INTO p PARTITION (day = '{day}') VALUES (1)")


@pytest.fixture(params=["CachedStore", "ObjectStore"])
def metastore(
    request: pytest.FixtureRequest, metastore_url: str, clusters: dict[str, dict[str, str]]
) -> Iterator[Metastore]:
    """With a cache and without."""
    settings = {"metastore.rawstore.impl": request.param}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        yield metastore


@pytest.fixture
def saved(metastore: Metastore) -> int:
    """The round trips that a cache spares for each table whose contents are read."""
    return 0 if metastore.cache is None else 1


def of_warm(store: Store, statement: Callable[[], object]) -> RoundTrips:
    """The round trips of a statement that has been run before."""
    statement()
    with counted(store) as trips:
        statement()
    return trips


@pytest.mark.usefixtures("tables")
def test_files_of_one_table_take_three_round_trips_for_metadata(session: Session, store: Store, saved: int) -> None:
    for table in ("t", "p"):
        trips = of_warm(store, lambda name=table: session.snapshot_files(name))  # type: ignore[misc]
        # One more finds out whether it is a view.
        assert len(trips.for_metadata) <= 1 + 3 - saved, trips.described()


@pytest.mark.usefixtures("tables")
def test_insert_of_constants_takes_two_round_trips_for_metadata(session: Session, store: Store) -> None:
    for text in ("INSERT INTO t VALUES (3, 4)", "INSERT INTO p PARTITION (day = 'x') VALUES (3)"):
        trips = of_warm(store, lambda text=text: session.sql(text))  # type: ignore[misc]
        assert len(trips.for_metadata) <= 2, trips.described()


@pytest.mark.spark
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_select_takes_three_round_trips_for_metadata_and_merge_one_more_for_its_source(
    session: Session, store: Store, saved: int
) -> None:
    merge = "MERGE INTO t USING p ON t.a = p.a AND p.day = 'x' WHEN MATCHED THEN UPDATE SET b = 5"
    for text, most in (
        ("SELECT * FROM t", 3 - saved),
        ("SELECT * FROM p", 3 - saved),
        ("SELECT * FROM p WHERE day = 'x'", 3 - saved),
        ("SELECT * FROM p WHERE day LIKE '%x'", 3 - saved),
        # Its own commit has changed the target.
        (merge, 4 - saved),
    ):
        trips = of_warm(store, lambda text=text: session.sql(text))  # type: ignore[misc]
        assert len(trips.for_metadata) <= most, trips.described()
        if saved and text != merge:
            # Of these, one comes before the locks: the snapshot.
            assert len(before_locks(trips)) == 1, trips.described()


def before_locks(trips: RoundTrips) -> list[tuple[str, ...]]:
    """The round trips that read metadata before the statement asks for its locks."""
    locks = next(number for number, trip in enumerate(trips) if any("INTO locks" in text for text in trip))
    return [trip for trip in trips[:locks] if trip in trips.for_metadata]


MOST = {
    "INSERT INTO t VALUES (3, 4)": 5,
    "INSERT INTO p PARTITION (day) VALUES (1, 'x'), (2, 'y')": 5,
    "CREATE TABLE n (a int)": 7,
    "DROP TABLE n": 10,
    "ALTER TABLE t SET TBLPROPERTIES ('x' = '1')": 6,
    "ALTER TABLE p ADD PARTITION (day = 'z')": 8,
    "ALTER TABLE p DROP PARTITION (day = 'z')": 17,
    "SHOW TABLES": 1,
    # It has no transaction, with whose commit its row in the history of statements could go.
    "ALTER TABLE t COMPACT 'minor'": 6,
    "START TRANSACTION": 1,
    "INSERT INTO t VALUES (5, 6)": 13,
    "INSERT INTO t VALUES (7, 8)": 10,
    "COMMIT": 4,
}
"""Statements, one after the other, and the most round trips to PostgreSQL that each may take; see the benchmark."""


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("metastore", ["ObjectStore"], indirect=True)
def test_statements_take_few_round_trips_to_postgresql(clusters: dict[str, dict[str, str]], metastore_url: str) -> None:
    with CountingProxy(metastore_url) as proxy:
        # Open transactions are counted once, by the first statement.
        settings = {"metastore.rawstore.impl": "ObjectStore", "metastore.count.open.txns.interval": 600}
        with (
            Metastore.open(proxy.url, clusters=clusters, default_cluster="c1", settings=settings) as distant,
            distant.session() as own,
        ):
            seen: dict[str, list[list[list[str]]]] = {text: [] for text in MOST}
            # The first time, the server prepares statements.
            for _ in range(2):
                for text, trips in seen.items():
                    with proxy.counted() as counted:
                        own.sql(text)
                    trips.append(counted)
    for text, trips in seen.items():
        fewest = min(trips, key=len)
        assert len(fewest) <= MOST[text], f"{text}:\n{described(fewest)}"


@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("metastore", ["ObjectStore"], indirect=True)
@pytest.mark.usefixtures("metastore")
def test_a_metastore_opens_in_three_round_trips(clusters: dict[str, dict[str, str]], metastore_url: str) -> None:
    with CountingProxy(metastore_url) as proxy, proxy.counted() as counted:
        Metastore.open(proxy.url, clusters=clusters, default_cluster="c1").close()
    assert len(counted) <= 3, described(counted)
