"""The demo's third part: a second team, whose closed namespace reads ``flights`` through a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from airflow_hivex.core.errors import ForeignNameError

if TYPE_CHECKING:
    from airflow_hivex.core.session import Result, Session

NAMESPACE = "delays"
SOURCE = "nycflights"
SET_UP = (
    f"CREATE DATABASE IF NOT EXISTS {NAMESPACE} COMMENT 'of the second team'",
    f"ALTER DATABASE {NAMESPACE} SET DBPROPERTIES ('hivex.namespace.mode' = 'true')",
    f"USE {NAMESPACE}",
    f"CREATE LINK IF NOT EXISTS TO flights@{SOURCE}",
    f"ALTER LINK flights@{SOURCE} ADD IF NOT EXISTS PARTITION (month = 1)",
    "CREATE TABLE IF NOT EXISTS carriers (carrier string, flights bigint) "
    "TBLPROPERTIES ('transactional_properties' = 'insert_only')",
)
LINKED = f"INSERT OVERWRITE carriers SELECT carrier, count(*) FROM flights@{SOURCE} GROUP BY carrier"  # noqa: S608 - constants
ANSWER = "SELECT carrier, flights FROM carriers ORDER BY flights DESC LIMIT 3"
FOREIGN = f"SELECT count(*) FROM {SOURCE}.flights"  # noqa: S608 - constants
SHOWN_OF_CAPACITY = ("namespace", "cluster", "owned_bytes", "owned_rows", "secondary_bytes", "linked_bytes")


@dataclass(frozen=True, slots=True)
class SecondTeam:
    """The answer through the link, the refusal of the name without it, and the capacity of both namespaces."""

    answer: Result
    refusal: str
    capacity: Result


def work(session: Session) -> SecondTeam:
    """Make the namespace with its link, and use it. Safe to repeat."""
    for statement in (*SET_UP, LINKED):
        session.sql(statement)
    answer = session.sql(ANSWER)
    refusal = ""
    try:
        session.sql(FOREIGN)
    except ForeignNameError as error:
        refusal = str(error)
    return SecondTeam(answer, refusal, session.sql("SHOW CAPACITY"))


def table_of_capacity(shown: Result) -> Table:
    """Return the use of the clusters by both namespaces."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in SHOWN_OF_CAPACITY:
        table.add_column(column, justify="left" if column in ("namespace", "cluster") else "right")
    for row in shown.rows:
        values = dict(zip(shown.columns, row, strict=True))
        if values["namespace"] in (NAMESPACE, SOURCE):
            texts = (values[column] for column in SHOWN_OF_CAPACITY)
            table.add_row(*(f"{each:,}" if isinstance(each, int) else str(each) for each in texts))
    return table
