"""Statements about permanent functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.permanent_functions import FunctionResource, SqlFunction
from airflow_hivex.core.parser.statements.base import (
    Named,
    ObjectKind,
    OptionalQueryStatement,
    Role,
    Statement,
    Uses,
    function_uses,
)
from airflow_hivex.core.parser.statements.queries import Query


@dataclass(frozen=True, slots=True)
class CreateFunction(OptionalQueryStatement):
    """A new permanent function of a database: an SQL function or a Java class.

    An SQL function has a definition ``sql`` and a body ``query``. A Java function has a class and resources.
    """

    KIND = "CREATE FUNCTION"
    SYNTAX = (
        "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] <name function> AS <class_name java_class> [USING <resources>]",
        "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] <name function> <parameters> "
        "[RETURNS {TABLE !is_table <columns parameters> | <type>}] [LANGUAGE <language> & {DETERMINISTIC "
        "| NOT DETERMINISTIC !is_random} & COMMENT <comment> & CONTAINS SQL & READS SQL DATA] RETURN <body>",
    )
    REFUSED = (
        (
            "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] <name function> <parameters> RETURNS TABLE RETURN",
            "RETURNS TABLE names its columns and their types here, such as TABLE (id INT)",
        ),
    )
    IN_TRANSACTIONS = False

    name: TableName
    class_name: str | None = None
    resources: tuple[FunctionResource, ...] = ()
    sql: SqlFunction | None = None
    query: Query | None = None
    or_replace: bool = False
    if_not_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the new function, with the role CREATE."""
        return function_uses(self.name, Role.CREATE)


@dataclass(frozen=True, slots=True)
class DropFunction(Statement):
    """A drop of a permanent function."""

    KIND = "DROP FUNCTION"
    SYNTAX = ("DROP FUNCTION [IF EXISTS] <name function>",)
    IN_TRANSACTIONS = False

    name: Annotated[TableName, Named(Role.DROP, ObjectKind.FUNCTION)]
    if_exists: bool = False
