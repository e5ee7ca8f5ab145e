"""Checks of the objects that a request locks, and the record of the writes of a request.

The functions run in the caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, func, insert, literal, select, true

from airflow_hivex.core.errors import (
    InvalidLockRequestError,
    NoSuchDatabaseError,
    NoSuchTableError,
    NoSuchTransactionError,
)
from airflow_hivex.core.model.identifiers import check_name
from airflow_hivex.core.model.locks import DataOperation, LockComponent
from airflow_hivex.core.model.objects import TRANSACTIONAL
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import databases, locks, tables, txn_components, txns
from airflow_hivex.core.transactions.allocation import is_id
from airflow_hivex.core.transactions.txn_rows import raise_if_settled

_OPERATIONS = {
    DataOperation.INSERT: Operation.INSERT,
    DataOperation.UPDATE: Operation.UPDATE,
    DataOperation.DELETE: Operation.DELETE,
}


def check_components(components: Iterable[LockComponent], *, has_txn: bool) -> list[LockComponent]:
    """Return the distinct components of a request.

    A component of a transaction must have an operation.

    Raises:
        InvalidObjectError: the name of a new table is not a valid name.
        InvalidLockRequestError: the request has no components, or a transaction's component has no operation. Source:
            Hive TxnHandler.insertTxnComponents.
    """
    wanted = list(dict.fromkeys(components))
    if not wanted:
        raise InvalidLockRequestError("it has no components")
    for component in wanted:
        if component.is_new_table and component.table is not None:
            check_name("table", component.table)
        if has_txn and component.operation is DataOperation.UNSET:
            raise InvalidLockRequestError(
                f"the {component.type.name} lock on {component.resource} is for a transaction and has no operation; "
                "give INSERT, UPDATE or DELETE, SELECT for a read, or NO_TXN for what is not transactional"
            )
    return wanted


def check_request(
    connection: Connection,
    components: Sequence[LockComponent],
    txn_id: int | None,
    *,
    new_tables: bool,
    may_be_missing: bool = False,
) -> Mapping[tuple[str, str], int]:
    """Check a request, and return its transactional tables as a dict from (database, name) to id. One round trip.

    The check keeps the transaction open until the caller's database transaction ends. With ``may_be_missing`` the
    objects need not exist.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: a database or table does not exist, and ``may_be_missing`` is false.
        TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
    """
    found_databases, found = _read(connection, components, txn_id)
    for component in () if may_be_missing else components:
        if component.database not in found_databases:
            raise NoSuchDatabaseError(component.database)
        if component.table is None or (component.database, component.table) in found:
            continue
        if not (component.is_new_table or new_tables):
            raise NoSuchTableError(component.database, component.table)
        check_name("table", component.table)
    return {
        name: table_id
        for name, (table_id, parameters) in found.items()
        if parameters.get(TRANSACTIONAL, "false").lower() == "true"
    }


def note_components(
    connection: Connection,
    components: Iterable[LockComponent],
    txn_id: int,
    transactional: Mapping[tuple[str, str], int],
) -> None:
    """Record the transactional tables and partitions that a transaction will write. At most two round trips."""
    rows = [
        {"txn_id": txn_id, "table_id": transactional[name], "partition": partition, "operation": operation.value}
        for name, partition, operation in writes_of_request(components)
        if name in transactional
    ]
    if not rows:
        return
    # A table that is being dropped gets no notes; the others stay until the caller's transaction ends.
    wanted = sorted({transactional[name] for name, _, _ in writes_of_request(components) if name in transactional})
    named = select(tables.c.id).where(tables.c.id.in_(wanted)).order_by(tables.c.id)
    held = set(connection.execute(named.with_for_update(read=True, key_share=True)).scalars())
    noted = [row for row in rows if row["table_id"] in held]
    if noted:
        later(connection, insert(txn_components), noted)


def note_locks_of(connection: Connection, table_id: int, database: str, table: str) -> None:
    """Record the writes of transactions that requested locks on a table before the table existed. One round trip."""
    letters = {number.value: operation.value for number, operation in _OPERATIONS.items()}
    held = select(
        locks.c.txn_id,
        literal(table_id),
        func.nullif(locks.c.partition, ""),
        case(letters, value=locks.c.operation),
    ).where(
        locks.c.full_table == LockComponent(database, table).full_table,
        locks.c.txn_id > 0,
        locks.c.operation.in_(list(letters)),
    )
    columns = ["txn_id", "table_id", "partition", "operation"]
    later(connection, insert(txn_components).from_select(columns, held.distinct()))


def writes_of_request(
    components: Iterable[LockComponent],
) -> list[tuple[tuple[str, str], str | None, Operation]]:
    """Return the distinct writes of a request, as ((database, table), partition, operation).

    All writes to unknown partitions of a table become one write. Its operation is INSERT if all these writes are
    inserts, or else UPDATE.
    """
    noted: dict[tuple[tuple[str, str], str | None, Operation], None] = {}
    dynamic: dict[tuple[str, str], Operation] = {}
    for component in components:
        if component.table is None or not component.operation.writes:
            continue
        name = (component.database, component.table)
        operation = _OPERATIONS[component.operation]
        if component.is_dynamic_partition_write:
            updates = operation is not Operation.INSERT or dynamic.get(name) is Operation.UPDATE
            dynamic[name] = Operation.UPDATE if updates else Operation.INSERT
        else:
            noted[name, component.partition, operation] = None
    return list(noted | {(name, None, operation): None for name, operation in dynamic.items()})


def _read(
    connection: Connection, components: Sequence[LockComponent], txn_id: int | None
) -> tuple[set[str], dict[tuple[str, str], tuple[int, Mapping[str, str]]]]:
    names = sorted({component.table for component in components if component.table is not None})
    objects = (
        select(databases.c.name.label("database"), tables.c.name.label("table"), tables.c.id, tables.c.parameters)
        .select_from(
            databases.outerjoin(
                tables, and_(tables.c.database_id == databases.c.id, ~tables.c.dropped, tables.c.name.in_(names))
            )
        )
        .where(databases.c.name.in_(sorted({component.database for component in components})))
    )
    rows: Sequence[Any]
    if txn_id is None:
        rows = connection.execute(objects).all()
    else:
        if not is_id(txn_id):
            raise NoSuchTransactionError(txn_id)
        named = objects.subquery()
        rows = connection.execute(
            select(
                txns.c.id.label("txn_id"),
                txns.c.state,
                txns.c.reason,
                txns.c.reason_code,
                named.c.database,
                named.c.table,
                named.c.id,
                named.c.parameters,
            )
            .select_from(txns.outerjoin(named, true()))
            .where(txns.c.id == txn_id)
            .with_for_update(read=True, of=txns)
        ).all()
        if not rows:
            raise NoSuchTransactionError(txn_id)
        raise_if_settled(txn_id, rows[0])
    return (
        {row.database for row in rows},
        {(row.database, row.table): (row.id, row.parameters) for row in rows if row.table is not None},
    )
