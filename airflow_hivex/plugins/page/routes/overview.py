"""The overview: the numbers of the warehouse, and the things that need attention."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.attention import BlockedRequest, Situation, judge
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.plugins.page.documents import answer, document, holder_of, tasks_of
from airflow_hivex.plugins.page.warehouses import Warehouse

router = APIRouter()


@router.get("/overview")
def read_overview(metastore: Warehouse) -> JSONResponse:
    """Return the numbers of transactions, lock requests and compactions, and warnings. It does not call a cluster."""
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
    """Return the number of tables and bytes of each cluster. The query reads all registered directories."""
    rows: list[Any] = [document(each) for each in metastore.catalog_listing.clusters()]
    return answer({"rows": rows})


def _health(metastore: Metastore, cluster: str) -> Health:
    health = metastore.services.health
    root = health.of_root(cluster)
    return root if root.problem is not None else health.of_runner(cluster)
