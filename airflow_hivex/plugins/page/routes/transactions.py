"""The routes of transactions and locks: lists, waiting requests, the abort of a transaction, the release of locks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.locks import LockInfo, LockState
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.core.transactions.listed_transactions import ListedTransaction, Wait
from airflow_hivex.plugins.page.access import ConnectionId, Editor, Warehouse, recorded
from airflow_hivex.plugins.page.documents import answer, document, owner_name, page, page_request, tasks_of

router = APIRouter()
Wanted = Annotated[PageRequest, Depends(page_request)]
_STATES = {"open": TxnState.OPEN, "aborted": TxnState.ABORTED, "committed": TxnState.COMMITTED, "all": None}
_LOCK_STATES = {"acquired": LockState.ACQUIRED, "waiting": LockState.WAITING, "all": None}
_MOST_IDS, _MOST_DIRECTORIES = 50, 200
State = Annotated[str, Query(pattern="^(open|aborted|committed|all)$")]
StateOfLock = Annotated[str, Query(pattern="^(acquired|waiting|all)$")]


class Abort(BaseModel):
    """The transaction to abort."""

    txn_id: int = Field(ge=1, lt=2**63)
    reason: str = Field(default="", max_length=500)


class Release(BaseModel):
    """The lock request whose locks must be released."""

    lock_id: int = Field(ge=1, lt=2**63)


@router.get("/transactions")
def list_transactions(metastore: Warehouse, wanted: Wanted, state: State = "open") -> JSONResponse:
    """Return one page of the list of transactions."""
    found = metastore.transaction_listing.transactions(wanted, _STATES[state])
    tasks = tasks_of(each.transaction.agent_info for each in found.rows)

    def shown(each: ListedTransaction) -> dict[str, Any]:
        transaction = document(each.transaction)
        task = tasks.get(each.transaction.agent_info or "")
        return {**transaction, "acquired": each.locks_acquired, "waiting": each.locks_waiting, "task": task}

    return answer(page(found, shown))


@router.get("/locks")
def list_locks(
    metastore: Warehouse,
    wanted: Wanted,
    txn_id: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    state: StateOfLock = "all",
) -> JSONResponse:
    """Return one page of the list of locks."""
    found = metastore.transaction_listing.locks(wanted, txn_id, _LOCK_STATES[state])
    tasks = tasks_of(each.agent_info for each in found.rows)

    def shown(each: LockInfo) -> dict[str, Any]:
        component = each.component
        return {
            **document(each),
            "component": None,
            "resource": component.resource,
            "name": component.shown,
            "type": document(component.type),
            "operation": document(component.operation),
            "task": tasks.get(each.agent_info or ""),
        }

    return answer(page(found, shown))


@router.get("/waits")
def list_waits(metastore: Warehouse) -> JSONResponse:
    """Return up to 200 waiting lock requests, each with the owner of the lock that blocks the request."""
    waits = metastore.transaction_listing.waits()
    tasks = tasks_of(agent for each in waits for agent in (each.agent_info, each.for_agent_info))

    def shown(each: Wait) -> dict[str, Any]:
        return {
            **document(each),
            "name": each.name,
            "by": owner_name(each.user, each.agent_info),
            "for_by": owner_name(each.for_user, each.for_agent_info),
            "task": tasks.get(each.agent_info or ""),
            "for_task": tasks.get(each.for_agent_info or ""),
        }

    return answer({"rows": [shown(each) for each in waits]})


@router.get("/transactions/of")
def list_transactions_of(
    metastore: Warehouse,
    agent: Annotated[str, Query(max_length=1000)] = "",
    txn_id: Annotated[list[int] | None, Query(max_length=_MOST_IDS)] = None,
) -> JSONResponse:
    """Return transactions in any state: the transactions of a task (``agent``), and transactions with given ids.

    ``ended`` has the given ids whose records were deleted. ``directories`` has the directories that the transactions
    have written.
    """
    wanted = [each for each in txn_id or () if 0 < each < 2**63]
    found = metastore.transaction_listing.of_agents([agent] if agent else [], wanted)
    tasks = tasks_of(each.transaction.agent_info for each in found)
    ids = {each.transaction.id for each in found}
    rows = [
        {
            **document(each.transaction),
            "acquired": each.locks_acquired,
            "waiting": each.locks_waiting,
            "task": tasks.get(each.transaction.agent_info or ""),
        }
        for each in reversed(found)
    ]
    written = metastore.commits.directories_of(sorted(ids.union(wanted)), _MOST_DIRECTORIES)
    return answer({"rows": rows, "ended": sorted(set(wanted) - ids), "directories": written})


@router.get("/cleaning")
def plan_cleaning(metastore: Warehouse) -> JSONResponse:
    """Return the files that the cleaner would delete now, and the files that the cleaner keeps for readers."""
    tasks = metastore.compactor.plan_clean()
    rows = [
        {
            "compaction_id": each.compaction_id,
            "name": f"{each.database}.{each.table}" + (f" {each.partition}" if each.partition else ""),
            "outcome": each.outcome,
            "deletable": len(each.deleted),
            "kept": each.waiting[:20],
            "kept_in_all": len(each.waiting),
            "blockers": each.blockers[:20],
            "message": each.message,
        }
        for each in tasks
        if each.waiting or each.blockers or each.message
    ]
    return answer({"rows": rows[:200], "total": len(rows)})


@router.post("/transactions/abort")
def abort_transaction(metastore: Warehouse, user: Editor, conn_id: ConnectionId, wanted: Abort) -> JSONResponse:
    """Abort a transaction. Its writes never become visible, and its locks are released."""
    reason = f"aborted by {user.get_name()} in the Airflow UI" + (f": {wanted.reason}" if wanted.reason else "")
    with recorded(user, "abort_transaction", conn_id, {"txn_id": wanted.txn_id, "reason": wanted.reason}):
        metastore.abort(wanted.txn_id, reason)
    return answer({"message": f"Transaction {wanted.txn_id} is aborted."})


@router.post("/locks/release")
def release_lock(metastore: Warehouse, user: Editor, conn_id: ConnectionId, wanted: Release) -> JSONResponse:
    """Release the locks of a request that waits, or of a request without a transaction.

    To release the acquired locks of a transaction, abort the transaction.
    """
    with recorded(user, "release_lock", conn_id, {"lock_id": wanted.lock_id}):
        held = metastore.locks.show(lock_id=wanted.lock_id)
        if not held:
            raise InvalidOperationError(
                "The release of", f"lock {wanted.lock_id}", "it has been released already; refresh the list"
            )
        metastore.locks.unlock(wanted.lock_id)
    return answer({"message": f"Lock {wanted.lock_id} is released."})
