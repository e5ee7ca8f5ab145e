"""Statements about the objects of one session: temporary views and functions, variables, configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.statements.base import NOTHING, QueryStatement, RoutedStatement, Statement, Uses
from airflow_hivex.core.parser.statements.queries import Query


@dataclass(frozen=True, slots=True)
class CreateTemporaryView(QueryStatement):
    """CREATE [OR REPLACE] TEMPORARY VIEW name (column COMMENT '...', ...) AS query.

    The metastore does not know the view, so the statement names only the objects that its query reads.
    """

    KIND = "CREATE TEMPORARY VIEW"

    view: TableName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class SetConfiguration(Statement):
    """SET name = value; SET name, which shows the value (None); SET, which shows all values of the session.

    ``SET -v`` shows the configuration of the cluster and the settings of the metastore, too.
    """

    KIND = "SET"

    name: str | None = None
    value: str | None = None
    shows_all: bool = False


@dataclass(frozen=True, slots=True)
class ResetConfiguration(Statement):
    """RESET [name]: the configuration of the cluster holds again."""

    KIND = "RESET"

    name: str | None = None


@dataclass(frozen=True, slots=True)
class DeclareVariable(QueryStatement):
    """DECLARE [OR REPLACE] [VARIABLE] name, ... [type] [DEFAULT expression]. ``query`` returns the default."""

    KIND = "DECLARE VARIABLE"

    names: tuple[str, ...]
    query: Query
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class SetVariables(RoutedStatement):
    """SET VARIABLE name = expression, ..., or SET VARIABLE (name, ...) = (query).

    ``query`` returns one column for each name, in one row; with ``may_be_empty`` it may return no row, for NULL.
    ``defaults`` are the names to which DEFAULT is assigned.
    """

    KIND = "SET VARIABLE"

    names: tuple[str, ...]
    query: Query | None = None
    may_be_empty: bool = False
    defaults: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return its query, if there is one."""
        return () if self.query is None else (self.query,)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with its query changed."""
        return self if self.query is None else replace(self, query=change(self.query))


@dataclass(frozen=True, slots=True)
class DropVariable(Statement):
    """DROP TEMPORARY VARIABLE [IF EXISTS] name."""

    KIND = "DROP VARIABLE"

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTemporaryFunction(RoutedStatement):
    """CREATE [OR REPLACE] TEMPORARY FUNCTION name (...) RETURNS ... RETURN ...; ``text`` is the text behind the name.

    ``body`` is the query or expression behind RETURN, as a query.
    """

    KIND = "CREATE TEMPORARY FUNCTION"

    name: str
    text: str
    body: Query
    or_replace: bool = False
    if_not_exists: bool = False

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the query of its body."""
        return (self.body,)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with its query changed."""
        return replace(self, body=change(self.body))


@dataclass(frozen=True, slots=True)
class DropTemporaryFunction(Statement):
    """DROP TEMPORARY FUNCTION [IF EXISTS] name."""

    KIND = "DROP TEMPORARY FUNCTION"

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ImmediateArgument:
    """A value behind USING: a constant, or the value of a ``variable``. ``name`` is the name of its marker, if any."""

    name: str | None
    value: Literal | None = None
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class ExecuteImmediate(Statement):
    """EXECUTE IMMEDIATE text [INTO variable, ...] [USING value [AS name], ...]; a variable may have the text."""

    KIND = "EXECUTE IMMEDIATE"

    text: str | None
    variable: str | None = None
    into: tuple[str, ...] = ()
    using: tuple[ImmediateArgument, ...] = ()

    @property
    def uses(self) -> Uses:
        """Return no objects: the statement in the text names its objects when it runs."""
        return NOTHING
