"""The base of all statements: the kind of a statement, and the objects that it names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from airflow_hivex.core.model.identifiers import TableName, is_frame, is_stored
from airflow_hivex.core.parser.statements.queries import Query, TableReference
from airflow_hivex.core.parser.statements.uses import Folder, Named, Role, Uses, table_uses

T = TypeVar("T")


class RefusedPart(Exception):  # noqa: N818 - the reader makes an error with the place of it
    """A part of a statement that does not go with the others; the reader knows where it stands in the text."""

    def __init__(self, field: str, reason: str, *, is_unsupported: bool = False) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason
        self.is_unsupported = is_unsupported


class Statement(ABC):
    """A statement of a user, as a value.

    - ``KIND`` is the name of such statements in messages.
    - ``SYNTAX`` has its forms, by which it is read (``parser/grammar/syntax.py`` has the notation).
    - ``REFUSED`` are forms of other systems, each with the reason why it is not of this release. In a reason ``{word}``
      is the last word of the form.
    - A statement that is not ``IN_TRANSACTIONS`` changes what everybody sees at once, so that it cannot be part of a
      transaction.
    - A field that names an object has its role in its type: ``table: Annotated[TableName, Named(Role.ALTER)]``.
    - So has one with the location of a folder: ``location: Annotated[str | None, Folder()]``.
    """

    __slots__ = ()

    KIND: ClassVar[str]
    SYNTAX: ClassVar[tuple[str, ...]] = ()
    REFUSED: ClassVar[tuple[tuple[str, str], ...]] = ()
    IN_TRANSACTIONS: ClassVar[bool] = True

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Statement:
        """Return the statement with the values that its SYNTAX names.

        Raises:
            RefusedPart: two of them do not go together.
        """
        return cls(**values)

    @property
    def kind(self) -> str:
        """Return the name of the statement in messages, such as ``MERGE``."""
        return self.KIND

    @property
    def mentions(self) -> Uses:
        """Return the objects that its fields name."""
        found = _annotated(type(self), Named)
        return tuple(use for field, named in found for use in named.uses(getattr(self, field)))

    @property
    def uses(self) -> Uses:
        """Return every object that the statement names, by place and role."""
        return self.mentions

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders that the statement names by their locations; most statements name none."""
        places = (getattr(self, field) for field, _ in _annotated(type(self), Folder))
        return tuple(place for place in places if place is not None)


@cache
def _annotated(statement: type[Statement], kind: type[T]) -> tuple[tuple[str, T], ...]:
    """Return the fields of a statement whose types have an annotation of a kind, each with it."""
    hints = get_type_hints(statement, include_extras=True).items()
    return tuple(
        (field, each) for field, hint in hints for each in getattr(hint, "__metadata__", ()) if isinstance(each, kind)
    )


class RoutedStatement(Statement):
    """A statement with queries, which runs on a cluster.

    Locks, the binding of tables, views, row ids and the route are derived from the properties of this class.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def queries(self) -> tuple[Query, ...]:
        """Return all of its queries."""

    @abstractmethod
    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with each of its queries changed."""

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the tables that it writes or creates, each with its roles."""
        return ()

    @property
    def targets(self) -> tuple[TableName, ...]:
        """Return the existing tables that it writes; a table that two of its parts write is there twice."""
        return tuple(name for name, roles in self.writes if Role.CREATE not in roles)

    @property
    def references(self) -> tuple[TableReference, ...]:
        """Return all places where tables are read, in the order in which they are bound."""
        return tuple(each for query in self.queries for each in query.references if is_stored(each.table))

    @property
    def frame_reads(self) -> tuple[str, ...]:
        """Return the names of the DataFrames that it reads, each once for every place where it is computed."""
        return tuple(each.table.name for query in self.queries for each in query.references if is_frame(each.table))

    @property
    def view_references(self) -> tuple[TableReference, ...]:
        """Return the places where tables are read and a view may stand."""
        return self.references

    @property
    def uses(self) -> Uses:
        """Return every object that it names; a place that several of its queries share is returned once."""
        written = (use for name, roles in self.writes for use in table_uses(name, *roles))
        read = dict.fromkeys(use for each in self.references for use in table_uses(each.table, Role.READ))
        return (*written, *self.mentions, *read)


class QueryStatement(RoutedStatement):
    """A statement with one query, its field ``query``."""

    __slots__ = ()

    query: Query

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return its query."""
        return (self.query,)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with its query changed."""
        # Each statement is a dataclass; its fields have their order there.
        statement: Any = self
        changed: Self = replace(statement, query=change(self.query))
        return changed
