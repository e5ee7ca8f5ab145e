"""The parts of ALTER TABLE for columns, in Spark's and in Hive's words."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.grammar.columns import read_added_columns, read_place
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind
from airflow_hivex.core.parser.lexer.types import read_type

CONSTRAINT = "CHECK (...), PRIMARY KEY (...), UNIQUE (...) or FOREIGN KEY (...)"


def read_new_columns(cursor: Cursor) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Return the columns behind ADD COLUMNS, and the places that some of them are given."""
    places: dict[str, str] = {}
    return read_added_columns(cursor, several=True, places=places), places


def read_whole_column(cursor: Cursor) -> str:
    """Return the name of a column.

    Raises:
        UnsupportedStatementError: it is that of a field of a column.
    """
    token = cursor.peek()
    name = cursor.name("a column")
    if cursor.at_symbol("."):
        raise cursor.unsupported("only whole columns can be changed, not fields of them", token)
    return name


def read_changed_column(cursor: Cursor) -> dict[str, Any]:
    """Return the fields of ChangeColumn behind CHANGE, whose older form in Spark names the column once.

    ``old new type [constraint] [COMMENT '...'] [FIRST | AFTER c]``
    """
    column = read_whole_column(cursor)
    if cursor.at("COMMENT") and cursor.at_kind(Kind.STRING, ahead=1):
        cursor.expect("COMMENT")
        return {"column": column, "comment": read_string(cursor, "a comment")}
    following = cursor.peek(1)
    once_named = following is None or following.kind not in (Kind.WORD, Kind.QUOTED)
    name = column if once_named else read_whole_column(cursor)
    column_type = read_type(cursor)
    constraints = ConstraintReader()
    token = cursor.peek()
    constraints.accept_of_column(cursor, normalise(name))
    comment = read_string(cursor, "a comment") if cursor.accept("COMMENT") else None
    after = read_place(cursor)
    cursor.accept_one("CASCADE", "RESTRICT")
    added = constraints.found
    if added.not_null or added.checks:
        reason = "rows are compared with NOT NULL by ALTER COLUMN ... SET NOT NULL, with a CHECK by ADD CONSTRAINT"
        raise cursor.unsupported(reason, token)
    found = {"column": column, "name": name, "type": column_type, "comment": comment, "after": after}
    return {**found, "added": added}


def read_constraint(cursor: Cursor) -> Constraints:
    """Return the constraint behind ADD.

    Raises:
        StatementSyntaxError: none stands there.
    """
    constraints = ConstraintReader()
    if not constraints.accept_of_table(cursor):
        raise cursor.expected(CONSTRAINT)
    return constraints.found
