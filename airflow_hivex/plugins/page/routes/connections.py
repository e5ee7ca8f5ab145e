"""The connections that the page offers, and the rights of the user."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse

from airflow_hivex.plugins.page.access import is_editor, may_view
from airflow_hivex.plugins.page.documents import answer
from airflow_hivex.plugins.page.warehouses import connection_ids

router = APIRouter()


@router.get("/connections")
def list_connections(user: GetUserDep) -> JSONResponse:
    """Return the connections whose warehouses the user may view, each with the right to edit it."""
    shown = []
    for conn_id in connection_ids():
        try:
            may_view(conn_id, user)
        except HTTPException:
            continue
        shown.append({"conn_id": conn_id, "may_edit": is_editor(conn_id, user)})
    return answer({"connections": shown, "user": user.get_name()})
