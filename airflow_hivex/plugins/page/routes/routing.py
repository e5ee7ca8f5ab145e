"""Routing: the cluster that would run a statement, and the tables that each candidate lacks."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from airflow_hivex.core.model.routes import Route
from airflow_hivex.plugins.page.access import OWN_REQUEST, Viewer
from airflow_hivex.plugins.page.documents import answer
from airflow_hivex.plugins.page.warehouses import Warehouse

router = APIRouter()


class Question(BaseModel):
    """A statement, and the session that would run it."""

    statement: str = Field(min_length=1, max_length=200_000)
    database: str = Field(default="default", min_length=1, max_length=128)
    cluster: str | None = Field(default=None, max_length=128)


@router.post("/route", dependencies=[OWN_REQUEST])
def explain_route(metastore: Warehouse, user: Viewer, question: Question) -> JSONResponse:
    """Return the route that a statement would take now, without running it. A POST allows long statements."""
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
