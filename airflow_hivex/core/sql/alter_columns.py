"""ALTER TABLE for columns, in Spark's and in Hive's words."""

from __future__ import annotations

from typing import TypeAlias

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.statements import (
    AddColumns,
    ChangeColumn,
    ChangeConstraints,
    DropColumns,
    ReplaceColumns,
    TableName,
)
from airflow_hivex.core.sql.clauses import once
from airflow_hivex.core.sql.columns import read_added_columns, read_place
from airflow_hivex.core.sql.constraints import ConstraintReader, read_default
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind
from airflow_hivex.core.sql.types import read_type

ChangeOfColumns: TypeAlias = AddColumns | ChangeColumn | ChangeConstraints | ReplaceColumns | DropColumns

_CONSTRAINTS = (("CONSTRAINT",), ("CHECK",), ("PRIMARY", "KEY"), ("UNIQUE",), ("FOREIGN", "KEY"))


def read_change_of_columns(cursor: Cursor, table: TableName) -> ChangeOfColumns | None:
    """Return the statement whose words up to the table's name are read.

    None, with nothing read, if it is about no columns.

    Raises:
        StatementSyntaxError: it is not SQL.
        UnsupportedStatementError: it is about a field of a struct, or about another constraint than CHECK.
    """
    if cursor.accept("ADD", "COLUMNS") or cursor.accept("ADD", "COLUMN"):
        places: dict[str, str] = {}
        return AddColumns(table, read_added_columns(cursor, several=True, places=places), places)
    if cursor.accept("REPLACE", "COLUMNS"):
        return ReplaceColumns(table, read_added_columns(cursor))
    if cursor.accept("DROP", "COLUMNS") or cursor.accept("DROP", "COLUMN"):
        if_exists = cursor.accept("IF", "EXISTS")
        if cursor.at_symbol("("):
            return DropColumns(table, cursor.names("a column"), if_exists)
        names = [_column(cursor)]
        while cursor.accept_symbol(","):
            names.append(_column(cursor))
        return DropColumns(table, tuple(dict.fromkeys(names)), if_exists)
    if any(cursor.at("ADD", *words) for words in _CONSTRAINTS):
        return _add_constraint(cursor, table)
    if cursor.accept("DROP", "CONSTRAINT"):
        if_exists = cursor.accept("IF", "EXISTS")
        return ChangeConstraints(
            table, dropped_name=normalise(cursor.name("the name of a constraint")), if_exists=if_exists
        )
    if cursor.accept("RENAME", "COLUMN"):
        column = _column(cursor)
        cursor.expect("TO")
        return ChangeColumn(table, column, name=_column(cursor))
    if cursor.accept("CHANGE", "COLUMN") or cursor.accept("CHANGE"):
        return _hive_change(cursor, table)
    if cursor.accept("ALTER", "COLUMN") or cursor.accept("ALTER"):
        return _spark_change(cursor, table)
    return None


def _column(cursor: Cursor) -> str:
    token = cursor.peek()
    name = cursor.name("a column")
    if cursor.at_symbol("."):
        raise cursor.unsupported("only whole columns can be changed, not fields of them", token)
    return name


def _hive_change(cursor: Cursor, table: TableName) -> ChangeColumn:
    """``old new type [constraint] [COMMENT '...'] [FIRST | AFTER c]``; in Spark's older form the name stands once."""
    column = _column(cursor)
    if cursor.at("COMMENT") and cursor.at_kind(Kind.STRING, ahead=1):
        cursor.expect("COMMENT")
        return ChangeColumn(table, column, comment=read_string(cursor, "a comment"))
    following = cursor.peek(1)
    once_named = following is None or following.kind not in (Kind.WORD, Kind.QUOTED)
    name = column if once_named else _column(cursor)
    change = ChangeColumn(table, column, name=name, type=read_type(cursor))
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
    return ChangeColumn(table, change.column, change.name, change.type, comment, after, added)


def _add_constraint(cursor: Cursor, table: TableName) -> ChangeConstraints:
    cursor.expect("ADD")
    constraints = ConstraintReader()
    if not constraints.accept_of_table(cursor):
        raise cursor.expected("CHECK (...), PRIMARY KEY (...), UNIQUE (...) or FOREIGN KEY (...)")
    return ChangeConstraints(table, constraints.found)


def _of_column(cursor: Cursor, table: TableName, column: str) -> ChangeConstraints | None:
    """``SET DEFAULT value``, ``DROP DEFAULT``, ``SET NOT NULL`` or ``DROP NOT NULL``; None if none stands here."""
    name = normalise(column)
    if cursor.accept("SET", "DEFAULT"):
        return ChangeConstraints(table, Constraints(defaults={name: read_default(cursor)}))
    if cursor.accept("SET", "NOT", "NULL"):
        return ChangeConstraints(table, Constraints(not_null=(name,)))
    if cursor.accept("DROP", "DEFAULT"):
        return ChangeConstraints(table, dropped_default=name)
    if cursor.accept("DROP", "NOT", "NULL"):
        return ChangeConstraints(table, dropped_not_null=name)
    return None


def _spark_change(cursor: Cursor, table: TableName) -> ChangeColumn | ChangeConstraints:
    """``c TYPE type``, ``c COMMENT '...'``, ``c FIRST`` or ``c AFTER d``, or several of them; or a constraint."""
    column = _column(cursor)
    constraint = _of_column(cursor, table, column)
    if constraint is not None:
        return constraint
    found_type = comment = after = None
    first = cursor.peek()
    while not cursor.at_end:
        token = cursor.peek()
        if cursor.accept("TYPE"):
            once(cursor, token, found_type)
            found_type = read_type(cursor)
        elif cursor.accept("COMMENT"):
            once(cursor, token, comment is not None)
            comment = read_string(cursor, "a comment")
        elif cursor.at("FIRST") or cursor.at("AFTER"):
            once(cursor, token, after is not None)
            after = read_place(cursor)
        elif cursor.at("SET") or cursor.at("DROP"):
            raise cursor.unsupported("SET and DROP of a column take DEFAULT or NOT NULL", token)
        else:
            raise cursor.expected("TYPE, COMMENT, FIRST or AFTER")
    if first is None:
        raise cursor.expected("TYPE, COMMENT, FIRST or AFTER")
    return ChangeColumn(table, column, type=found_type, comment=comment, after=after)
