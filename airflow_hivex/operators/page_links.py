"""The links of task instances to the page Hivex (``plugins/page``)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink, conf

from airflow_hivex.hooks.tasks import agent_of

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


_MOST_IDS = 20


class HivexTransactionsLink(BaseOperatorLink):
    """The link to the transactions of a task in all states."""

    name = "Hivex: transactions"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page. Airflow calls this method when the task ends.

        The address has the name of the task. If the task knows the ids of its transactions, the address also has these
        ids.
        """
        return page_address(operator, tab="transactions", agent=_agent_of(ti_key), txns=_transactions_of(operator))


class HivexStatementsLink(BaseOperatorLink):
    """The link to the statements of a task in the history of statements."""

    name = "Hivex: statements"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page, with the name of the task's try. Airflow calls this when the task ends."""
        return page_address(operator, tab="history", agent=_agent_of(ti_key))


class HivexCompactionsLink(BaseOperatorLink):
    """The link to the queue of compactions, filtered by the table of a task."""

    name = "Hivex: compactions"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the page. Airflow calls this method when the task ends."""
        partition = getattr(operator, "partition", None)
        return page_address(operator, tab="compactions", table=_table_of(operator), partition=partition)


class HivexTableLink(BaseOperatorLink):
    """The link to the table of a task."""

    name = "Hivex: table"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the page. Airflow calls this method when the task ends."""
        return page_address(operator, tab="tables", table=_table_of(operator))


def page_address(operator: BaseOperator, **place: str | None) -> str:
    """Return the address of the page for the connection of a task.

    :param place: parameters of the address, such as ``tab``; empty parameters are skipped
    """
    connection = getattr(operator, "hivex_conn_id", None)
    parameters = {"connection": connection, **place}
    base = conf.get("api", "base_url", fallback="/").rstrip("/")
    return f"{base}/plugin/hivex?{urlencode({name: value for name, value in parameters.items() if value})}"


def _agent_of(ti_key: TaskInstanceKey | None) -> str | None:
    """Return the name of a task's try as the owner of transactions. If ``ti_key`` is None, return None."""
    if ti_key is None:
        return None
    return agent_of(ti_key.dag_id, ti_key.task_id, ti_key.map_index, ti_key.run_id, ti_key.try_number)


def _transactions_of(operator: BaseOperator) -> str | None:
    """Return the ids of the transactions of a task, separated by commas, or None if the task does not know them."""
    given = [getattr(operator, name, None) for name in ("transaction", "txn_id")]
    ids = [int(each) for each in map(str, given) if each.isascii() and each.isdigit()]
    ids += getattr(operator, "txn_ids", ())
    return ",".join(map(str, dict.fromkeys(ids[-_MOST_IDS:]))) or None


def _table_of(operator: BaseOperator) -> str | None:
    """Return ``database.table`` for an operator that has one table, or None for any other operator."""
    table = getattr(operator, "table", None)
    if not isinstance(table, str) or not table:
        return None
    return table if "." in table else f"default.{table}"
