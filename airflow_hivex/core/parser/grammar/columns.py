"""Lists of columns with their types, as CREATE TABLE and ALTER TABLE have them."""

from __future__ import annotations

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.grammar.clauses import Parts, once
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.statements import ChangeColumn

_NOT_KEPT = ("NOT", "NULL", "DEFAULT", "GENERATED", "COLLATE", "REFERENCES", "FIRST", "AFTER")


def read_added_columns(
    cursor: Cursor, *, several: bool = False, places: dict[str, str] | None = None
) -> tuple[Column, ...]:
    """Return the columns after ADD COLUMNS: a list in parentheses, or one column without parentheses.

    If ``several`` is true, a list without parentheses is also valid. The columns' places (FIRST, AFTER) are added to
    ``places``. CASCADE and RESTRICT after a list in parentheses are ignored.

    Raises:
        StatementSyntaxError: the text is not a list of columns.
        UnsupportedStatementError: a column has a place, and ``places`` is None; or a column is a field of a struct.
    """
    if not cursor.at_symbol("("):
        found = {(column := read_column(cursor, places=places)).name: column}
        while several and cursor.accept_symbol(","):
            token = cursor.peek()
            column = read_column(cursor, places=places)
            if column.name in found:
                raise cursor.error(f"column {column.name} is named twice", token)
            found[column.name] = column
        return tuple(found.values())
    columns = tuple(read_columns(cursor, places=places).values())
    cursor.accept_one("CASCADE", "RESTRICT")
    return columns


def read_columns(
    cursor: Cursor, constraints: ConstraintReader | None = None, *, places: dict[str, str] | None = None
) -> dict[str, Column]:
    """Return a dict from name to column for a list in parentheses.

    ``constraints`` reads the constraints in the list. The columns' places (FIRST, AFTER) are added to ``places``.
    """
    cursor.expect_symbol("(")
    found: dict[str, Column] = {}
    while True:
        token = cursor.peek()
        if constraints is not None and found and constraints.accept_of_table(cursor):
            if not cursor.accept_symbol(","):
                break
            continue
        column = read_column(cursor, constraints, places=places)
        if column.name in found:
            raise cursor.error(f"column {column.name} is named twice", token)
        found[column.name] = column
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return found


def read_column(
    cursor: Cursor, constraints: ConstraintReader | None = None, *, places: dict[str, str] | None = None
) -> Column:
    """Return one column with its type and comment.

    ``constraints`` reads the constraints of the column. The column's place (FIRST, AFTER) is added to ``places``.
    """
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
        if places is not None and (cursor.at("FIRST") or cursor.at("AFTER")):
            once(cursor, token, name in places)
            places[name] = read_place(cursor) or ""
            continue
        if constraints is not None and constraints.accept_of_column(cursor, normalise(name)):
            continue
        _refuse_constraint(cursor)
        if constraints is None and token is not None and token.word in ("DEFAULT", "NOT"):
            reason = (
                "rows that are there get NULL in a new column; add it without DEFAULT and NOT NULL, fill it by UPDATE, "
                "and set both by ALTER COLUMN"
            )
            raise cursor.unsupported(reason, token)
        if token is not None and token.word in _NOT_KEPT:
            raise cursor.unsupported(f"{token.word} is not kept for a column here; leave it out", token)
        raise cursor.expected("',', ')' or COMMENT")
    return Column(name, column_type, comment)


def read_place(cursor: Cursor) -> str | None:
    """Return the column after AFTER, the empty text for FIRST, or None if neither word comes next."""
    if cursor.accept("FIRST"):
        return ""
    if not cursor.accept("AFTER"):
        return None
    token = cursor.peek()
    name = cursor.name("a column")
    if cursor.at_symbol("."):
        raise cursor.unsupported("only whole columns can be changed, not fields of them", token)
    return name


def _refuse_constraint(cursor: Cursor) -> None:
    keyed = cursor.at("PRIMARY", "KEY") or cursor.at("FOREIGN", "KEY")
    listed = (cursor.at("UNIQUE") or cursor.at("CHECK")) and cursor.at_symbol("(", ahead=1)
    named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=2)
    if keyed or listed or named:
        raise cursor.unsupported("only DEFAULT, NOT NULL and CHECK are kept; leave other constraints out")


CONSTRAINT = "CHECK (...), PRIMARY KEY (...), UNIQUE (...) or FOREIGN KEY (...)"


def read_new_columns(cursor: Cursor) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Return the columns after ADD COLUMNS, and a dict from column to its place (FIRST, AFTER)."""
    places: dict[str, str] = {}
    return read_added_columns(cursor, several=True, places=places), places


def read_whole_column(cursor: Cursor) -> str:
    """Return the column name that comes next.

    Raises:
        UnsupportedStatementError: the name is that of a field of a struct.
    """
    token = cursor.peek()
    name = cursor.name("a column")
    if cursor.at_symbol("."):
        raise cursor.unsupported("only whole columns can be changed, not fields of them", token)
    return name


def read_column_constraint(cursor: Cursor) -> Constraints:
    """Return the constraint that follows the type of a changed column. The constraint names no column.

    Raises:
        StatementSyntaxError: no constraint comes next.
        UnsupportedStatementError: existing rows would have to satisfy the constraint.
    """
    return _column_constraint(cursor, "")


def _column_constraint(cursor: Cursor, column: str) -> Constraints:
    token = cursor.peek()
    constraints = ConstraintReader()
    if not constraints.accept_of_column(cursor, column):
        raise cursor.expected("a constraint")
    if constraints.not_null or constraints.checks:
        reason = "rows are compared with NOT NULL by ALTER COLUMN ... SET NOT NULL, with a CHECK by ADD CONSTRAINT"
        raise cursor.unsupported(reason, token)
    return constraints.found


def make_changed_column(parts: Parts) -> ChangeColumn:
    """Return the statement ALTER TABLE ... CHANGE COLUMN.

    In one of Spark's forms, the statement has the name of the column only once.
    """
    values = dict(parts.values)
    if "is_whole" in values:
        del values["is_whole"]
        values.setdefault("name", values["column"])
    if "added" in values:
        end, parts.cursor.index = parts.cursor.index, parts.places["added"]
        values["added"] = _column_constraint(parts.cursor, normalise(values["name"]))
        parts.cursor.index = end
    return ChangeColumn(**values)


def read_constraint(cursor: Cursor) -> Constraints:
    """Return the constraint that follows ADD in ALTER TABLE.

    Raises:
        StatementSyntaxError: no constraint comes next.
    """
    constraints = ConstraintReader()
    if not constraints.accept_of_table(cursor):
        raise cursor.expected(CONSTRAINT)
    return constraints.found
