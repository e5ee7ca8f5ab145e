"""Calls about transactions, write ids and locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.errors import InvalidLockRequestError, InvalidTransactionRequestError
from airflow_hivex.core.model.locks import (
    DataOperation,
    LockComponent,
    LockInfo,
    LockLevel,
    LockResponse,
    LockState,
    LockType,
)
from airflow_hivex.core.model.transactions import AbortReason, Operation, TxnState, TxnType
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import ALONE, call, together
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

_STATES = {TxnState.OPEN: 3, TxnState.ABORTED: 2, TxnState.COMMITTED: 1}
_TYPES = {each.value: each for each in TxnType}
_OPERATIONS = {1: Operation.SELECT, 2: Operation.INSERT, 3: Operation.UPDATE, 4: Operation.DELETE}


def bits(ids: Sequence[int], set_ids: Sequence[int]) -> bytes:
    """Return a bit set: bit i is 1 if ``ids[i]`` is in ``set_ids``. Source: java.util.BitSet.toByteArray."""
    wanted = set(set_ids)
    found = sum(1 << place for place, each in enumerate(ids) if each in wanted)
    return found.to_bytes((found.bit_length() + 7) // 8, "little")


# -- life --------------------------------------------------------------------------------


@call("open_txns")
def open_txns(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Open transactions."""
    request = args.rqst
    if not request.num_txns:
        # Hive has no error for this number, either.
        return ttypes.OpenTxnsResponse(txn_ids=[])
    _refuse_replication("open_txns", request.replPolicy or request.replSrcTxnIds)
    ids = endpoint.services.transactions.open(request.num_txns, **_described(endpoint, client, request))
    return ttypes.OpenTxnsResponse(txn_ids=ids)


@together("open_txns")
def open_txns_together(endpoint: Endpoint, asked: Sequence[tuple[Client, Any]]) -> list[Any]:
    """Open a transaction for each of several clients."""
    transactions = endpoint.services.transactions
    is_plain = [args.rqst.num_txns == 1 and not (args.rqst.replPolicy or args.rqst.replSrcTxnIds) for _, args in asked]
    new = [
        transactions.described(**_described(endpoint, client, args.rqst))
        for (client, args), plain in zip(asked, is_plain, strict=True)
        if plain
    ]
    ids = iter(transactions.open_together(new) if new else ())
    return [ttypes.OpenTxnsResponse(txn_ids=[next(ids)]) if plain else ALONE for plain in is_plain]


def _refuse_replication(call_name: str, policy: object) -> None:
    """Refuse a request that Hive's REPL LOAD sends to replay a transaction of another warehouse.

    Raises:
        InvalidTransactionRequestError: the request has a replication policy.
    """
    if policy:
        raise InvalidTransactionRequestError(
            f"{call_name} has the replication policy {policy!r}. Transactions of another warehouse are not replayed "
            "here; copy its tables by `hivex import`."
        )


def _described(endpoint: Endpoint, client: Client, request: Any) -> dict[str, Any]:
    return {
        "user": endpoint.owners.owner_of(client, request.user),
        "host": request.hostname,
        "agent_info": request.agentInfo,
        "type": _TYPES.get(request.txn_type or 0, TxnType.DEFAULT),
    }


@call("commit_txn")
def commit_txn(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Commit a transaction. As in Hive, a second commit is a success."""
    request = args.rqst
    _refuse_replication("commit_txn", request.replPolicy)
    endpoint.metastore.commit(request.txnid)


@together("commit_txn")
def commit_txns_together(endpoint: Endpoint, asked: Sequence[tuple[Client, Any]]) -> list[Any]:
    """Commit the transactions of several clients. Return :data:`ALONE` for each transaction that is not committed."""
    ids = [None if args.rqst.replPolicy else args.rqst.txnid for _, args in asked]
    committed = endpoint.services.transactions.commit_together([each for each in ids if each is not None])
    return [None if each in committed else ALONE for each in ids]


@call("abort_txn")
def abort_txn(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Abort a transaction. As in Hive, a second abort is a success."""
    request = args.rqst
    _refuse_replication("abort_txn", request.replPolicy)
    endpoint.metastore.abort(request.txnid, "aborted by its client")


@call("abort_txns")
def abort_txns(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Abort all given transactions that are open."""
    ids = args.rqst.txn_ids or []
    endpoint.services.transactions.abort_many(ids, "ABORT TRANSACTIONS", AbortReason.ABORT_QUERY)


@call("heartbeat")
def heartbeat(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Record that the owner of a transaction or lock, or of both, is alive."""
    ids = args.ids
    if not ids.txnid and not ids.lockid:
        # Hive does nothing, either.
        return
    endpoint.services.transactions.heartbeat(ids.txnid or None, ids.lockid or None)


@call("heartbeat_txn_range")
def heartbeat_txn_range(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Record that the owner of a range of transactions is alive."""
    found = endpoint.services.transactions.heartbeat_range(args.txns.min, args.txns.max)
    return ttypes.HeartbeatTxnRangeResponse(aborted=set(found.aborted), nosuch=set(found.no_such))


# -- snapshots ---------------------------------------------------------------------------


@call("get_open_txns")
def get_open_txns(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the ids of the transactions that are now open or aborted."""
    return _open(endpoint.services.transactions.valid_txns())


@call("get_open_txns_req")
def get_open_txns_req(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the ids of the open and aborted transactions.

    Leave out the types of transactions that the request excludes.
    """
    found = endpoint.services.transactions.valid_txns()
    excluded = {_TYPES.get(each) for each in args.getOpenTxnsRequest.excludeTxnTypes or ()}
    if excluded:
        hidden = {each.id for each in endpoint.services.transactions.show() if each.type in excluded}
        left = [each for each in found.open_ids if each not in hidden]
        found = ValidTxnList.of(found.high_watermark, left, found.aborted_ids)
    return _open(found)


def _open(found: ValidTxnList) -> Any:
    ids = list(found.exceptions)
    return ttypes.GetOpenTxnsResponse(
        txn_high_water_mark=found.high_watermark,
        open_txns=ids,
        min_open_txn=found.min_open,
        abortedBits=bits(ids, found.aborted_ids),
    )


@call("get_open_txns_info")
def get_open_txns_info(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the stored records of all open and aborted transactions."""
    valid = endpoint.services.transactions.valid_txns()
    infos = [
        ttypes.TxnInfo(
            id=each.id,
            state=_STATES[each.state],
            user=each.user,
            hostname=each.host,
            agentInfo=each.agent_info,
            startedTime=round(each.started_at.timestamp() * 1000),
            lastHeartbeatTime=round(each.heartbeat_at.timestamp() * 1000),
        )
        for each in endpoint.services.transactions.show()
    ]
    return ttypes.GetOpenTxnsInfoResponse(txn_high_water_mark=valid.high_watermark, open_txns=infos)


# -- write ids ---------------------------------------------------------------------------


@call("allocate_table_write_ids")
def allocate_table_write_ids(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Allocate the write ids of transactions for a table."""
    request = args.rqst
    name = read_database(request.dbName)
    _refuse_replication("allocate_table_write_ids", request.replPolicy)
    found = endpoint.services.transactions.allocate_write_ids(
        list(request.txnIds or ()), name.name, request.tableName, reallocate=bool(getattr(request, "reallocate", False))
    )
    pairs = [ttypes.TxnToWriteId(txnId=txn_id, writeId=write_id) for txn_id, write_id in sorted(found.items())]
    return ttypes.AllocateTableWriteIdsResponse(txnToWriteIds=pairs)


@call("get_valid_write_ids")
def get_valid_write_ids(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the write id lists of tables in the snapshot of the request, or else in the current snapshot."""
    request = args.rqst
    transactions = endpoint.services.transactions
    if request.validTxnList:
        valid = ValidTxnList.parse(request.validTxnList)
    elif request.writeId:
        raise ttypes.MetaException("get_valid_write_ids by a write id is not supported; give a list of transactions")
    else:
        valid = transactions.valid_txns()
    names = {
        full: read_database(full.partition(".")[0]).name + "." + full.partition(".")[2] for full in _names(request)
    }
    found = transactions.valid_write_ids(list(names.values()), valid)
    answers = []
    for given, name in names.items():
        write_ids = found[name]
        ids = list(write_ids.exceptions)
        answers.append(
            ttypes.TableValidWriteIds(
                fullTableName=given.lower(),
                writeIdHighWaterMark=write_ids.high_watermark,
                invalidWriteIds=ids,
                minOpenWriteId=MAX_ID if write_ids.min_open is None else write_ids.min_open,
                abortedBits=bits(ids, write_ids.aborted_ids),
            )
        )
    return ttypes.GetValidWriteIdsResponse(tblValidWriteIds=answers)


def _names(request: Any) -> list[str]:
    names = list(request.fullTableNames or ())
    for each in names:
        if "." not in each:
            raise ttypes.MetaException(f"{each!r} is not a valid name of a table; give database.table")
    return names


@call("get_max_allocated_table_write_id")
def get_max_allocated_table_write_id(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the highest allocated write id of a table, or 0 if the table has no write ids."""
    request = args.rqst
    name = f"{read_database(request.dbName).name}.{request.tableName}"
    transactions = endpoint.services.transactions
    found = transactions.valid_write_ids([name], transactions.valid_txns())[name]
    return ttypes.MaxAllocatedTableWriteIdResponse(maxWriteId=found.high_watermark)


@call("seed_write_id")
def seed_write_id(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Set the next write id of a table to the request's number plus 1."""
    request = args.rqst
    name = read_database(request.dbName)
    endpoint.services.transactions.seed_write_ids(name.name, request.tableName, request.seedWriteId + 1)


@call("seed_txn_id")
def seed_txn_id(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Set the next transaction id to the request's number plus 1."""
    endpoint.services.transactions.seed_txn_ids(args.rqst.seedTxnId + 1)


@call("add_dynamic_partitions")
def add_dynamic_partitions(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Record the partitions that a transaction has written with dynamic partitions."""
    request = args.rqst
    endpoint.services.transactions.add_dynamic_partitions(
        request.txnid,
        read_database(request.dbname).name,
        request.tablename,
        list(request.partitionnames or ()),
        _OPERATIONS.get(request.operationType or 0, Operation.UPDATE),
    )


_LOCK_TYPES = {1: LockType.SHARED_READ, 2: LockType.SHARED_WRITE, 3: LockType.EXCLUSIVE, 4: LockType.EXCL_WRITE}
_NUMBERS = {kind: number for number, kind in _LOCK_TYPES.items()}
_LOCK_STATES = {LockState.ACQUIRED: 1, LockState.WAITING: 2, LockState.ABORT: 3, LockState.NOT_ACQUIRED: 4}


@call("lock")
def lock(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Request locks without waiting. After the answer WAITING, the client calls ``check_lock``.

    The locked table need not exist, since a client of Iceberg locks a table before it creates the table.
    """
    request = args.rqst
    response = endpoint.services.locks.acquire(
        **_described_request(endpoint, client, request),
        wait=False,
        zero_wait_read=bool(request.zeroWaitReadEnabled),
        exclusive_ctas=bool(request.exclusiveCTAS),
        may_be_missing=True,
    )
    return _response(response)


@together("lock")
def lock_together(endpoint: Endpoint, asked: Sequence[tuple[Client, Any]]) -> list[Any]:
    """Grant the locks that clients request for transactions. Return :data:`ALONE` for each request not granted."""
    locks = endpoint.services.locks
    # A lock without a transaction lasts if its answer is lost, so it must not be requested twice.
    is_plain = [bool(args.rqst.txnid) and not args.rqst.exclusiveCTAS for _, args in asked]
    requests = [
        locks.described(**_described_request(endpoint, client, args.rqst))
        for (client, args), plain in zip(asked, is_plain, strict=True)
        if plain
    ]
    found = iter(locks.acquire_together(requests))
    responses = [next(found) if plain else None for plain in is_plain]
    return [ALONE if response is None else _response(response) for response in responses]


def _described_request(endpoint: Endpoint, client: Client, request: Any) -> dict[str, Any]:
    txn_id = request.txnid or None
    return {
        "components": [_component(each, in_transaction=txn_id is not None) for each in request.component or ()],
        "txn_id": txn_id,
        "user": endpoint.owners.owner_of(client, request.user),
        "host": request.hostname,
        "agent_info": request.agentInfo,
    }


def _component(hive: Any, *, in_transaction: bool) -> LockComponent:
    if hive.type not in _LOCK_TYPES:
        raise InvalidLockRequestError(f"{hive.type} is not a valid type of a lock")
    operation = DataOperation(hive.operationType) if hive.operationType else DataOperation.UNSET
    if operation is DataOperation.UNSET and in_transaction and not hive.isTransactional:
        # A client before Hive 2.1 sends no operation. A client of Hive 2.3 sends UNSET for tables without transactions.
        operation = DataOperation.NO_TXN
    table = hive.tablename or None
    partition = hive.partitionname or None
    level = hive.level or LockLevel.TABLE.value
    return LockComponent(
        read_database(hive.dbname).name,
        table if level != LockLevel.DB.value else None,
        partition if level == LockLevel.PARTITION.value else None,
        _LOCK_TYPES[hive.type],
        operation,
        is_dynamic_partition_write=bool(hive.isDynamicPartitionWrite),
    )


def _response(found: LockResponse) -> Any:
    return ttypes.LockResponse(lockid=found.lock_id, state=_LOCK_STATES[found.state], errorMessage=found.message)


@call("check_lock")
def check_lock(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Check waiting locks again, and return their state."""
    return _response(endpoint.services.locks.check(args.rqst.lockid))


@call("unlock")
def unlock(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Release the locks of a request that is waiting or has no transaction. An unknown request is ignored."""
    if args.rqst.lockid < 1:
        return
    endpoint.services.locks.unlock(args.rqst.lockid)


@call("show_locks")
def show_locks(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return all locks, or the locks on an object."""
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
        state=_LOCK_STATES[lock.state],
        type=_NUMBERS[component.type],
        txnid=lock.txn_id or 0,
        # The heartbeats of a transaction's lock belong to the transaction, and Hive shows 0.
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
