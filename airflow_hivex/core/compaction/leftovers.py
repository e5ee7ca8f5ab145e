"""The remains of aborted transactions: their components by table and partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, and_, select

from airflow_hivex.core.compaction.candidates import Resource
from airflow_hivex.core.model.cleaning import Aborted
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.store.schema import txn_components, txn_to_write_id, txns


def read_aborted(connection: Connection, only: Resource | None = None) -> Mapping[Resource, Aborted]:
    """Return the places of aborted writes, the oldest first.

    One statement.

    A partition of None is the table, or, where it has partitions, any of them. ``only`` is one table or partition.
    """
    components, mapping = txn_components.c, txn_to_write_id.c
    query = (
        select(
            components.txn_id,
            components.table_id,
            components.partition,
            components.operation,
            components.write_id,
            mapping.write_id.label("mapped"),
        )
        .join(txns, txns.c.id == components.txn_id)
        .outerjoin(txn_to_write_id, and_(mapping.table_id == components.table_id, mapping.txn_id == components.txn_id))
        .where(txns.c.state == TxnState.ABORTED.value)
        .order_by(components.id)
    )
    if only is not None:
        query = query.where(components.table_id == only[0], components.partition.is_not_distinct_from(only[1]))
    txn_ids: defaultdict[Resource, set[int]] = defaultdict(set)
    write_ids: defaultdict[Resource, set[int]] = defaultdict(set)
    compactions: defaultdict[Resource, set[int]] = defaultdict(set)
    for row in connection.execute(query):
        resource = (row.table_id, row.partition)
        txn_ids[resource].add(row.txn_id)
        if row.operation == Operation.COMPACT.value:
            # Its write id is the highest that it covers, which is another's.
            compactions[resource].add(row.txn_id)
        else:
            write_ids[resource].update(each for each in (row.write_id, row.mapped) if each is not None)
    return {
        resource: Aborted(frozenset(ids), frozenset(write_ids[resource]), frozenset(compactions[resource]))
        for resource, ids in txn_ids.items()
    }
