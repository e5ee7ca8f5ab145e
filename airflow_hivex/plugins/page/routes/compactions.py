"""The routes of compactions: the queue, the history, requests, and the reasons why a table is not compacted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from airflow_hivex.core.model.compaction import Compaction, CompactionState
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.plugins.page.access import ConnectionId, Editor, Warehouse, recorded
from airflow_hivex.plugins.page.documents import answer, document, page, page_request

router = APIRouter()
Wanted = Annotated[PageRequest, Depends(page_request)]
Name = Annotated[str, Query(min_length=1, max_length=128)]
PartitionName = Annotated[str | None, Query(max_length=2000)]


class CompactionOrder(BaseModel):
    """The compaction to request."""

    database: str = Field(min_length=1, max_length=128)
    table: str = Field(min_length=1, max_length=128)
    partition: str | None = Field(default=None, max_length=2000)
    type: Literal["major", "minor", "rebalance"] = "major"


class Withdrawal(BaseModel):
    """The compaction to withdraw from the queue."""

    id: int = Field(ge=1, lt=2**63)


@router.get("/compactions")
def list_compactions(
    metastore: Warehouse, wanted: Wanted, state: Annotated[list[str] | None, Query(max_length=30)] = None
) -> JSONResponse:
    """Return one page of the list of compactions in the queue and the history."""
    states = [CompactionState.read(each) for each in state or ()]
    found = metastore.compaction_listing.compactions(wanted, states)

    kept = metastore.compaction_listing.kept_until(found.rows)

    def shown(each: Compaction) -> dict[str, Any]:
        merged_at = each.committed_at or each.ended_at
        took = merged_at - each.started_at if merged_at and each.started_at else None
        return {
            **document(each),
            "is_over": each.state.is_over,
            "duration_s": None if took is None else max(0.0, took.total_seconds()),
            "kept_until": document(kept.get(each.id)),
        }

    return answer(page(found, shown))


@router.get("/compactions/charts")
def chart_compactions(metastore: Warehouse) -> JSONResponse:
    """Return the number of compactions in each state, and the tables with the most delta directories."""
    counts = metastore.compaction_listing.counts()
    return answer({"queue": counts.queue, "failed": counts.failed, "deltas": metastore.catalog_listing.deltas()})


@router.get("/compactions/explain")
def explain_compaction(
    metastore: Warehouse, database: Name, table: Name, partition: PartitionName = None
) -> JSONResponse:
    """Return the decision of the initiator about a table or partition, with the reasons."""
    found = metastore.compactor.explain(database, table, partition or None)
    return answer(
        {
            "name": found.name,
            "answer": found.answer,
            "type": found.type,
            "checks": found.checks,
            "partitions": found.partitions,
        }
    )


@router.post("/compactions/request")
def request_compaction(
    metastore: Warehouse, user: Editor, conn_id: ConnectionId, wanted: CompactionOrder
) -> JSONResponse:
    """Request a compaction, and return whether the compaction is in the queue."""
    with recorded(user, "request_compaction", conn_id, wanted.model_dump()) as note:
        response = metastore.compactor.request(wanted.database, wanted.table, wanted.partition or None, wanted.type)
        note(compaction_id=response.id, message=response.message)
    if not response.is_accepted:
        return answer({"message": f"The request was refused: {response.message}", "is_accepted": False})
    return answer({"message": f"Compaction {response.id} is in the queue.", "is_accepted": True, "id": response.id})


@router.post("/compactions/withdraw")
def withdraw_compaction(metastore: Warehouse, user: Editor, conn_id: ConnectionId, wanted: Withdrawal) -> JSONResponse:
    """Withdraw a compaction from the queue, unless a worker has begun the compaction."""
    with recorded(user, "withdraw_compaction", conn_id, {"compaction_id": wanted.id}) as note:
        problem = metastore.compactor.abort([wanted.id])[wanted.id]
        note(message=problem)
    done = f"Compaction {wanted.id} is withdrawn."
    return answer({"message": done if problem is None else problem, "is_accepted": problem is None})
