"""ALTER TABLE RENAME TO a name in another database: rows, copies, quotas, links and the queue of compactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    LinkedTableError,
    NoSuchDatabaseError,
    NoSuchTableError,
    QuotaExceededError,
)
from tests.acceptance.conftest import CopyTable


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE DATABASE d")
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    return session


def ids(session: Session, table: str) -> list[object]:
    return sorted(session.to_arrow(table).to_pydict()["id"])


def test_rows_copies_and_compactions_go_with_the_table(
    t: Session, metastore: Metastore, copy_table: CopyTable, tmp_path: Path
) -> None:
    copy_table("t", "c2")
    t.sql("ALTER TABLE t PARTITION (p = 1) COMPACT 'major'")
    t.sql("ALTER TABLE t RENAME TO d.u")
    assert ids(t, "d.u") == [1, 2]
    assert metastore.catalog.get_table("d", "u").storage.on("c2") is not None
    assert [(each.database, each.table) for each in metastore.compactor.show()] == [("d", "u")]
    event = metastore.notification_log.events(after=0, limit=1000)[-1]
    assert (event.database, event.table) == ("d", "u") or event.type.name == "COMMIT_TXN"
    # Both names are used again, and a list of one is not taken for that of the other.
    t.sql("CREATE TABLE t (id int)")
    t.sql("INSERT INTO t VALUES (3)")
    t.sql("INSERT INTO d.u VALUES (4, 1)")
    assert (ids(t, "t"), ids(t, "d.u")) == ([3], [1, 2, 4])
    t.sql("DROP TABLE t")
    t.sql("DROP DATABASE d CASCADE")
    assert not (tmp_path / "c1" / "default.db" / "t" / "p=1").exists()


def test_external_tables_and_views_change_their_database(t: Session) -> None:
    t.sql("CREATE EXTERNAL TABLE e (id int) STORED AS PARQUET LOCATION 'files/e'")
    t.sql("CREATE VIEW v AS SELECT id FROM t")
    t.sql("ALTER TABLE e RENAME TO d.e")
    t.sql("ALTER VIEW v RENAME TO d.w")
    assert [row[0] for row in t.sql("SHOW TABLES IN d").rows] == ["e", "w"]
    with pytest.raises(NoSuchTableError):
        t.sql("DESCRIBE e")


def test_a_name_that_cannot_be_had_changes_nothing(t: Session) -> None:
    t.sql("CREATE TABLE d.taken (id int)")
    refused: list[tuple[str, type[HivexError]]] = [("d.taken", AlreadyExistsError), ("nowhere.t", NoSuchDatabaseError)]
    for name, error in refused:
        with pytest.raises(error):
            t.sql(f"ALTER TABLE t RENAME TO {name}")
    t.sql("ALTER DATABASE d SET QUOTA 10 ON CLUSTER c1")
    with pytest.raises(QuotaExceededError):
        t.sql("ALTER TABLE t RENAME TO d.t")
    t.sql("ALTER DATABASE d UNSET QUOTA ON CLUSTER c1")
    t.sql("USE d")
    t.sql("CREATE LINK TO t@default")
    with pytest.raises(LinkedTableError):
        t.sql("ALTER TABLE default.t RENAME TO d.t")
    assert ids(t, "default.t") == [1, 2]
    assert t.sql("SHOW LOCKS").rows == []
