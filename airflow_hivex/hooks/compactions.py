"""Results of compactions that tasks pass to each other, in JSON types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import InvalidOperationError

if TYPE_CHECKING:
    from airflow_hivex.core.model.cleaning import CleaningTask
    from airflow_hivex.core.model.compaction import Compaction
    from airflow_hivex.hooks.warehouse import WarehouseHook


def table_to_compact(hook: WarehouseHook, text: str) -> tuple[str, str]:
    """Return (database, table) for ``table`` or ``database.table``. The default database is the connection's database.

    :raises StatementSyntaxError: the text is not a valid name
    :raises InvalidOperationError: the text names a link
    """
    from airflow_hivex.core.parser.reader import read_table_name

    name = read_table_name(text)
    if name.namespace is not None:
        raise InvalidOperationError("A compaction of", text, "it is a link; compact the table that it links to")
    return name.database or hook.get_configuration().database, name.name


def describe_compaction(entry: Compaction) -> dict[str, Any]:
    """Return the result of a task for a compaction in the queue or in the history."""
    return {
        "compaction_id": entry.id,
        "table": f"{entry.database}.{entry.table}",
        "partition": entry.partition,
        "type": entry.type.name.lower(),
        "state": entry.state.shown,
        "message": entry.error_message,
        "txn_id": entry.txn_id,
    }


def describe_cleaning(task: CleaningTask) -> dict[str, Any]:
    """Return the outcome of one cleaning task, with the numbers of deleted and of remaining directories and files.

    The names of the directories and files are only in the log.
    """
    return {
        "compaction_id": task.compaction_id,
        "table": f"{task.database}.{task.table}",
        "partition": task.partition,
        "outcome": task.outcome.value,
        "deleted": len(task.deleted),
        "waiting": len(task.waiting),
        "blockers": [str(each) for each in task.blockers],
        "message": task.message,
    }


def as_whole_number(name: str, value: object) -> int:
    """Return an argument of a task as a whole number, 1 or more.

    :raises AirflowFailException: the argument is not a whole number, or less than 1
    """
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise AirflowFailException(f"{name} is {value!r}; it must be a whole number, 1 or more.")
    return int(text)
