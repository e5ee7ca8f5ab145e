"""The cache of metadata: hits, and the reasons of misses."""

from __future__ import annotations

import os

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_hivex.plugins.page.documents import answer, document
from airflow_hivex.plugins.page.warehouses import Warehouse

router = APIRouter()


@router.get("/cache")
def read_cache(metastore: Warehouse) -> JSONResponse:
    """Return the state of this process's cache, and the state of each process that follows the notification log."""
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
