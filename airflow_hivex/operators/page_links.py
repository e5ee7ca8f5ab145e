"""Links of task instances to the page Hivex (``plugins/page``)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class HivexTransactionsLink(BaseOperatorLink):
    """The transactions and locks of the warehouse of a task."""

    name = "Hivex: transactions"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the page. The task calls it at its end."""
        return page_address(operator, tab="transactions")


class HivexCompactionsLink(BaseOperatorLink):
    """The queue of compactions, with the table of a task filled in."""

    name = "Hivex: compactions"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the page. The task calls it at its end."""
        partition = getattr(operator, "partition", None)
        return page_address(operator, tab="compactions", table=_table_of(operator), partition=partition)


class HivexTableLink(BaseOperatorLink):
    """The table of a task."""

    name = "Hivex: table"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the page. The task calls it at its end."""
        return page_address(operator, tab="tables", table=_table_of(operator))


def page_address(operator: BaseOperator, **place: str | None) -> str:
    """Return the address of a place in the page, for the connection of a task."""
    connection = getattr(operator, "hivex_conn_id", None)
    parameters = {"connection": connection, **place}
    base = conf.get("api", "base_url", fallback="/").rstrip("/")
    return f"{base}/plugin/hivex?{urlencode({name: value for name, value in parameters.items() if value})}"


def _table_of(operator: BaseOperator) -> str | None:
    """Return ``database.table`` of an operator that has one table, None for others."""
    table = getattr(operator, "table", None)
    if not isinstance(table, str) or not table:
        return None
    return table if "." in table else f"default.{table}"
