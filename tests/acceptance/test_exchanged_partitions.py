"""ALTER TABLE EXCHANGE PARTITION: partitions come to another table with their rows, in one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE DATABASE d")
    for name in ("t", "d.u"):
        session.sql(f"CREATE TABLE {name} (id int) PARTITIONED BY (p int, q string)")
    session.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a')")
    session.sql("ALTER TABLE t ADD PARTITION (p = 1, q = 'empty')")
    return session


class KilledError(BaseException):
    """Stands for the death of a process: nothing of the statement goes on."""


def rows(session: Session, table: str) -> list[tuple[object, ...]]:
    return session.sql(f"SELECT * FROM {table} ORDER BY id").rows


def test_partitions_change_their_table(tables: Session, tmp_path: Path) -> None:
    tables.sql("UPDATE t SET id = 10 WHERE q = 'b'")
    done = tables.sql("ALTER TABLE d.u EXCHANGE PARTITION (p = 1) WITH TABLE t")
    assert done.rows_written == 2
    assert rows(tables, "d.u") == [(1, 1, "a"), (10, 1, "b")]
    assert rows(tables, "t") == [(3, 2, "a")]
    assert [row[0] for row in tables.sql("SHOW PARTITIONS d.u").rows] == ["p=1/q=a", "p=1/q=b", "p=1/q=empty"]
    assert [row[0] for row in tables.sql("SHOW PARTITIONS t").rows] == ["p=2/q=a"]
    assert not (tmp_path / "c1" / "default.db" / "t" / "p=1").exists()


def test_files_of_external_tables_go_along(tables: Session, tmp_path: Path) -> None:
    tables.sql("CREATE EXTERNAL TABLE e (id int) PARTITIONED BY (p int, q string) STORED AS PARQUET LOCATION 'files/e'")
    tables.sql("ALTER TABLE e EXCHANGE PARTITION (p = 1, q = 'a') WITH TABLE t")
    assert rows(tables, "e") == [(1, 1, "a")]
    tables.sql("ALTER TABLE d.u EXCHANGE PARTITION (p = 1, q = 'a') WITH TABLE e")
    assert (rows(tables, "e"), rows(tables, "d.u")) == ([], [(1, 1, "a")])
    assert [path for path in (tmp_path / "c1" / "files").rglob("*") if path.is_file()] == []


def test_the_housekeeping_deletes_the_files_that_a_killed_exchange_has_given_away(
    tables: Session, metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "c1" / "files" / "e"

    def kill(point: str) -> None:
        if point == "after commit" and (folder / "p=1" / "q=a").exists():
            raise KilledError

    tables.sql("CREATE EXTERNAL TABLE e (id int) PARTITIONED BY (p int, q string) STORED AS ORC LOCATION 'files/e'")
    tables.sql("INSERT INTO e VALUES (7, 1, 'a'), (8, 2, 'a')")
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=kill) as dying,
        dying.session() as killed,
        pytest.raises(KilledError),
    ):
        killed.sql("ALTER TABLE d.u EXCHANGE PARTITION (p = 1) WITH TABLE e")
    assert (folder / "p=1").exists()
    metastore.housekeeper.run()
    assert [path.name for path in folder.iterdir()] == ["p=2"]
    tables.sql("MSCK REPAIR TABLE e")
    assert (rows(tables, "e"), rows(tables, "d.u")) == ([(8, 2, "a")], [(7, 1, "a")])


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("ALTER TABLE d.u EXCHANGE PARTITION (p = 9) WITH TABLE t", NoSuchPartitionError),
        ("ALTER TABLE d.u EXCHANGE PARTITION (x = 9) WITH TABLE t", NoSuchColumnError),
        ("ALTER TABLE d.u EXCHANGE PARTITION (p = 2) WITH TABLE t", AlreadyExistsError),
        ("ALTER TABLE other EXCHANGE PARTITION (p = 2) WITH TABLE t", InvalidOperationError),
        ("ALTER TABLE t EXCHANGE PARTITION (p = 2) WITH TABLE t", InvalidOperationError),
        ("ALTER TABLE v EXCHANGE PARTITION (p = 2) WITH TABLE t", InvalidOperationError),
    ],
)
def test_an_exchange_that_is_refused_changes_nothing(tables: Session, statement: str, error: type[HivexError]) -> None:
    tables.sql("CREATE TABLE other (id string) PARTITIONED BY (p int, q string)")
    tables.sql("CREATE VIEW v AS SELECT * FROM t")
    tables.sql("ALTER TABLE d.u ADD PARTITION (p = 2, q = 'a')")
    with pytest.raises(error):
        tables.sql(statement)
    assert len(tables.to_arrow("t")) == 3
    assert tables.sql("SHOW LOCKS").rows == []
