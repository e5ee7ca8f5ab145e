"""The tables that a task has read and written, as its inlets and outlets.

The tables are found when the statements run. An event is sent for each written table, through the AssetAlias of the
task, so that Airflow creates an asset that no DAG has named. A task that only moves, copies or merges files has only
inlets, because it changes no rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_hivex.assets.hivex import TableUri, alias_of_task, table_uri
from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.lineage import tables_of
from airflow_hivex.triggers.commits import POSITION, PRODUCER, WATCHED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.catalog.commits import TableCommit
    from airflow_hivex.hooks.warehouse import WarehouseHook

log = logging.getLogger(__name__)

_LONGEST_PARTITION_KEY = 250
_MOST_TABLES = 1000
MOST_PARTITIONS = 1000


@dataclass(slots=True)
class _Written:
    txn_ids: list[int] = field(default_factory=list)
    write_ids: list[int] = field(default_factory=list)
    partitions: set[str] = field(default_factory=set)


class WritingOperator(BaseOperator):
    """The base of operators that change rows. Their tasks send the events of the changed tables and links.

    The events come from the AssetAlias of the task, an outlet with the name ``hivex.dag_id.task_id``.

    :param asset_events: whether to send an event for the asset of each changed table or link
    """

    def __init__(self, *, asset_events: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asset_events = asset_events
        if asset_events and self.has_dag():  # type: ignore[no-untyped-call]
            # Airflow shows the aliases that the DAG file has. The alias of any other task is added when the task runs.
            self.outlets = [*self.outlets, alias_of_task(self.dag_id, self.task_id)]


def declare_inlets(
    operator: BaseOperator, hook: WarehouseHook, statements: Sequence[str], database: str | None
) -> None:
    """Add the tables that statements read to the inlets of a task."""
    found = tables_of(statements, hook.hivex_conn_id, database or hook.get_configuration().database)
    _add_inlets(operator, found.inputs)


def declare_tables(operator: BaseOperator, hivex_conn_id: str, tables: Iterable[str]) -> None:
    """Add tables to the inlets of a task. A name is ``database.table``, or ``table`` for a table of ``default``."""
    parts = (each.rpartition(".") for each in tables)
    _add_inlets(operator, [table_uri(hivex_conn_id, database or "default", table) for database, _, table in parts])


def send_event(
    operator: WritingOperator,
    context: Context,
    uri: TableUri,
    extra: dict[str, Any],
    partitions: Collection[str] = (),
    *,
    with_partition_keys: bool = False,
) -> None:
    """Send an event for the asset of a changed table or link, unless the task's ``asset_events`` is False.

    If the asset is an outlet in the DAG file, Airflow sends the event, and it gets ``extra``. If the events of the
    asset come from the notification log, the task sends no event, so that a commit does not start a DAG twice.

    :param with_partition_keys: whether to send an event for each partition, with the partition's name as partition key
    """
    if not operator.asset_events or "outlet_events" not in context:
        return
    name = str(uri)
    declared = [each for each in operator.outlets if getattr(each, "uri", None) == name]
    if _is_watched(name):
        _note_producer(operator, name)
        operator.outlets = [each for each in operator.outlets if each not in declared]
        return
    events = context["outlet_events"]
    extra = extra | {"partitions": sorted(partitions)[:MOST_PARTITIONS]}
    asset = Asset(name=name, uri=name)
    if with_partition_keys and partitions and not declared:
        # An event of an alias cannot have a partition key.
        declared = [asset]
        operator.outlets = [*operator.outlets, asset]
    for outlet in declared:
        # Airflow knows the name of an asset reference only if the asset exists.
        if isinstance(outlet, Asset):
            events[outlet].extra.update(extra)
            if with_partition_keys:
                keys = sorted(key for key in partitions if len(key) <= _LONGEST_PARTITION_KEY)
                events[outlet].add_partitions(keys[:MOST_PARTITIONS])
    if not declared:
        alias = alias_of_task(operator.dag_id, operator.task_id)
        if alias not in operator.outlets:
            operator.outlets = [*operator.outlets, alias]
        events[alias].add(asset, extra=extra)


def send_events(
    operator: WritingOperator,
    context: Context,
    hook: WarehouseHook,
    txn_ids: Iterable[int],
    *,
    with_partition_keys: bool = False,
) -> None:
    """Send an event for each table that committed transactions have written, as :func:`send_event` does.

    An error of the metastore is only logged, because the transactions have committed.
    """
    ids = sorted(set(txn_ids))
    if not ids or not operator.asset_events or "outlet_events" not in context:
        return
    try:
        commits = hook.get_metastore().commits.of_transactions(ids)
    except HivexError as error:
        log.warning("The events of transactions %s are not sent: %s", ids, error)
        return
    for table, written in _by_table(commits).items():
        send_event(
            operator,
            context,
            table_uri(hook.hivex_conn_id, *table.split(".", 1)),
            {"txn_ids": written.txn_ids, "write_ids": written.write_ids},
            written.partitions,
            with_partition_keys=with_partition_keys,
        )


def _add_inlets(operator: BaseOperator, uris: Sequence[TableUri]) -> None:
    known = {each.uri for each in operator.inlets if isinstance(each, Asset)}
    names = dict.fromkeys(str(each) for each in uris[:_MOST_TABLES])
    operator.inlets.extend(Asset(name=name, uri=name) for name in names if name not in known)


def _by_table(commits: Iterable[TableCommit]) -> dict[str, _Written]:
    found: dict[str, _Written] = defaultdict(_Written)
    for commit in commits:
        written = found[commit.table]
        if commit.txn_id not in written.txn_ids:
            written.txn_ids.append(commit.txn_id)
            written.write_ids.append(commit.write_id)
        if commit.partition is not None:
            written.partitions.add(commit.partition)
    return found


def _is_watched(uri: str) -> bool:
    """Return whether a watcher sends the events of an asset.

    The watcher stores its position in the state of the asset. Airflow logs an error for the question for an asset that
    does not exist, but not for the question for its state.
    """
    from airflow.sdk.execution_time.comms import (
        AssetResult,
        AssetStateStoreResult,
        GetAssetByUri,
        GetAssetStateStoreByUri,
    )

    if not isinstance(_ask(GetAssetStateStoreByUri(uri=uri, key=POSITION)), AssetStateStoreResult):
        return False
    answer = _ask(GetAssetByUri(uri=uri))
    return isinstance(answer, AssetResult) and WATCHED.items() <= (answer.extra or {}).items()


def _note_producer(operator: BaseOperator, uri: str) -> None:
    """Note a task in the state of a watched asset. The plugin reads it when it records an event of the watcher."""
    from airflow.sdk.execution_time.comms import SetAssetStateStoreByUri

    task: dict[str, Any] = {"dag_id": operator.dag_id, "task_id": operator.task_id}
    _ask(SetAssetStateStoreByUri(uri=uri, key=f"{PRODUCER}{operator.dag_id}.{operator.task_id}", value=task))


def _ask(message: Any) -> Any:
    """Return the answer of Airflow, or None after an error.

    The error is only logged, because the rows are committed: a retry of the task would write them a second time.
    """
    from airflow.sdk.execution_time import task_runner

    try:
        return task_runner.SUPERVISOR_COMMS.send(message)
    except AirflowRuntimeError as error:
        log.warning("Airflow has not answered %s: %s", message, error)
        return None
