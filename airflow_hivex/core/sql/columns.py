"""Lists of columns with their types, as CREATE TABLE and ALTER TABLE have them."""

from __future__ import annotations

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.sql.clauses import once
from airflow_hivex.core.sql.constraints import ConstraintReader
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind
from airflow_hivex.core.sql.types import read_type

_NOT_KEPT = ("NOT", "NULL", "DEFAULT", "GENERATED", "COLLATE", "REFERENCES", "FIRST", "AFTER")


def read_added_columns(cursor: Cursor, *, several: bool = False) -> tuple[Column, ...]:
    """Return the columns of ADD COLUMNS, in parentheses or one alone; Hive's CASCADE and RESTRICT mean nothing here.

    ``several`` may also stand without parentheses.

    Raises:
        StatementSyntaxError: it is not a list of columns.
        UnsupportedStatementError: a column is given a place, or belongs to a struct.
    """
    if not cursor.at_symbol("("):
        found = {(column := read_column(cursor)).name: column}
        while several and cursor.accept_symbol(","):
            token = cursor.peek()
            column = read_column(cursor)
            if column.name in found:
                raise cursor.error(f"column {column.name} is named twice", token)
            found[column.name] = column
        return tuple(found.values())
    columns = tuple(read_columns(cursor).values())
    cursor.accept_one("CASCADE", "RESTRICT")
    return columns


def read_columns(cursor: Cursor, constraints: ConstraintReader | None = None) -> dict[str, Column]:
    """Return the columns of a list in parentheses, by name; with ``constraints`` that reads theirs and the table's."""
    cursor.expect_symbol("(")
    found: dict[str, Column] = {}
    while True:
        token = cursor.peek()
        if constraints is not None and found and constraints.accept_of_table(cursor):
            if not cursor.accept_symbol(","):
                break
            continue
        column = read_column(cursor, constraints)
        if column.name in found:
            raise cursor.error(f"column {column.name} is named twice", token)
        found[column.name] = column
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return found


def read_column(cursor: Cursor, constraints: ConstraintReader | None = None) -> Column:
    """Return one column: its name, its type, and perhaps a comment and constraints."""
    _refuse_constraint(cursor)
    name = cursor.name("the name of a column")
    column_type = read_type(cursor)
    comment: str | None = None
    while not cursor.at_symbol(",", ")") and not cursor.at_end:
        token = cursor.peek()
        if cursor.accept("COMMENT"):
            once(cursor, token, comment is not None)
            comment = read_string(cursor, "a comment")
            continue
        if constraints is not None and constraints.accept_of_column(cursor, normalise(name)):
            continue
        _refuse_constraint(cursor)
        if constraints is None and token is not None and token.word in ("DEFAULT", "NOT"):
            reason = "a column is added without constraints; ALTER COLUMN sets DEFAULT, and NOT NULL, behind that"
            raise cursor.unsupported(reason, token)
        if token is not None and token.word in _NOT_KEPT:
            raise cursor.unsupported(f"{token.word} is not kept for a column here; leave it out", token)
        raise cursor.expected("',', ')' or COMMENT")
    return Column(name, column_type, comment)


def _refuse_constraint(cursor: Cursor) -> None:
    keyed = cursor.at("PRIMARY", "KEY") or cursor.at("FOREIGN", "KEY")
    listed = (cursor.at("UNIQUE") or cursor.at("CHECK")) and cursor.at_symbol("(", ahead=1)
    named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=2)
    if keyed or listed or named:
        raise cursor.unsupported("only DEFAULT, NOT NULL and CHECK are kept; leave other constraints out")
