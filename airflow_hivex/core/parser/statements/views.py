"""Statements about views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.parser.statements.base import Named, Role, Statement, Uses, refuse_both, table_uses
from airflow_hivex.core.parser.statements.queries import Query

VIEW_DEFINITION = (
    "VIEW [IF NOT EXISTS] <view table> [<columns view_columns>] [COMMENT <comment> & TBLPROPERTIES <properties>] "
    "AS <query definition>"
)

_NAMED = "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] <view table> [<columns view_columns>]"
_BEGINNING = f"{{{_NAMED} | ALTER VIEW <view table>}}"


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """A new view, or a new query for an existing view.

    ``columns`` has a pair (name, comment) for each column, or is empty if the query names the columns. ``must_exist``
    is true for ALTER VIEW, which keeps the view's properties and comment.
    """

    KIND = "CREATE VIEW"
    SYNTAX = (
        f"CREATE [OR REPLACE] {VIEW_DEFINITION}",
        "ALTER VIEW !must_exist <view table> AS <query definition>",
    )
    REFUSED = (
        (
            f"{_BEGINNING} WITH",
            "a view keeps the columns that it was made with; leave WITH out",
        ),
        (
            f"{_BEGINNING} DEFAULT COLLATION",
            "COLLATE in the query of the view says the collation; leave DEFAULT COLLATION out",
        ),
        (
            f"{{{_NAMED} PARTITIONED | ALTER VIEW <view table> {{ADD | DROP}} {{PARTITION | IF}}}}",
            "a view has no partitions; conditions on its columns exclude those of the tables that it reads",
        ),
    )
    IN_TRANSACTIONS = False

    view: TableName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    must_exist: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CreateView:
        """Return the statement. ALTER VIEW replaces the query of an existing view.

        Raises:
            RefusedPart: the statement has OR REPLACE and IF NOT EXISTS.
        """
        refuse_both(values)
        return cls(**{**values, "or_replace": "or_replace" in values or "must_exist" in values})

    @property
    def kind(self) -> str:
        """Return CREATE VIEW or ALTER VIEW."""
        return "ALTER VIEW" if self.must_exist else self.KIND

    @property
    def uses(self) -> Uses:
        """Return the view, and all objects that the view's query reads."""
        view = table_uses(self.view, Role.ALTER if self.must_exist else Role.CREATE)
        return (*view, *(use for each in self.query.references for use in table_uses(each.table, Role.READ)))


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    """A drop of a view."""

    KIND = "DROP VIEW"
    SYNTAX = ("DROP VIEW [IF EXISTS] <view table>",)
    IN_TRANSACTIONS = False

    view: Annotated[TableName, Named(Role.DROP)]
    if_exists: bool = False
