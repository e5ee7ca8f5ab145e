from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, dbapi
from airflow_hivex.core.errors import InvalidOperationError, NoResultSetError, StatementSyntaxError, WriteConflictError

pytestmark = pytest.mark.spark


@pytest.fixture
def connection(metastore: Metastore) -> Iterator[dbapi.Connection]:
    with closing(dbapi.Connection(metastore.session(user="tester"))) as connection:
        connection.cursor().execute("CREATE TABLE t (a INT, b STRING)")
        yield connection


@pytest.fixture
def other(metastore: Metastore, connection: dbapi.Connection) -> Iterator[dbapi.Connection]:
    with closing(dbapi.Connection(metastore.session(user="other"), autocommit=True)) as other:
        yield other


def rows(connection: dbapi.Connection, sql: str = "SELECT a, b FROM t ORDER BY a") -> list[Any]:
    return connection.cursor().execute(sql).fetchall()


def test_rows_are_seen_by_others_after_commit_and_never_after_rollback(
    connection: dbapi.Connection, other: dbapi.Connection
) -> None:
    cursor = connection.cursor()
    assert cursor.execute("INSERT INTO t VALUES (:a, ?)".replace("?", ":b"), {"a": 1, "b": "it's"}).rowcount == 1
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(2, "x"), (3, None)])
    assert (cursor.rowcount, cursor.description) == (2, None)
    assert rows(connection) == [(1, "it's"), (2, "x"), (3, None)]
    assert rows(other) == []
    connection.commit()
    cursor.execute("DELETE FROM t WHERE a < ?", (3,))
    assert cursor.rowcount == 2
    connection.rollback()
    assert len(rows(other)) == 3
    cursor.execute("INSERT INTO t VALUES (4, 'left open')")
    connection.close()
    assert len(rows(other)) == 3


def test_statement_that_no_transaction_may_have_commits_first(
    connection: dbapi.Connection, other: dbapi.Connection
) -> None:
    cursor = connection.cursor()
    cursor.execute("INSERT INTO t VALUES (1, 'x')")
    cursor.execute("CREATE TABLE u (a INT)")
    connection.rollback()
    assert rows(other) == [(1, "x")]
    cursor.execute("START TRANSACTION")
    cursor.execute("INSERT INTO t VALUES (2, 'y')")
    with pytest.raises(InvalidOperationError, match="run it on its own"):
        cursor.execute("DROP TABLE u")
    cursor.execute("ROLLBACK")
    assert rows(other) == [(1, "x")]


def test_a_statement_that_is_a_value_is_in_the_transaction(
    connection: dbapi.Connection, other: dbapi.Connection
) -> None:
    cursor = connection.cursor()
    cursor.execute("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?, ''x'')' USING 1")
    assert rows(connection) == [(1, "x")]
    assert rows(other) == []
    connection.rollback()
    assert rows(connection) == []
    cursor.execute("INSERT INTO t VALUES (2, 'y')")
    cursor.execute("EXECUTE IMMEDIATE 'CREATE TABLE u (a INT)'")
    connection.rollback()
    assert rows(other) == [(2, "y")]


def test_insert_rows_takes_python_values_in_the_transaction(
    connection: dbapi.Connection, other: dbapi.Connection
) -> None:
    connection.insert_rows("t", [(1, "x"), (2, None)])
    connection.insert_rows("default.t", [{"b": "y"}])
    assert rows(other) == []
    connection.commit()
    assert rows(other) == [(None, "y"), (1, "x"), (2, None)]


def test_cursor_returns_rows_with_their_columns_and_types(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id AS a, CAST(id AS DECIMAL(5,2)) AS b, 'x' AS c FROM range(3) ORDER BY id")
        assert cursor.description is not None
        assert [(column[0], column[1]) for column in cursor.description] == [
            ("a", "bigint"),
            ("b", "decimal(5,2)"),
            ("c", "string"),
        ]
        assert (cursor.rowcount, cursor.rownumber) == (3, 0)
        assert cursor.fetchone() == (0, Decimal("0.00"), "x")
        assert [row[0] for row in cursor.fetchmany(5)] == [1, 2]
        assert cursor.fetchone() is None
        assert cursor.fetchall() == []
        assert cursor.query_id is not None
    connection.commit()
    assert ("t",) in list(connection.cursor().execute("SHOW TABLES"))


def test_conflict_at_commit_is_an_operational_error_and_the_connection_can_go_on(
    connection: dbapi.Connection, other: dbapi.Connection
) -> None:
    other.cursor().execute("INSERT INTO t VALUES (1, 'x')")
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM t")
    other.cursor().execute("UPDATE t SET b = 'other'")

    def update() -> None:
        cursor.execute("UPDATE t SET b = 'mine'")
        connection.commit()

    with pytest.raises(dbapi.OperationalError) as raised:
        update()
    assert isinstance(raised.value, WriteConflictError)
    connection.rollback()
    cursor.execute("UPDATE t SET b = 'mine'")
    connection.commit()
    assert rows(other) == [(1, "mine")]


def test_misuse_is_an_error_of_pep_249(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    with pytest.raises(NoResultSetError, match="has executed no statement"):
        cursor.fetchone()
    cursor.execute("INSERT INTO t VALUES (1, 'x')")
    with pytest.raises(dbapi.Error, match="INSERT, which returns no rows"):
        cursor.fetchall()
    with pytest.raises(InvalidOperationError, match="commit or roll back first"):
        connection.autocommit = True
    with pytest.raises(StatementSyntaxError):
        cursor.execute("SELEC 1")
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()


def test_connect_opens_a_warehouse_and_closes_it_with_the_connection(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with dbapi.connect(url, autocommit=True) as connection:
        connection.cursor().execute("CREATE DATABASE d")
    with dbapi.connect(url, database="d") as connection:
        assert ("d",) in connection.cursor().execute("SHOW DATABASES").fetchall()
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect(url, database="nowhere")


def test_parameters_of_early_years_are_the_same_days_in_spark(connection: dbapi.Connection) -> None:
    values = {f"d{year}": date(year, 3, 4) for year in (1, 999, 1582, 1583)}
    values |= {f"t{year}": datetime(year, 3, 4, 5, 6, 7, 8, tzinfo=UTC) for year in (2, 1500, 1600)}
    (row,) = connection.cursor().execute(f"SELECT {', '.join(f':{name}' for name in values)}", values).fetchall()
    assert row == tuple(values.values())
