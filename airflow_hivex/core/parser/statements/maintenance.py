"""Statements that adapt the metastore to files, or report to other clients that a table has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.statements.base import Named, Role, Statement, Uses, table_uses

_STATISTICS = "ALTER TABLE <table> [PARTITION <partition>] UPDATE STATISTICS"
_REPAIR = "TABLE <table> [<mode: ADD | DROP | SYNC>] [PARTITIONS]"


@dataclass(frozen=True, slots=True)
class RepairPartitions(Statement):
    """A repair of a table's partitions in the metastore, by a comparison with the folders of the table.

    With ``adds`` a folder without a partition in the metastore becomes a partition. With ``drops`` a partition without
    a folder is dropped. Without ``is_repair`` the statement only shows the differences, as in Hive.
    """

    KIND = "MSCK REPAIR TABLE"
    SYNTAX = (
        f"MSCK {_REPAIR}",
        f"MSCK REPAIR !is_repair {_REPAIR}",
        f"REPAIR !is_repair {_REPAIR}",
        "ALTER TABLE <table> RECOVER PARTITIONS !is_repair",
    )
    REFUSED = (
        (
            "{MSCK | MSCK REPAIR | REPAIR} TABLE <table> [ADD | DROP | SYNC] [PARTITIONS | PARTITION] '('",
            "MSCK REPAIR TABLE looks for all partitions; ALTER TABLE ... ADD PARTITION adds single ones",
        ),
    )
    IN_TRANSACTIONS = False

    table: TableName
    adds: bool = True
    drops: bool = False
    is_repair: bool = True

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RepairPartitions:
        """Return the statement.

        Without ADD, DROP or SYNC PARTITIONS, a repair adds partitions, and MSCK without REPAIR shows both kinds of
        differences.
        """
        is_repair = values.get("is_repair", False)
        mode = values.get("mode", "ADD" if is_repair else "SYNC")
        return cls(values["table"], adds=mode != "DROP", drops=mode != "ADD", is_repair=is_repair)

    @property
    def uses(self) -> Uses:
        """Return the table, with the role ALTER for a repair, or DESCRIBE if differences are only shown."""
        return table_uses(self.table, Role.ALTER if self.is_repair else Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class RefreshTable(Statement):
    """REFRESH, which only checks that the table exists, because each statement reads the newest snapshot."""

    KIND = "REFRESH TABLE"
    SYNTAX = ("REFRESH [TABLE] <table>",)
    REFUSED = (
        (
            "REFRESH FUNCTION <table>",
            "REFRESH FUNCTION is not a statement of this release; functions go to Spark with each statement, so that "
            "it is not needed",
        ),
        (
            "REFRESH <location>",
            "REFRESH is not a statement of this release; it is not needed: each statement reads the newest snapshot",
        ),
    )

    table: Annotated[TableName, Named(Role.DESCRIBE)]


@dataclass(frozen=True, slots=True)
class TouchTable(Statement):
    """ALTER TABLE ... TOUCH, which records an event as if a table or partition had changed."""

    KIND = "ALTER TABLE TOUCH"
    SYNTAX = ("ALTER TABLE <table> TOUCH [PARTITION <partition>]",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    partition: Mapping[str, Literal] | None = None


@dataclass(frozen=True, slots=True)
class UpdateStatistics(Statement):
    """Statistics of a table, partition or column that the user gives, with Hive's names. A COMMENT is ignored."""

    KIND = "ALTER TABLE UPDATE STATISTICS"
    SYNTAX = (
        f"{_STATISTICS} SET <values properties>",
        f"{_STATISTICS} FOR [COLUMN] <column> SET <values properties> [COMMENT <comment>]",
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    values: Mapping[str, str]
    partition: Mapping[str, Literal] | None = None
    column: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> UpdateStatistics:
        """Return the statement without the comment."""
        return cls(**{name: value for name, value in values.items() if name != "comment"})
