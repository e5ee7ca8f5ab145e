"""The tables that a task has read and written, as its inlets and outlets.

The tables are found when the statements run. An event is sent for each written table whose asset a DAG of this Airflow
uses. A task that only moves, copies or merges files has only inlets, because it changes no rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_hivex.assets.hivex import TableUri, table_uri
from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.lineage import tables_of
from airflow_hivex.triggers.commits import WATCHED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow.sdk import BaseOperator, Context

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
    operator: BaseOperator, context: Context, uri: TableUri, extra: dict[str, Any], partitions: Collection[str] = ()
) -> None:
    """Add the asset of a changed table or link to the outlets of a task, and send an event for the asset.

    No event is sent for an asset that no DAG names, or whose events come from the notification log.
    """
    if "outlet_events" not in context:
        return
    asset = _asset_of(str(uri))
    if asset is not None:
        context["outlet_events"][asset].extra.update(extra | {"partitions": sorted(partitions)[:MOST_PARTITIONS]})
        _add_outlet(operator, asset)


def send_events(
    operator: BaseOperator,
    context: Context,
    hook: WarehouseHook,
    txn_ids: Iterable[int],
    *,
    with_partition_keys: bool = False,
) -> None:
    """Add the written tables of committed transactions to the outlets of a task, and send an event for each table.

    No event is sent for an asset that no DAG names, or whose events come from the notification log. An error is only
    logged, because the transactions have committed.

    :param with_partition_keys: whether to send an event for each partition, with the partition's name as partition key
    """
    ids = sorted(set(txn_ids))
    if not ids or "outlet_events" not in context:
        return
    try:
        commits = hook.get_metastore().commits.of_transactions(ids)
    except HivexError as error:
        log.warning("The events of transactions %s are not sent: %s", ids, error)
        return
    for table, written in _by_table(commits).items():
        asset = _asset_of(str(table_uri(hook.hivex_conn_id, *table.split(".", 1))))
        if asset is None:
            continue
        extra: dict[str, Any] = {
            "txn_ids": written.txn_ids,
            "write_ids": written.write_ids,
            "partitions": sorted(written.partitions)[:MOST_PARTITIONS],
        }
        accessor = context["outlet_events"][asset]
        accessor.extra.update(extra)
        if with_partition_keys and written.partitions:
            keys = sorted(key for key in written.partitions if len(key) <= _LONGEST_PARTITION_KEY)
            accessor.add_partitions(keys[:MOST_PARTITIONS])
        _add_outlet(operator, asset)


def _add_inlets(operator: BaseOperator, uris: Sequence[TableUri]) -> None:
    known = {each.uri for each in operator.inlets if isinstance(each, Asset)}
    names = dict.fromkeys(str(each) for each in uris[:_MOST_TABLES])
    operator.inlets.extend(Asset(name=name, uri=name) for name in names if name not in known)


def _add_outlet(operator: BaseOperator, asset: Asset) -> None:
    if not any(isinstance(each, Asset) and each.uri == asset.uri for each in operator.outlets):
        operator.outlets.append(asset)


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


def _asset_of(uri: str) -> Asset | None:
    """Return the asset with the URI, or None if no event must be sent.

    No event is sent if no DAG names the asset, or if its events come from the notification log.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import AssetResult, GetAssetByUri

    answer: Any = task_runner.SUPERVISOR_COMMS.send(GetAssetByUri(uri=uri))
    if not isinstance(answer, AssetResult) or WATCHED.items() <= (answer.extra or {}).items():
        return None
    return Asset(name=answer.name, uri=answer.uri, group=answer.group, extra=answer.extra)
