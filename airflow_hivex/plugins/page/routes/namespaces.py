"""The routes of namespaces: bytes on each cluster, quotas, links, and whether a namespace is closed."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Annotated

from cachetools import TTLCache
from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.attention import Situation, judge
from airflow_hivex.core.namespaces.capacity import Capacity
from airflow_hivex.plugins.page.access import Warehouse
from airflow_hivex.plugins.page.documents import answer, document

router = APIRouter()
Namespace = Annotated[str, Query(min_length=1, max_length=128)]
_MOST_ROWS = 500
_MOST_LINKS = 500


# The computation reads each registered directory, and an open page requests it every few seconds.
_remembered: TTLCache[str, list[Capacity]] = TTLCache(maxsize=100, ttl=60)
_lock = threading.Lock()
# One lock for each metastore: a slow one must not block the others.
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def _capacities(metastore: Metastore) -> list[Capacity]:
    """Return the bytes of each namespace on each cluster. The numbers are at most a minute old."""
    url = metastore.services.store.name
    with _locks[url]:
        with _lock:
            found = _remembered.get(url)
        if found is None:
            found = metastore.capacity.show()
            with _lock:
                _remembered[url] = found
        return found


@router.get("/namespaces")
def list_namespaces(metastore: Warehouse) -> JSONResponse:
    """Return the bytes of each namespace on each cluster, the links, and the quotas that are nearly used up."""
    capacities = _capacities(metastore)
    rows = [
        {**document(each), "used_bytes": each.used_bytes, "status": each.status, **document(each.amounts)}
        for each in capacities
    ]
    near = [
        (
            each.status == "exceeded",
            f"Namespace {each.namespace} holds {each.used_bytes:,} of {each.quota.size_bytes:,} bytes on cluster "
            f"{each.cluster}.",
        )
        for each in capacities
        if each.quota is not None and each.status in ("warning", "exceeded")
    ]
    links = metastore.links.show_all()
    shown = [
        {
            "namespace": each.name.database,
            "link": each.name.in_database,
            "source": f"{each.source[0]}.{each.source[1]}",
            "source_namespace": each.source[0],
            "type": each.type,
        }
        for each in links[:_MOST_LINKS]
    ]
    now = metastore.transaction_listing.counts().now
    return answer(
        {
            "rows": rows[:_MOST_ROWS],
            "total": len(rows),
            "links": shown,
            "links_in_all": len(links),
            "attention": judge(Situation(now=now, quotas=near)),
        }
    )


@router.get("/namespace")
def read_namespace(metastore: Warehouse, namespace: Namespace) -> JSONResponse:
    """Return the dependencies of a namespace, its bytes per cluster and day, and whether the namespace is closed."""
    closure = metastore.namespaces.check(namespace)
    history = metastore.capacity.history(namespace)
    return answer(
        {
            "namespace": closure.namespace,
            "mode": metastore.namespaces.is_closed(namespace),
            "is_closed": closure.is_closed,
            "is_self_contained": closure.is_self_contained,
            "dependencies": closure.dependencies[:_MOST_ROWS],
            "imports": closure.imports[:_MOST_ROWS],
            "history": [
                {
                    "day": each.day,
                    "cluster": each.cluster,
                    "bytes": each.amounts.owned_bytes,
                    "secondary_bytes": each.amounts.secondary_bytes,
                }
                for each in history[-2000:]
            ],
        }
    )
