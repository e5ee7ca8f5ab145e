"""Calls about locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.errors import InvalidLockRequestError
from airflow_hivex.core.model.locks import (
    DataOperation,
    LockComponent,
    LockInfo,
    LockLevel,
    LockResponse,
    LockState,
    LockType,
)
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import ALONE, call, together
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

_TYPES = {1: LockType.SHARED_READ, 2: LockType.SHARED_WRITE, 3: LockType.EXCLUSIVE, 4: LockType.EXCL_WRITE}
_NUMBERS = {kind: number for number, kind in _TYPES.items()}
_STATES = {LockState.ACQUIRED: 1, LockState.WAITING: 2, LockState.ABORT: 3, LockState.NOT_ACQUIRED: 4}


@call("lock")
def lock(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Request locks. The answer is ACQUIRED or WAITING; ``check_lock`` asks again.

    A lock is on a name. A client of Iceberg locks the name of a table before it creates the table.
    """
    request = args.rqst
    response = endpoint.services.locks.acquire(
        **_described(endpoint, client, request),
        wait=False,
        zero_wait_read=bool(request.zeroWaitReadEnabled),
        exclusive_ctas=bool(request.exclusiveCTAS),
        may_be_missing=True,
    )
    return _response(response)


@together("lock")
def lock_together(endpoint: Endpoint, asked: Sequence[tuple[Client, Any]]) -> list[Any]:
    """Request locks of transactions for several clients, and grant those that nothing is in the way of."""
    locks = endpoint.services.locks
    # A lock without a transaction lasts if its answer is lost, so that a call must not ask for it twice.
    is_plain = [bool(args.rqst.txnid) and not args.rqst.exclusiveCTAS for _, args in asked]
    requests = [
        locks.described(**_described(endpoint, client, args.rqst))
        for (client, args), plain in zip(asked, is_plain, strict=True)
        if plain
    ]
    found = iter(locks.acquire_together(requests))
    responses = [next(found) if plain else None for plain in is_plain]
    return [ALONE if response is None else _response(response) for response in responses]


def _described(endpoint: Endpoint, client: Client, request: Any) -> dict[str, Any]:
    txn_id = request.txnid or None
    return {
        "components": [_component(each, in_transaction=txn_id is not None) for each in request.component or ()],
        "txn_id": txn_id,
        "user": endpoint.owners.owner_of(client, request.user),
        "host": request.hostname,
        "agent_info": request.agentInfo,
    }


def _component(hive: Any, *, in_transaction: bool) -> LockComponent:
    if hive.type not in _TYPES:
        raise InvalidLockRequestError(f"{hive.type} is not a valid type of a lock")
    operation = DataOperation(hive.operationType) if hive.operationType else DataOperation.UNSET
    if operation is DataOperation.UNSET and in_transaction and not hive.isTransactional:
        # A client of Hive before 2.1 sends no operation. One of Hive 2.3 sends UNSET for tables without transactions.
        operation = DataOperation.NO_TXN
    table = hive.tablename or None
    partition = hive.partitionname or None
    level = hive.level or LockLevel.TABLE.value
    return LockComponent(
        read_database(hive.dbname).name,
        table if level != LockLevel.DB.value else None,
        partition if level == LockLevel.PARTITION.value else None,
        _TYPES[hive.type],
        operation,
        is_dynamic_partition_write=bool(hive.isDynamicPartitionWrite),
    )


def _response(found: LockResponse) -> Any:
    return ttypes.LockResponse(lockid=found.lock_id, state=_STATES[found.state], errorMessage=found.message)


@call("check_lock")
def check_lock(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Ask again for locks that were left waiting."""
    return _response(endpoint.services.locks.check(args.rqst.lockid))


@call("unlock")
def unlock(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Release locks that belong to no transaction, or still wait; of others nothing happens, as in Hive."""
    if args.rqst.lockid < 1:
        return
    endpoint.services.locks.unlock(args.rqst.lockid)


@call("show_locks")
def show_locks(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the locks, all or those on an object."""
    request = args.rqst
    database = read_database(request.dbname).name if request.dbname else None
    found = endpoint.services.locks.show(
        database,
        request.tablename or None,
        request.partname or None,
        txn_id=getattr(request, "txnid", None) or None,
    )
    return ttypes.ShowLocksResponse(locks=[_element(each) for each in found])


def _element(lock: LockInfo) -> Any:
    component = lock.component
    blocked = lock.blocked_by or (None, None)
    heartbeat = lock.heartbeat_at or lock.requested_at
    return ttypes.ShowLocksResponseElement(
        lockid=lock.lock_id,
        dbname=component.database,
        tablename=component.table,
        partname=component.partition,
        state=_STATES[lock.state],
        type=_NUMBERS[component.type],
        txnid=lock.txn_id or 0,
        # Of a lock of a transaction the transaction has the heartbeats, and Hive shows 0.
        lastheartbeat=0 if lock.txn_id else round(heartbeat.timestamp() * 1000),
        acquiredat=None if lock.acquired_at is None else round(lock.acquired_at.timestamp() * 1000),
        user=lock.user,
        hostname=lock.host,
        heartbeatCount=0,
        agentInfo=lock.agent_info,
        blockedByExtId=blocked[0],
        blockedByIntId=blocked[1],
        lockIdInternal=lock.internal_id,
    )
