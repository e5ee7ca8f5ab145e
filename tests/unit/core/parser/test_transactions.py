"""Statements of transactions and locks are read exactly; nonsense is refused where it stands."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.ended_statements import StatementOutcome
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    AbortTransactions,
    Commit,
    Literal,
    Rollback,
    ShowLocks,
    ShowStatements,
    ShowTransactions,
    StartTransaction,
    Statement,
    TableName,
)

T = TableName("t")
HIGHEST_ID = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("START TRANSACTION", StartTransaction()),
        ("start transaction;", StartTransaction()),
        ("START TRANSACTION READ ONLY", StartTransaction(read_only=True)),
        ("START TRANSACTION READ WRITE", StartTransaction()),
        ("START TRANSACTION ISOLATION LEVEL SNAPSHOT", StartTransaction()),
        ("START TRANSACTION READ ONLY, ISOLATION LEVEL SNAPSHOT", StartTransaction(read_only=True)),
        ("START TRANSACTION ISOLATION LEVEL SNAPSHOT, READ WRITE", StartTransaction()),
        ("BEGIN", StartTransaction()),
        ("BEGIN TRANSACTION", StartTransaction()),
        ("BEGIN WORK", StartTransaction()),
        ("COMMIT", Commit()),
        ("COMMIT WORK", Commit()),
        ("commit transaction;", Commit()),
        ("ROLLBACK", Rollback()),
        ("ROLLBACK WORK", Rollback()),
        ("ROLLBACK TRANSACTION", Rollback()),
        ("SHOW TRANSACTIONS", ShowTransactions()),
        ("SHOW STATEMENTS", ShowStatements()),
        ("SHOW STATEMENTS FROM db LIKE 't*'", ShowStatements(database="db", pattern="t*")),
        (
            "SHOW STATEMENTS IN db STATUS 'rolled back' DAG 'd' TASK 't' RUN 'r' USER 'u' ORDER BY wait_s DESC LIMIT 5",
            ShowStatements(
                database="db",
                dag_id="d",
                task_id="t",
                run_id="r",
                user="u",
                outcome=StatementOutcome.ROLLED_BACK,
                order_by=(("wait_s", False),),
                limit=5,
            ),
        ),
        ("SHOW LOCKS", ShowLocks()),
        ("SHOW LOCKS EXTENDED", ShowLocks(extended=True)),
        ("SHOW LOCKS t", ShowLocks(table=T)),
        ("show locks Db.T extended", ShowLocks(table=TableName("t", "db"), extended=True)),
        ("SHOW LOCKS `extended`", ShowLocks(table=TableName("extended"))),
        (
            "SHOW LOCKS t PARTITION (ds = '2013-01-01', hr = 7, x = NULL) EXTENDED",
            ShowLocks(
                table=T,
                partition={
                    "ds": Literal("2013-01-01", "string"),
                    "hr": Literal(7, "int"),
                    "x": Literal(None, "void"),
                },
                extended=True,
            ),
        ),
        ("SHOW LOCKS DATABASE Db", ShowLocks(database="db")),
        ("SHOW LOCKS SCHEMA db EXTENDED", ShowLocks(database="db", extended=True)),
        ("ABORT TRANSACTIONS 7", AbortTransactions((7,))),
        ("ABORT TRANSACTIONS 3 1 2;", AbortTransactions((3, 1, 2))),
        ("ABORT TRANSACTIONS 3, 1,2", AbortTransactions((3, 1, 2))),
        ("ABORT TRANSACTIONS 1 1, 2 1", AbortTransactions((1, 2))),
        (f"ABORT TRANSACTIONS {HIGHEST_ID}", AbortTransactions((HIGHEST_ID,))),
    ],
)
def test_statement_is_read(text: str, expected: Statement) -> None:
    assert read(text) == expected


def test_id_of_a_transaction_may_be_a_parameter() -> None:
    assert read("ABORT TRANSACTIONS :a, :b", {"a": 4, "b": 5}) == AbortTransactions((4, 5))
    with pytest.raises(InvalidParametersError, match="no marker uses b"):
        read("ABORT TRANSACTIONS :a", {"a": 4, "b": 5})
    for value in (None, 0, -1, "1", 1.0, True):
        with pytest.raises(StatementSyntaxError, match="found :a"):
            read("ABORT TRANSACTIONS :a", {"a": value})
    with pytest.raises(StatementSyntaxError, match="found :a"):
        read("ABORT TRANSACTIONS :a")


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("ABORT TRANSACTIONS", 19, "the statement ends here"),
        ("ABORT TRANSACTIONS 0", 20, "found 0"),
        ("ABORT TRANSACTIONS -1", 20, "found -1"),
        ("ABORT TRANSACTIONS 1 -2", 22, "found -2"),
        (f"ABORT TRANSACTIONS 1 {HIGHEST_ID + 1}", 22, f"found {HIGHEST_ID + 1}"),
        (f"ABORT TRANSACTIONS {'9' * 50}", 20, "found 999"),
        ("ABORT TRANSACTIONS all", 20, "found all"),
        ("ABORT TRANSACTIONS '1'", 20, "found '1'"),
        ("ABORT TRANSACTIONS 1.5", 20, "found 1.5"),
        ("ABORT TRANSACTIONS 1e3", 20, "found 1e3"),
        ("ABORT TRANSACTIONS true", 20, "found true"),
        ("ABORT TRANSACTIONS NULL", 20, "found NULL"),
        ("ABORT TRANSACTIONS (1, 2)", 20, "found ("),
        ("ABORT TRANSACTIONS 1,", 22, "the statement ends here"),
        ("ABORT TRANSACTIONS 1,, 2", 22, "found ,"),
        ("ABORT TRANSACTIONS , 1", 20, "found ,"),
        ("ABORT TRANSACTIONS 1 OR 1 = 1", 22, "found OR"),
        ("ABORT TRANSACTIONS 1; ABORT TRANSACTIONS 2", 23, "a second statement"),
        ("START", 6, "expected TRANSACTION"),
        ("START ENGINE", 7, "expected TRANSACTION"),
        ("START TRANSACTION NOW", 19, "READ ONLY, READ WRITE, ISOLATION LEVEL SNAPSHOT or the end"),
        ("START TRANSACTION READ", 23, "ONLY or WRITE"),
        ("START TRANSACTION READ ONLY,", 29, "expected ISOLATION LEVEL SNAPSHOT"),
        ("START TRANSACTION READ ONLY READ WRITE", 29, "the end of the statement"),
        ("START TRANSACTION READ ONLY, READ WRITE", 30, "expected ISOLATION LEVEL SNAPSHOT, found READ"),
        ("START TRANSACTION ISOLATION LEVEL CHAOS", 35, "expected SNAPSHOT"),
        ("BEGIN SELECT 1", 7, "BEGIN is not a statement of this release; run the statements one after the other"),
        ("BEGIN WORK NOW", 12, "the end of the statement"),
        ("COMMIT AND CHAIN", 8, "the end of the statement"),
        ("ROLLBACK t", 10, "the end of the statement"),
        ("SHOW TRANSACTIONS t", 19, "the end of the statement"),
        ("SHOW STATEMENTS STATUS 'late'", 24, "it is one of 'succeeded', 'open'"),
        ("SHOW LOCKS DATABASE", 12, "the name of a database is missing"),
        ("SHOW LOCKS t PARTITION (ds)", 24, "ds needs a value"),
        ("SHOW LOCKS t PARTITION (ds = 1, ds = 2)", 33, "named twice"),
        ("SHOW LOCKS t PARTITION (ds > 1)", 28, "expected ')'"),
        ("SHOW LOCKS PARTITION (ds = 1)", 22, "the end of the statement"),
        ("SHOW LOCKS 5", 12, "the name of a table"),
        ("EXPLAIN COMMIT", 9, "and not of COMMIT"),
    ],
)
def test_nonsense_is_refused_at_its_place(text: str, column: int, reason: str) -> None:
    with pytest.raises((StatementSyntaxError, UnsupportedStatementError)) as error:
        read(text)
    assert reason in error.value.reason
    assert (error.value.line, error.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("START TRANSACTION ISOLATION LEVEL READ COMMITTED", 35, "SNAPSHOT"),
        ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE", 35, "SNAPSHOT"),
        ("ROLLBACK TO SAVEPOINT s", 10, "savepoints"),
        ("SHOW LOCKS t@y", 12, "link"),
        ("SHOW LOCKS a.b.c", 12, "only catalog"),
    ],
)
def test_sql_of_other_systems_is_refused_by_name(text: str, column: int, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=reason) as error:
        read(text)
    assert (error.value.line, error.value.column) == (1, column)
