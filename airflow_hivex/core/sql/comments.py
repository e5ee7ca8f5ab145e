"""COMMENT ON."""

from __future__ import annotations

from airflow_hivex.core.model.statements import CommentOn, TableName
from airflow_hivex.core.sql.clauses import unsupported_statement
from airflow_hivex.core.sql.databases import DATABASE_WORDS
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Token

_TABLE_PARTS = 2
"""The most parts of the name of a table."""


def read_comment_on(cursor: Cursor, first: Token) -> CommentOn:
    """Return the statement whose word COMMENT is read.

    Raises:
        StatementSyntaxError: it is not SQL.
        UnsupportedStatementError: it is about another kind of object, or a field of a column.
    """
    cursor.expect("ON")
    if cursor.accept_one(*DATABASE_WORDS):
        database = cursor.database_name()
        return CommentOn(_comment(cursor), database=database)
    if cursor.accept_one("TABLE", "VIEW"):
        table = cursor.table_name()
        return CommentOn(_comment(cursor), table=table)
    if not cursor.accept("COLUMN"):
        raise unsupported_statement(cursor, first)
    table, column = _column(cursor)
    return CommentOn(_comment(cursor), table=table, column=column)


def _column(cursor: Cursor) -> tuple[TableName, str]:
    """Return the table and the column of ``table.column``, where the database of the table may stand in front."""
    token = cursor.peek()
    start = cursor.offset()
    parts = [cursor.name("the name of a table")]
    span = cursor.span_from(start)
    cursor.expect_symbol(".")
    parts.append(cursor.name("the name of a column"))
    while cursor.at_symbol("."):
        span = cursor.span_from(start)
        cursor.expect_symbol(".")
        parts.append(cursor.name("the name of a column"))
    *table, column = parts
    if len(table) > _TABLE_PARTS:
        raise cursor.unsupported("a column is named table.column or database.table.column, without fields", token)
    return TableName(table[-1], table[0] if len(table) == _TABLE_PARTS else None, span=span), column


def _comment(cursor: Cursor) -> str | None:
    cursor.expect("IS")
    return None if cursor.accept("NULL") else read_string(cursor, "a comment or NULL")
