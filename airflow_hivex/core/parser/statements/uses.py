"""The objects that statements name: which ones, where in the text, and in which role."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import PlacedName, TableName


class Role(enum.StrEnum):
    """The role of an object that a statement names."""

    READ = "read"
    DESCRIBE = "describe"
    USE = "use"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    UPDATE = "update"
    DELETE = "delete"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"

    @property
    def is_output(self) -> bool:
        """Return whether the statement changes the object."""
        return self not in (Role.READ, Role.DESCRIBE, Role.USE)


class ObjectKind(enum.StrEnum):
    """The kinds of objects that statements name; a view or a link is named as a table is."""

    TABLE = "table"
    DATABASE = "database"
    CLUSTER = "cluster"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class UsedObject:
    """One object that a statement names, at one place, in one role.

    ``database`` and ``namespace`` (the Y of a link ``T@Y``) are None where the statement gives none. ``name`` is
    None where the statement means the current database without naming it. ``start`` and ``end`` count characters of
    the user's text from 0, end excluded; they are None for a name that is not in it.
    """

    kind: ObjectKind
    role: Role
    name: str | None
    database: str | None = None
    namespace: str | None = None
    start: int | None = None
    end: int | None = None


Uses = tuple[UsedObject, ...]

NOTHING: Uses = ()
"""The uses of a statement that names no object."""


@dataclass(frozen=True, slots=True)
class Named:
    """The role of the object that a field of a statement names: a table, view or link, if ``kind`` says nothing else.

    A field without a value names nothing, or the current database if ``or_current``. Constraints name the tables that
    their foreign keys reference.
    """

    role: Role
    kind: ObjectKind = ObjectKind.TABLE
    or_current: bool = False

    def uses(self, value: TableName | Constraints | str | None) -> Uses:
        """Return the object, if there is one."""
        if isinstance(value, Constraints):
            parents = dict.fromkeys(key.parent for key in value.keys.values() if key.parent is not None)
            return tuple(UsedObject(self.kind, self.role, name, database or None) for database, name in parents)
        if isinstance(value, TableName):
            return function_uses(value, self.role) if self.kind is ObjectKind.FUNCTION else table_uses(value, self.role)
        if value is None and not self.or_current:
            return NOTHING
        return (_named(self.kind, value, self.role),)


@dataclass(frozen=True, slots=True)
class Folder:
    """A field of a statement that has the location of a folder, or None."""


def described_outputs(uses: Uses) -> Uses:
    """Return the objects that an explained statement would change, or name besides those that it reads."""
    return tuple(dict.fromkeys(replace(each, role=Role.DESCRIBE) for each in uses if each.role is not Role.READ))


def table_uses(table: TableName | None, *roles: Role) -> Uses:
    """Return a table in each of its roles; nothing without one."""
    if table is None:
        return NOTHING
    start, end = table.span or (None, None)
    return tuple(
        UsedObject(ObjectKind.TABLE, role, table.name, table.database, table.namespace, start, end) for role in roles
    )


def database_uses(name: str | None, *roles: Role) -> Uses:
    """Return a database in each of its roles; without a name the current one."""
    return tuple(_named(ObjectKind.DATABASE, name, role) for role in roles)


def function_uses(name: TableName, role: Role) -> Uses:
    """Return a permanent function in its role."""
    start, end = name.span or (None, None)
    return (UsedObject(ObjectKind.FUNCTION, role, name.name, name.database, None, start, end),)


def named_uses(database: str | None, table: TableName | None, role: Role) -> Uses:
    """Return the table or the database, whichever is named, in its role."""
    return table_uses(table, role) if database is None else database_uses(database, role)


def cluster_uses(name: str | None, role: Role) -> Uses:
    """Return a cluster in its role; nothing without one."""
    return NOTHING if name is None else (_named(ObjectKind.CLUSTER, name, role),)


def _named(kind: ObjectKind, name: str | None, role: Role) -> UsedObject:
    start, end = name.span if isinstance(name, PlacedName) else (None, None)
    return UsedObject(kind, role, None if name is None else str(name), start=start, end=end)
