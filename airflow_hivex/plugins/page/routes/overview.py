"""The routes of the overview: numbers, warnings, the cache, connections and routes of statements."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.attention import BlockedRequest, Situation, judge
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.model.routes import Route
from airflow_hivex.plugins.page.access import OWN_REQUEST, Viewer, Warehouse, connection_ids, is_editor, may_view
from airflow_hivex.plugins.page.documents import answer, document, holder_of, tasks_of

router = APIRouter()


@router.get("/overview")
def read_overview(metastore: Warehouse) -> JSONResponse:
    """Return the numbers of transactions, lock requests and compactions, and warnings. No cluster is called."""
    counts = metastore.transaction_listing.counts()
    compactions = metastore.compaction_listing.counts()
    wait = next(iter(metastore.transaction_listing.waits(1)), None) if counts.waiting else None
    blocked = None
    if wait is not None:
        by = holder_of(wait.txn_id, wait.lock_id, wait.user, wait.agent_info)
        holder = holder_of(wait.for_txn_id, wait.for_lock_id, wait.for_user, wait.for_agent_info)
        blocked = BlockedRequest(wait.name, by, holder)
    situation = Situation(
        now=counts.now,
        open=counts.open,
        oldest=counts.oldest,
        waiting=counts.waiting,
        oldest_request_at=counts.oldest_request_at if wait is None else wait.since,
        blocked=blocked,
        in_queue=compactions.queue.get(CompactionState.INITIATED, 0),
        oldest_enqueued_at=compactions.oldest_enqueued_at,
        failed_compactions=compactions.failed,
        last_failed=compactions.last_failed,
    )
    oldest = counts.oldest
    return answer(
        {
            "now": counts.now,
            "open": counts.open,
            "oldest": oldest,
            "oldest_task": None if oldest is None else tasks_of([oldest.agent_info]).get(oldest.agent_info or ""),
            "waiting": counts.waiting,
            "blocked": None if blocked is None else {**document(blocked), "table": blocked.table},
            "queue": compactions.queue,
            "failed": compactions.failed,
            "attention": judge(situation),
        }
    )


@router.get("/clusters")
def read_clusters(metastore: Warehouse) -> JSONResponse:
    """Return the clusters with their health. The call takes up to five seconds if a cluster does not answer."""
    clusters = [metastore.clusters.get(name) for name in metastore.clusters]
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        healths = list(pool.map(lambda cluster: _health(metastore, cluster.name), clusters))
    counts = metastore.transaction_listing.counts()
    rows = [
        {
            "cluster": cluster.name,
            "filesystem": cluster.shown_filesystem,
            "jobtracker": cluster.shown_jobtracker,
            "is_default": cluster.name == metastore.clusters.default,
            "spark_version": health.version,
            "problem": None if health.problem is None else str(health.problem),
        }
        for cluster, health in zip(clusters, healths, strict=True)
    ]
    named = {cluster.name: health for cluster, health in zip(clusters, healths, strict=True)}
    return answer({"rows": rows, "attention": judge(Situation(now=counts.now, clusters=named))})


@router.get("/storage")
def read_storage(metastore: Warehouse) -> JSONResponse:
    """Return the numbers of tables and bytes on each cluster. The query reads all registered directories."""
    rows: list[Any] = [document(each) for each in metastore.catalog_listing.clusters()]
    return answer({"rows": rows})


def _health(metastore: Metastore, cluster: str) -> Health:
    health = metastore.services.health
    root = health.of_root(cluster)
    return root if root.problem is not None else health.of_runner(cluster)


@router.get("/cache")
def read_cache(metastore: Warehouse) -> JSONResponse:
    """Return the state of this process's cache, and of the cache of each process that follows the notification log."""
    others = [document(each) for each in metastore.registered_caches()[:100]]
    if metastore.cache is None:
        return answer({"process_id": os.getpid(), "own": None, "others": others})
    state = metastore.cache.state()
    hits = sum(state.hits.values())
    misses = sum(state.misses.values())
    own = {
        "tables": state.tables,
        "used_bytes": state.used_bytes,
        "most_bytes": state.most_bytes,
        "hits": hits,
        "misses": misses,
        "hits_by_kind": [{"kind": kind, "count": count} for kind, count in state.hits.items()],
        "misses_by_reason": [
            {"kind": kind, "reason": reason, "count": count} for (kind, reason), count in state.misses.items()
        ],
        "recent": state.recent_misses,
        "events": state.events,
        "resynchronizations": state.resynchronizations,
        "lag": state.lag,
    }
    return answer({"process_id": os.getpid(), "own": own, "others": others})


@router.get("/connections")
def list_connections(user: GetUserDep) -> JSONResponse:
    """Return the connections whose warehouses the user can view, and whether the user can edit each connection."""
    shown = []
    for conn_id in connection_ids():
        try:
            may_view(conn_id, user)
        except HTTPException:
            continue
        shown.append({"conn_id": conn_id, "may_edit": is_editor(conn_id, user)})
    return answer({"connections": shown, "user": user.get_name()})


class Question(BaseModel):
    """A statement, and the session that would run it."""

    statement: str = Field(min_length=1, max_length=200_000)
    database: str = Field(default="default", min_length=1, max_length=128)
    cluster: str | None = Field(default=None, max_length=128)


@router.post("/route", dependencies=[OWN_REQUEST])
def explain_route(metastore: Warehouse, user: Viewer, question: Question) -> JSONResponse:
    """Return the route that a statement would take now.

    The statement is not run. With POST the statement can be long.
    """
    with metastore.session(
        user=user.get_name()[:128] or "airflow", database=question.database, cluster=question.cluster or None
    ) as session:
        return answer(_shown(session.explain(question.statement)))


def _shown(route: Route) -> dict[str, object]:
    return {
        "cluster": route.cluster,
        "reason": route.reason,
        "alternative": route.alternative,
        "candidates": [
            {"cluster": each.cluster, "why": each.why, "lacks": [lack.describe() for lack in each.lacks]}
            for each in route.candidates
        ],
    }
