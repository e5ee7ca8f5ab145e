"""Statements about the objects of one session: temporary views and functions, variables, configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.statements.base import (
    NOTHING,
    OptionalQueryStatement,
    QueryStatement,
    RefusedPart,
    Statement,
    Uses,
    refuse_both,
)
from airflow_hivex.core.parser.statements.queries import Query
from airflow_hivex.core.parser.statements.views import VIEW_DEFINITION


@dataclass(frozen=True, slots=True)
class CreateTemporaryView(QueryStatement):
    """A view of the session.

    The metastore does not know the view, so the objects of the statement are only the objects that the view's query
    reads.
    """

    KIND = "CREATE TEMPORARY VIEW"
    SYNTAX = (f"CREATE [OR REPLACE] {{TEMPORARY | TEMP}} {VIEW_DEFINITION}",)
    REFUSED = (
        (
            "CREATE [OR REPLACE] {TEMPORARY | TEMP} VIEW [IF NOT EXISTS] <view table> [<columns table_columns>] USING",
            "a temporary view of files is not supported; make an external table of them",
        ),
    )

    view: TableName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CreateTemporaryView:
        """Return the statement CREATE TEMPORARY VIEW. TBLPROPERTIES of the text have no effect.

        Raises:
            RefusedPart: the name has a database, or the statement has OR REPLACE and IF NOT EXISTS.
        """
        refuse_both(values)
        view = values["view"]
        if view.database is not None or view.namespace is not None:
            raise RefusedPart("view", f"the temporary view {view} belongs to the session; give it a name of one part")
        return cls(**{field: value for field, value in values.items() if field != "properties"})


@dataclass(frozen=True, slots=True)
class SetConfiguration(Statement):
    """A change of a value in the configuration of the session's jobs.

    ``SET name`` without a value shows the current value. SET alone shows all values of the session. ``SET -v`` shows
    the configuration of the cluster and the settings of the metastore, too.
    """

    KIND = "SET"
    SYNTAX = (
        "SET ['-' V !shows_all]",
        "SET TIME ZONE <zone time_zone>",
        "SET <name setting> ['=' !is_set [<value text>]]",
    )

    name: str | None = None
    value: str | None = None
    shows_all: bool = False


@dataclass(frozen=True, slots=True)
class ResetConfiguration(Statement):
    """The removal of values from the configuration of the session's jobs."""

    KIND = "RESET"
    SYNTAX = ("RESET [<name setting>]",)

    name: str | None = None


@dataclass(frozen=True, slots=True)
class DeclareVariable(QueryStatement):
    """A declaration of variables of the session, with a type or a default. ``query`` returns the default value."""

    KIND = "DECLARE VARIABLE"
    SYNTAX = (
        "DECLARE [OR REPLACE] [VARIABLE | VAR] <names variables> {DEFAULT | '='} <default expression>",
        "DECLARE [OR REPLACE] [VARIABLE | VAR] <names variables> <type> [{DEFAULT | '='} <default expression>]",
    )

    names: tuple[str, ...]
    query: Query
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class SetVariables(OptionalQueryStatement):
    """A change of the values of variables.

    ``query`` returns one row with one column for each name. With ``may_be_empty`` the query is allowed to return no
    row, which means NULL. ``defaults`` are the names to which DEFAULT is assigned.
    """

    KIND = "SET VARIABLE"
    SYNTAX = (
        "SET {VARIABLE | VAR} <names variable_names> '=' <query query_in_parentheses>",
        "SET {VARIABLE | VAR} <assigned variable_values>",
    )

    names: tuple[str, ...]
    query: Query | None = None
    may_be_empty: bool = False
    defaults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropVariable(Statement):
    """A drop of a variable."""

    KIND = "DROP VARIABLE"
    SYNTAX = ("DROP {TEMPORARY | TEMP} {VARIABLE | VAR} [IF EXISTS] <name variable>",)

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTemporaryFunction(QueryStatement):
    """A new function or macro of the session.

    ``text`` is the text after the name. ``query`` is a query that returns the value of the function's body.
    """

    KIND = "CREATE TEMPORARY FUNCTION"
    SYNTAX = (
        "CREATE [OR REPLACE] {TEMPORARY | TEMP} FUNCTION [IF NOT EXISTS] <name session_function> <signature> RETURN "
        "<body>",
        "CREATE {TEMPORARY | TEMP} MACRO <name session_function> <parameters> <body>",
    )
    REFUSED = (
        (
            "CREATE [OR REPLACE] {TEMPORARY | TEMP} FUNCTION [IF NOT EXISTS] <name session_function> AS",
            "a temporary function of a class is not supported; write its body in SQL: f(x INT) RETURNS INT RETURN x",
        ),
    )

    name: str
    text: str
    query: Query
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTemporaryFunction(Statement):
    """A drop of a function or macro of the session."""

    KIND = "DROP TEMPORARY FUNCTION"
    SYNTAX = ("DROP {TEMPORARY | TEMP} {FUNCTION | MACRO} [IF EXISTS] <name session_function>",)

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ImmediateArgument:
    """A value after USING: a constant, or the value of a ``variable``. ``name`` is the name of its marker, or None."""

    name: str | None
    value: Literal | None = None
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class ExecuteImmediate(Statement):
    """EXECUTE IMMEDIATE of a statement that is given as a ``text`` or as the value of a ``variable``."""

    KIND = "EXECUTE IMMEDIATE"
    SYNTAX = (
        "EXECUTE IMMEDIATE {<text statement_text> | <variable>} [INTO <into variables> & USING <using arguments>]",
    )

    text: str | None = None
    variable: str | None = None
    into: tuple[str, ...] = ()
    using: tuple[ImmediateArgument, ...] = ()

    @property
    def uses(self) -> Uses:
        """Return an empty tuple. The objects of the inner statement are known only when this statement runs."""
        return NOTHING
