"""Statements about the columns and the constraints of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import TableName, normalise
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.statements.base import Named, Role, Statement


@dataclass(frozen=True, slots=True)
class AddColumns(Statement):
    """An addition of columns to a table.

    ``places`` is a dict from the name of a new column to the name of the column before the new column, or to an empty
    text for the first place. A new column that is not in ``places`` follows the existing columns.
    """

    KIND = "ALTER TABLE ADD COLUMNS"
    SYNTAX = ("ALTER TABLE <table> ADD {COLUMNS | COLUMN} <added added_columns>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    columns: tuple[Column, ...]
    places: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AddColumns:
        """Return the statement with the columns and their places."""
        return cls(values["table"], *values["added"])


@dataclass(frozen=True, slots=True)
class ChangeColumn(Statement):
    """A change of the name, type, comment or place of a column. A field that is None changes nothing.

    ``after`` is the column before the new place, or the empty text for the first place. ``added`` are new constraints
    of the column. Existing rows are not checked against these constraints.
    """

    KIND = "ALTER TABLE CHANGE COLUMN"
    SYNTAX = (
        "ALTER TABLE <table> RENAME COLUMN <column whole_column> TO <name whole_column>",
        "ALTER TABLE <table> CHANGE [COLUMN] <column whole_column> COMMENT <comment>",
        "ALTER TABLE <table> CHANGE !is_whole [COLUMN] <column whole_column> [<name whole_column>] <type> "
        "[<added column_constraint>] [COMMENT <comment>] [<after place>] [CASCADE | RESTRICT]",
        "ALTER TABLE <table> ALTER [COLUMN] <column whole_column> {TYPE <type> & COMMENT <comment> & <after place>}",
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    column: str
    name: str | None = None
    type: str | None = None
    comment: str | None = None
    after: str | None = None
    added: Annotated[Constraints, Named(Role.DESCRIBE)] = field(default_factory=Constraints)


@dataclass(frozen=True, slots=True)
class ReplaceColumns(Statement):
    """A replacement of the columns of a table.

    A column of the table that has the name of a new column keeps its values. All other columns of the table are
    dropped.
    """

    KIND = "ALTER TABLE REPLACE COLUMNS"
    SYNTAX = ("ALTER TABLE <table> REPLACE COLUMNS <columns new_columns>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class DropColumns(Statement):
    """A drop of columns."""

    KIND = "ALTER TABLE DROP COLUMNS"
    SYNTAX = ("ALTER TABLE <table> DROP {COLUMNS | COLUMN} [IF EXISTS] <columns dropped_columns>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeConstraints(Statement):
    """An addition or a drop of constraints of a table.

    ``added`` are new constraints. ``dropped_default`` is a column that loses its default value, and
    ``dropped_not_null`` a column that loses its NOT NULL. ``dropped_name`` is the name of a dropped CHECK or key.
    """

    KIND = "ALTER TABLE of constraints"
    SYNTAX = (
        "ALTER TABLE <table> ADD <added constraint>",
        "ALTER TABLE <table> DROP CONSTRAINT [IF EXISTS] <dropped_name constraint_name>",
        "ALTER TABLE <table> ALTER [COLUMN] <column whole_column> SET DEFAULT <default>",
        "ALTER TABLE <table> ALTER [COLUMN] <column whole_column> SET NOT NULL !not_null",
        "ALTER TABLE <table> ALTER [COLUMN] <dropped_default whole_column> DROP DEFAULT",
        "ALTER TABLE <table> ALTER [COLUMN] <dropped_not_null whole_column> DROP NOT NULL",
    )
    REFUSED = (
        (
            "ALTER TABLE <table> ALTER [COLUMN] <column whole_column> {SET | DROP}",
            "SET and DROP of a column take DEFAULT or NOT NULL",
        ),
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    added: Annotated[Constraints, Named(Role.DESCRIBE)] = field(default_factory=Constraints)
    dropped_default: str | None = None
    dropped_not_null: str | None = None
    dropped_name: str | None = None
    if_exists: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ChangeConstraints:
        """Return the statement. SET DEFAULT and SET NOT NULL become constraints of one column in ``added``."""
        if "column" not in values:
            return cls(**values)
        column = normalise(values["column"])
        if "default" in values:
            return cls(values["table"], Constraints(defaults={column: values["default"]}))
        return cls(values["table"], Constraints(not_null=(column,)))
