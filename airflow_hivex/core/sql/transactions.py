"""START TRANSACTION, COMMIT, ROLLBACK, ABORT and SHOW LOCKS."""

from __future__ import annotations

from airflow_hivex.core.model.statements import (
    AbortCompactions,
    AbortTransactions,
    Commit,
    Rollback,
    ShowLocks,
    StartTransaction,
)
from airflow_hivex.core.sql.clauses import once, read_ids, read_static_partition, unsupported_statement
from airflow_hivex.core.sql.compactions import read_abort_compactions
from airflow_hivex.core.sql.tokens import Cursor, Token

TRANSACTION_WORDS = ("START", "BEGIN", "COMMIT", "ROLLBACK", "ABORT")
_OTHER_LEVELS = ("READ", "REPEATABLE", "SERIALIZABLE")


def read_transaction(
    cursor: Cursor, first: Token
) -> StartTransaction | Commit | Rollback | AbortTransactions | AbortCompactions:
    """Return the statement whose first word, one of ``TRANSACTION_WORDS``, is read."""
    match first.word:
        case "COMMIT":
            cursor.accept_one("WORK", "TRANSACTION")
            return Commit()
        case "ROLLBACK":
            return _rollback(cursor)
        case "ABORT":
            return _abort(cursor, first)
    return _start(cursor, first)


def _start(cursor: Cursor, first: Token) -> StartTransaction:
    if first.word == "BEGIN":
        if not (cursor.accept_one("TRANSACTION", "WORK") or cursor.at_end):
            raise unsupported_statement(cursor, first)
        return StartTransaction()
    if not cursor.accept("TRANSACTION"):
        raise cursor.expected("TRANSACTION")
    read_only: bool | None = None
    has_level = False
    while not cursor.at_end:
        token = cursor.peek()
        if cursor.accept("ISOLATION"):
            once(cursor, token, has_level)
            _read_level(cursor)
            has_level = True
        elif cursor.accept("READ"):
            once(cursor, token, read_only is not None)
            read_only = _read_only(cursor)
        else:
            raise cursor.expected("READ ONLY, READ WRITE or ISOLATION LEVEL SNAPSHOT")
        if not cursor.accept_symbol(","):
            break
        if cursor.at_end:
            raise cursor.expected("READ ONLY, READ WRITE or ISOLATION LEVEL SNAPSHOT")
    return StartTransaction(read_only=bool(read_only))


def _read_only(cursor: Cursor) -> bool:
    word = cursor.accept_one("ONLY", "WRITE")
    if word is None:
        raise cursor.expected("ONLY or WRITE")
    return word == "ONLY"


def _read_level(cursor: Cursor) -> None:
    cursor.expect("LEVEL")
    if any(cursor.at(word) for word in _OTHER_LEVELS):
        raise cursor.unsupported("the isolation level of a transaction is SNAPSHOT; there is no other")
    cursor.expect("SNAPSHOT")


def _rollback(cursor: Cursor) -> Rollback:
    cursor.accept_one("WORK", "TRANSACTION")
    if cursor.at("TO"):
        raise cursor.unsupported("there are no savepoints; ROLLBACK undoes the whole transaction")
    return Rollback()


def _abort(cursor: Cursor, first: Token) -> AbortTransactions | AbortCompactions:
    if cursor.accept("COMPACTIONS"):
        return read_abort_compactions(cursor)
    if not cursor.accept("TRANSACTIONS"):
        raise unsupported_statement(cursor, first)
    return AbortTransactions(read_ids(cursor, "a transaction"))


def read_show_locks(cursor: Cursor) -> ShowLocks:
    """SHOW LOCKS [table [PARTITION (...)]] [EXTENDED], or of DATABASE | SCHEMA; the words SHOW LOCKS are read."""
    if cursor.accept_one("DATABASE", "SCHEMA"):
        database = cursor.database_name()
        return ShowLocks(database=database, extended=cursor.accept("EXTENDED"))
    if cursor.at_end or cursor.at("EXTENDED"):
        return ShowLocks(extended=cursor.accept("EXTENDED"))
    table = cursor.table_name()
    partition = read_static_partition(cursor) if cursor.accept("PARTITION") else None
    return ShowLocks(table=table, partition=partition, extended=cursor.accept("EXTENDED"))
