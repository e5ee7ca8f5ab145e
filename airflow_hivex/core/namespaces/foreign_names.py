"""Names of other namespaces: where a statement or view has them, and what to write instead. Pure rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_hivex.core.errors import ForeignNameError
from airflow_hivex.core.parser.lexer.tokens import location
from airflow_hivex.core.parser.statements import (
    CreateDatabase,
    CreateLink,
    DescribeDatabase,
    ObjectKind,
    Role,
    ShowCapacity,
    ShowCompactions,
    ShowLinks,
    ShowLocks,
    ShowTables,
    Statement,
    TableName,
    UseDatabase,
    UsedObject,
)

_OF_ANY_DATABASE = (
    *(CreateDatabase, DescribeDatabase, UseDatabase),
    *(ShowCapacity, ShowCompactions, ShowLinks, ShowLocks, ShowTables),
)
"""They make a database, change to one, or list what is in it. All others take the current database only."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def foreign_uses(statement: Statement, namespace: str) -> list[UsedObject]:
    """Return the names of other namespaces in a statement that runs in ``namespace``, by place, outputs first.

    A name with the database of the namespace itself is not foreign. The table that CREATE LINK names, and databases
    that a statement makes, lists or changes to, are not either.
    """
    found = [use for use in statement.uses if _is_foreign(statement, use, namespace)]
    return sorted(found, key=lambda use: (use.start or 0, not use.role.is_output))


def _is_foreign(statement: Statement, use: UsedObject, namespace: str) -> bool:
    if use.kind is ObjectKind.DATABASE:
        return not isinstance(statement, _OF_ANY_DATABASE) and use.name not in (None, namespace)
    if use.kind not in (ObjectKind.TABLE, ObjectKind.FUNCTION) or use.database in (None, namespace):
        return False
    return not (isinstance(statement, CreateLink) and use.namespace is None)


def foreign_tables(names: Iterable[TableName], namespace: str) -> list[TableName]:
    """Return the names in a view that belong to other namespaces; a view's names have their databases."""
    return [name for name in names if name.database not in (None, namespace)]


def foreign_name_error(use: UsedObject, namespace: str, text: str | None) -> ForeignNameError:
    """Return the error for a foreign name at its place in a text."""
    name = _written(use)
    if use.kind is ObjectKind.DATABASE:
        return _error(name, namespace, use, text, f"Change to it first, by USE {use.name}.", None)
    if use.kind is ObjectKind.FUNCTION:
        advice = f"Change to the namespace of the function first, by USE {quoted(use.database or '')}."
        return _error(name, namespace, use, text, advice, None)
    if use.role.is_output:
        advice = (
            f"A link is read only; change to the namespace of the table first, by USE {quoted(use.database or '')}."
        )
        return _error(name, namespace, use, text, advice, None)
    link = link_of(use.name or "", use.database or "", use.namespace)
    return _error(
        name, namespace, use, text, f"{create_link(link)}; then write {link} in its place.", create_link(link)
    )


def foreign_view_error(view: str, name: TableName, namespace: str, kind: str = "view") -> ForeignNameError:
    """Return the error for a foreign name in the query of a view, or of a function."""
    link = link_of(name.name, name.database or "", name.namespace)
    again = f"then create the {kind} again, with {link} in its place"
    advice = f"{kind.capitalize()} {view} reads it. {create_link(link)}; {again}."
    return ForeignNameError(str(name), namespace, None, None, advice, create_link(link))


def foreign_call_error(
    function: tuple[str, str], namespace: str, text: str | None = None, start: int | None = None, reader: str = ""
) -> ForeignNameError:
    """Return the error for a call of a function of another namespace; ``reader`` is a sentence about the caller."""
    line, column = (None, None) if text is None or start is None else location(text, start)
    advice = f"{reader}Create the function in namespace {namespace}, too; functions have no links."
    return ForeignNameError(".".join(function), namespace, line, column, advice, None)


def foreign_use(name: TableName, role: Role = Role.READ) -> UsedObject:
    """Return a table as a statement of one name would use it."""
    start, end = name.span or (None, None)
    return UsedObject(ObjectKind.TABLE, role, name.name, name.database, name.namespace, start, end)


def link_of(table: str, database: str, namespace: str | None) -> str:
    """Return the name of the link that shows a table; a foreign link is replaced by one to the same table."""
    return f"{quoted(table)}@{quoted(namespace or database)}"


def create_link(link: str) -> str:
    """Return the statement that makes a link."""
    return f"CREATE LINK TO {link}"


def quoted(name: str) -> str:
    """Return a name as statements write it, quoted where it must be."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _written(use: UsedObject) -> str:
    if use.kind is ObjectKind.DATABASE:
        return use.name or ""
    return str(TableName(use.name or "", use.database, use.namespace))


def _error(
    name: str, namespace: str, use: UsedObject, text: str | None, instead: str, link: str | None
) -> ForeignNameError:
    line, column = (None, None) if text is None or use.start is None else location(text, use.start)
    return ForeignNameError(name, namespace, line, column, instead, link)
