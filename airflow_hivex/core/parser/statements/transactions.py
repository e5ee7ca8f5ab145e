"""Statements about transactions and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from airflow_hivex.core.model.ended_statements import StatementOutcome
from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.statements.base import Named, ObjectKind, RefusedPart, Role, Statement


@dataclass(frozen=True, slots=True)
class StartTransaction(Statement):
    """The beginning of a transaction of several statements."""

    KIND = "START TRANSACTION"
    SYNTAX = (
        "START TRANSACTION [READ ONLY | READ WRITE]",
        "START TRANSACTION {READ ONLY | READ WRITE} ',' ISOLATION LEVEL SNAPSHOT",
        "START TRANSACTION ISOLATION LEVEL SNAPSHOT [',' {READ ONLY | READ WRITE}]",
        "BEGIN [TRANSACTION | WORK]",
    )
    REFUSED = (
        (
            "START TRANSACTION [READ {ONLY | WRITE} ','] ISOLATION LEVEL {READ | REPEATABLE | SERIALIZABLE}",
            "the isolation level of a transaction is SNAPSHOT; there is no other",
        ),
        (
            "BEGIN <script>",
            "BEGIN is not a statement of this release; run the statements one after the other, in a transaction by "
            "START TRANSACTION and COMMIT",
        ),
    )

    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """The commit of a transaction: all writes of the transaction become visible."""

    KIND = "COMMIT"
    SYNTAX = ("COMMIT [WORK | TRANSACTION]",)


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """The rollback of a transaction: no write of the transaction ever becomes visible."""

    KIND = "ROLLBACK"
    SYNTAX = ("ROLLBACK [WORK | TRANSACTION]",)
    REFUSED = (
        (
            "ROLLBACK [WORK | TRANSACTION] TO",
            "there are no savepoints; ROLLBACK undoes the whole transaction",
        ),
    )


@dataclass(frozen=True, slots=True)
class AbortTransactions(Statement):
    """The abort of transactions of any client. The ids are in the given order, each once."""

    KIND = "ABORT TRANSACTIONS"
    SYNTAX = ("ABORT TRANSACTIONS <ids transaction_ids>",)

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShowTransactions(Statement):
    """The transactions that are open or aborted."""

    KIND = "SHOW TRANSACTIONS"
    SYNTAX = ("SHOW TRANSACTIONS",)


@dataclass(frozen=True, slots=True)
class ShowStatements(Statement):
    """The history of ended statements, the newest first. ``order_by`` has pairs (column, is ascending)."""

    KIND = "SHOW STATEMENTS"
    SYNTAX = (
        "SHOW STATEMENTS [{FROM | IN} <database>] [LIKE <pattern>] "
        "[DAG <dag_id> & TASK <task_id> & RUN <run_id> & USER <user user_name> & STATUS <outcome statement_status> "
        "& ORDER BY <order_by statement_order> & LIMIT <limit row_count>]",
    )

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE)] = None
    pattern: str | None = None
    dag_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    user: str | None = None
    outcome: StatementOutcome | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowLocks(Statement):
    """The locks on a table or a database, or all locks.

    ``partition`` has a value for each named key; None stands for NULL.
    """

    KIND = "SHOW LOCKS"
    SYNTAX = (
        "SHOW LOCKS [EXTENDED]",
        "SHOW LOCKS {DATABASE | SCHEMA} <database> [EXTENDED]",
        "SHOW LOCKS <table> [PARTITION <partition>] [EXTENDED]",
    )

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE)] = None
    table: Annotated[TableName | None, Named(Role.DESCRIBE)] = None
    partition: Mapping[str, Literal] | None = None
    extended: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ShowLocks:
        """Return the statement. A table with the name DATABASE or SCHEMA must be in backquotes."""
        table = values.get("table")
        if table is not None and str(table) in ("database", "schema") and len(values) == 1:
            raise RefusedPart("table", f"the name of a database is missing; for a table of that name write `{table}`")
        return cls(**values)
