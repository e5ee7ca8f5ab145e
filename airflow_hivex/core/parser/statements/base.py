"""The base classes of statements, and the descriptions of the objects that statements name: kind, role and place."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import PlacedName, TableName, is_frame, is_stored
from airflow_hivex.core.parser.statements.queries import Query, TableReference

T = TypeVar("T")


class RefusedPart(Exception):  # noqa: N818 - the reader makes an error with the place of it
    """A part of a statement does not fit the other parts. The reader adds the place of the part in the text."""

    def __init__(self, field: str, reason: str, *, is_unsupported: bool = False) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason
        self.is_unsupported = is_unsupported


def refuse_both(values: Mapping[str, Any]) -> None:
    """Refuse OR REPLACE together with IF NOT EXISTS.

    Raises:
        RefusedPart: the statement has both clauses.
    """
    if "or_replace" in values and "if_not_exists" in values:
        raise RefusedPart("if_not_exists", "OR REPLACE and IF NOT EXISTS do not go together")


class Statement(ABC):
    """A statement of a user, as a Python object.

    - ``KIND`` is the name of such statements in messages.
    - ``SYNTAX`` has the forms of the statement; ``parser/grammar/syntax.py`` describes the notation.
    - ``REFUSED`` are forms of other systems, each with the reason for which this release refuses the form. In a reason,
      ``{word}`` stands for the last word of the form.
    - A statement that is not ``IN_TRANSACTIONS`` takes effect for all sessions at once, so it cannot be part of a
      transaction.
    - The type of a field that names an object has the role of the object: ``Annotated[TableName, Named(Role.ALTER)]``.
    - The type of a field for the location of a folder is ``Annotated[str | None, Folder()]``.
    """

    __slots__ = ()

    KIND: ClassVar[str]
    SYNTAX: ClassVar[tuple[str, ...]] = ()
    REFUSED: ClassVar[tuple[tuple[str, str], ...]] = ()
    IN_TRANSACTIONS: ClassVar[bool] = True

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Statement:
        """Return a statement of this class. ``values`` is a dict from field names to the values that were read.

        Raises:
            RefusedPart: two values do not fit together.
        """
        return cls(**values)

    @property
    def kind(self) -> str:
        """Return the name of the statement in messages, such as ``MERGE``."""
        return self.KIND

    @property
    def mentions(self) -> Uses:
        """Return the objects in those fields whose types are annotated with :class:`Named`."""
        found = _annotated(type(self), Named)
        return tuple(use for field, named in found for use in named.uses(getattr(self, field)))

    @property
    def uses(self) -> Uses:
        """Return every object that the statement or one of its queries names, with the object's place and role."""
        return self.mentions

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the locations of the folders that the statement names. Most statements name no folder."""
        places = (getattr(self, field) for field, _ in _annotated(type(self), Folder))
        return tuple(place for place in places if place is not None)


@cache
def _annotated(statement: type[Statement], kind: type[T]) -> tuple[tuple[str, T], ...]:
    """Return a pair (field name, annotation) for each annotation of class ``kind`` in the types of the fields."""
    hints = get_type_hints(statement, include_extras=True).items()
    return tuple(
        (field, each) for field, hint in hints for each in getattr(hint, "__metadata__", ()) if isinstance(each, kind)
    )


class RoutedStatement(Statement):
    """A statement whose queries run on a cluster."""

    __slots__ = ()

    @property
    @abstractmethod
    def queries(self) -> tuple[Query, ...]:
        """Return all queries of the statement."""

    @abstractmethod
    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with ``change(query)`` in place of each of its queries."""

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the tables that the statement writes or creates, each with its roles."""
        return ()

    @property
    def targets(self) -> tuple[TableName, ...]:
        """Return the existing tables that the statement writes. A table that is written by two parts occurs twice."""
        return tuple(name for name, roles in self.writes if Role.CREATE not in roles)

    @property
    def references(self) -> tuple[TableReference, ...]:
        """Return every reference to a stored table, in the order of the queries."""
        return tuple(each for query in self.queries for each in query.references if is_stored(each.table))

    @property
    def frame_reads(self) -> tuple[str, ...]:
        """Return the names of the DataFrames that the statement reads, once for each place that reads the DataFrame."""
        return tuple(each.table.name for query in self.queries for each in query.references if is_frame(each.table))

    @property
    def view_references(self) -> tuple[TableReference, ...]:
        """Return the references to objects that can be views."""
        return self.references

    @property
    def uses(self) -> Uses:
        """Return every object that the statement names. A place that several queries share occurs once."""
        written = (use for name, roles in self.writes for use in table_uses(name, *roles))
        read = dict.fromkeys(use for each in self.references for use in table_uses(each.table, Role.READ))
        return (*written, *self.mentions, *read)


class OptionalQueryStatement(RoutedStatement):
    """A statement with at most one query, in the field ``query``."""

    __slots__ = ()

    query: Query | None

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return a tuple of the statement's query, or an empty tuple."""
        return () if self.query is None else (self.query,)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with ``change(query)`` in place of its query."""
        if self.query is None:
            return self
        # Each statement with a query is a dataclass, which has the order of the fields.
        statement: Any = self
        changed: Self = replace(statement, query=change(self.query))
        return changed


class QueryStatement(OptionalQueryStatement):
    """A statement with one query, in the field ``query``."""

    __slots__ = ()

    query: Query


class ExplainedStatement(RoutedStatement):
    """EXPLAIN of a statement that writes rows by several queries. It shows the plan, and writes no row."""

    __slots__ = ()

    KIND = "EXPLAIN"

    statement: RoutedStatement

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the queries of the statement."""
        return self.statement.queries

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with ``change(query)`` in place of each of its queries."""
        explained: Any = self
        changed: Self = replace(explained, statement=self.statement.with_queries(change))
        return changed

    @property
    def references(self) -> tuple[TableReference, ...]:
        """Return every reference to a stored table; the target of an UPDATE, DELETE or MERGE comes first."""
        return self.statement.references

    @property
    def mentions(self) -> Uses:
        """Return the objects that the explained statement would change, each once with the role DESCRIBE."""
        return described_outputs(self.statement.uses)


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
    """The kinds of objects that statements name. Views and links have the kind TABLE."""

    TABLE = "table"
    DATABASE = "database"
    CLUSTER = "cluster"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class UsedObject:
    """One object that a statement names, at one place, in one role.

    ``database`` and ``namespace`` (the Y of a link ``T@Y``) are None if the statement does not give them. ``name`` is
    None for a current database that the statement does not name. ``start`` and ``end`` count characters of the user's
    text from 0, end excluded. Both are None for a name that is not in the user's text.
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
    """The role and the kind of the object that a field of a statement names. The kind TABLE includes views and links.

    A field without a value names no object or, with ``or_current``, the current database. A field of constraints names
    the tables that foreign keys reference.
    """

    role: Role
    kind: ObjectKind = ObjectKind.TABLE
    or_current: bool = False

    def uses(self, value: TableName | Constraints | str | None) -> Uses:
        """Return one use for each object that the value names, or an empty tuple if the value names no object."""
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
    """The annotation of a statement's field whose value is the location of a folder, or None."""


def described_outputs(uses: Uses) -> Uses:
    """Return the objects of ``uses`` that a statement changes or describes, each once with the role DESCRIBE."""
    return tuple(dict.fromkeys(replace(each, role=Role.DESCRIBE) for each in uses if each.role is not Role.READ))


def table_uses(table: TableName | None, *roles: Role) -> Uses:
    """Return one use of a table for each role, or an empty tuple if the table is None."""
    if table is None:
        return NOTHING
    start, end = table.span or (None, None)
    return tuple(
        UsedObject(ObjectKind.TABLE, role, table.name, table.database, table.namespace, start, end) for role in roles
    )


def database_uses(name: str | None, *roles: Role) -> Uses:
    """Return one use of a database for each role. The name None means the current database."""
    return tuple(_named(ObjectKind.DATABASE, name, role) for role in roles)


def function_uses(name: TableName, role: Role) -> Uses:
    """Return the use of a permanent function."""
    start, end = name.span or (None, None)
    return (UsedObject(ObjectKind.FUNCTION, role, name.name, name.database, None, start, end),)


def _named(kind: ObjectKind, name: str | None, role: Role) -> UsedObject:
    start, end = name.span if isinstance(name, PlacedName) else (None, None)
    return UsedObject(kind, role, None if name is None else str(name), start=start, end=end)
