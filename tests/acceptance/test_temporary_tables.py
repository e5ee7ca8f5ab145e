"""Temporary tables: one session has them, they hide other tables, and they go with the session, also a killed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import AlreadyExistsError, InvalidObjectError, InvalidOperationError, NoSuchTableError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

DAY_MS = 86_400_000


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def folders(root: Path) -> list[str]:
    stored = root / "c1" / "hivex_temporary.db"
    return sorted(each.name.partition("__")[0] for each in stored.iterdir()) if stored.exists() else []


def test_a_temporary_table_belongs_to_its_session_and_goes_with_it(
    session: Session, metastore: Metastore, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE t (id int, v string)")
    session.sql("INSERT INTO t VALUES (1, 'kept'), (2, 'kept')")
    with metastore.session(user="temporary") as own:
        own.sql("CREATE TEMPORARY TABLE t AS SELECT id, concat(v, '!') AS v FROM t")
        own.sql("INSERT INTO t VALUES (3, 'mine')")
        own.sql("UPDATE t SET v = 'changed' WHERE t.id = 1")
        assert rows(own, "SELECT t.id, v FROM t ORDER BY t.id") == [(1, "changed"), (2, "kept!"), (3, "mine")]
        assert own.to_arrow("t", columns=["id"]).num_rows == 3
        own.insert_rows("t", [(4, "row")])
        assert rows(session, "SELECT id, v FROM t ORDER BY id") == [(1, "kept"), (2, "kept")]
        own.sql("CREATE TEMP TABLE IF NOT EXISTS n (id INT) STORED AS PARQUET")
        own.sql("CREATE TEMPORARY TABLE like_t LIKE t")
        own.sql("CREATE TEMPORARY VIEW w AS SELECT id FROM t WHERE id > 3")
        own.sql("INSERT INTO n SELECT id FROM w")
        assert rows(own, "SELECT * FROM n") == [(4,)]
        assert rows(own, "SHOW TABLES") == [("like_t",), ("n",), ("t",), ("w",)]
        assert rows(session, "SHOW TABLES") == [("t",)]
        assert rows(own, "SHOW DATABASES") == [("default",)]
        assert rows(own, "SELECT count(*) FROM default.t JOIN t USING (id)") == [(2,)]
        assert str(rows(own, "SHOW CREATE TABLE n")[0][0]).startswith("CREATE TEMPORARY TABLE `n` (")
        assert ("Table", "n", "") in rows(own, "DESCRIBE EXTENDED n")
        assert own.explain("SELECT * FROM n").cluster == "c1"
        assert not own.is_detachable("SELECT * FROM n")
        # Views name their tables with databases.
        session.sql("CREATE VIEW v AS SELECT count(*) AS rows FROM t")
        assert rows(own, "SELECT rows FROM v") == [(2,)]
        for text in (
            "CREATE TABLE n (id INT)",
            "ALTER TABLE n RENAME TO m",
            "CREATE VIEW kept AS SELECT * FROM n",
            "CREATE OR REPLACE TABLE n AS SELECT 1 AS i",
        ):
            with pytest.raises(InvalidOperationError, match="on n is refused: it is a temporary table of the session"):
                own.sql(text)
        with pytest.raises(AlreadyExistsError, match="Temporary table n exists already"):
            own.sql("CREATE TEMPORARY TABLE n (id INT)")
        own.sql("DROP TABLE t")
        assert rows(own, "SELECT v FROM t WHERE id = 1") == [("kept",)]
        assert folders(tmp_path) == ["n"]
    assert folders(tmp_path) == []
    assert metastore.catalog.list_tables("hivex_temporary") == []
    with pytest.raises(NoSuchTableError):
        session.sql("SELECT * FROM n")


def test_the_housekeeper_drops_what_a_killed_session_has_left(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    now = [1_700_000_000_000]
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=lambda: now[0]) as metastore:
        killed, alive = (metastore.session(user=user) for user in ("killed", "alive"))
        for name, session in (("lost", killed), ("held", alive)):
            session.sql(f"CREATE TEMPORARY TABLE {name} (id int)")
            session.sql(f"INSERT INTO {name} VALUES (1)")
        assert metastore.housekeeper.run().temporary_tables == 0
        now[0] += DAY_MS - 1
        assert rows(alive, "SELECT current_database()") == [("default",)]
        now[0] += 1000
        assert metastore.housekeeper.run().temporary_tables == 1
        assert folders(tmp_path) == ["held"]
        assert rows(alive, "SELECT id FROM held") == [(1,)]
        with pytest.raises(NoSuchTableError):
            killed.sql("SELECT * FROM lost")
        killed.close()
        alive.close()
        assert folders(tmp_path) == []


def test_tables_of_users_do_not_come_among_the_temporary_ones(session: Session, metastore: Metastore) -> None:
    session.sql("CREATE TEMPORARY TABLE x (id int)")
    session.sql("CREATE TEMPORARY TABLE alike LIKE x")
    session.sql("INSERT INTO x VALUES (1)")
    session.sql("CREATE TABLE kept (id int)")
    with metastore.session(user="other") as other:
        for text in (
            "CREATE TABLE hivex_temporary.mine (id int)",
            "CREATE TABLE hivex_temporary.mine LIKE kept",
            "CREATE EXTERNAL TABLE hivex_temporary.mine (id int) STORED AS ORC LOCATION 'mine'",
            "CREATE TABLE hivex_temporary.mine AS SELECT 1 AS id",
            "ALTER TABLE kept RENAME TO hivex_temporary.kept",
        ):
            # The housekeeping drops it with its rows after a day in which no session has used it.
            with pytest.raises(InvalidObjectError, match="has the temporary tables of sessions only"):
                other.sql(text)
        with pytest.raises(InvalidOperationError, match="temporary tables of all sessions"):
            other.sql("DROP DATABASE hivex_temporary CASCADE")
    assert session.to_arrow("x")["id"].to_pylist() == [1]
