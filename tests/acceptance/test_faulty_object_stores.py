"""Object stores that answer late or wrong: a statement ends right, or is an error and leaves the rows as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.session import Session
from tests.faulty_object_store import FAULTS, FaultyObjectStore
from tests.object_store import ObjectStore

STATEMENTS = {
    "values": "INSERT INTO t VALUES (3, 1), (4, 2), (5, 3)",
    "overwrite": "INSERT OVERWRITE t VALUES (3, 1)",
    "truncate": "TRUNCATE TABLE t",
    "rename": "ALTER TABLE t PARTITION (k = 1) RENAME TO PARTITION (k = 9)",
    "drop": "ALTER TABLE t DROP PARTITION (k = 1)",
    "copy": "REPLICATE TABLE d TO CLUSTER cloud",
    "back": "REPLICATE TABLE t TO CLUSTER disk",
    "primary": "ALTER TABLE t SET PRIMARY CLUSTER disk",
}


@pytest.fixture(scope="module")
def store(object_store: ObjectStore) -> Iterator[FaultyObjectStore]:
    faulty = FaultyObjectStore(object_store.url)
    yield faulty
    faulty.stop()


@pytest.fixture
def session(sqlite_url: str, object_store: ObjectStore, store: FaultyObjectStore, tmp_path: Path) -> Iterator[Session]:
    options = {**object_store.options, "endpoint_url": store.url}
    clusters = {
        "cloud": {
            "filesystem": f"s3a://{object_store.create_bucket()}/warehouse",
            "jobtracker": "local[2]",
            "storage_options": options,
        },
        "disk": {"filesystem": (tmp_path / "disk").as_uri(), "jobtracker": "local[2]"},
    }
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="cloud") as metastore,
        metastore.session() as opened,
    ):
        opened.sql("CREATE TABLE t (id int) PARTITIONED BY (k int)")
        opened.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        opened.sql("CREATE TABLE d (id int) TBLPROPERTIES ('hivex.cluster' = 'disk')")
        opened.sql("INSERT INTO d VALUES (1), (2), (3)")
        yield opened


def rows(session: Session) -> dict[str, list[tuple[object, ...]]]:
    """The rows of each table on each cluster that has it."""
    found = {}
    for (name,) in session.sql("SHOW TABLES").rows:
        table = session.to_arrow(str(name))
        found[str(name)] = sorted(tuple(row.values()) for row in table.to_pylist())
    for name in "dt":
        found[f"copies of {name}"] = session.sql(f"SHOW COPIES {name}").rows
    return found


@pytest.mark.evidence(cases=3, among="statements on object stores that answer late or wrong")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_loses_nothing(session: Session, store: FaultyObjectStore, name: str, fault: str) -> None:
    before = rows(session)
    failed = None
    with store.fault(fault):
        try:
            session.sql(STATEMENTS[name])
        except HivexError as error:
            failed = error

    after = rows(session)
    if failed is not None:
        assert after == before
        session.sql(STATEMENTS[name])
        after = rows(session)
    assert after != before
