"""The routes of the history of statements: pages of ended statements, their numbers, and the tables that grew."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.ended_statements import UNSUCCESSFUL, EndedStatement, StatementOutcome
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.core.transactions.statement_history import StatementFilter
from airflow_hivex.plugins.page.access import Warehouse
from airflow_hivex.plugins.page.documents import answer, document, page, page_request
from airflow_hivex.plugins.page.routes.task_instance import may_see_tasks

router = APIRouter()
_MS_PER_HOUR = 3_600_000
_HIDDEN = "You may not see the statements of this DAG."
Hours = Annotated[int, Query(ge=0, le=1_000_000)]
Name = Annotated[str, Query(max_length=1_000)]
Status = Annotated[str, Query(pattern=f"^(all|unsuccessful|{'|'.join(each.shown for each in StatementOutcome)})$")]


@router.get("/statements")
def list_statements(
    metastore: Warehouse,
    user: GetUserDep,
    wanted: Annotated[PageRequest, Depends(page_request)],
    hours: Hours = 0,
    status: Status = "all",
    dag_id: Name = "",
    table: Name = "",
    agent: Name = "",
) -> JSONResponse:
    """Return one page of the statements that have ended in the last ``hours``; 0 stands for all.

    ``agent`` is one try of a task. The texts of tasks that the user may not see are left out.
    """
    among = StatementFilter(
        dag_id=dag_id or None,
        table=table.strip().lower() or None,
        outcome=None if status in ("all", "unsuccessful") else StatementOutcome.read(status),
        unsuccessful=status == "unsuccessful",
        tries=[agent] if agent else (),
    )
    found = metastore.statements.page(wanted, among, _since(metastore, hours))
    dags = {each.task.dag_id for each in found.rows if each.task is not None}
    visible = {each for each in dags if may_see_tasks(user, each)}

    def shown(each: EndedStatement) -> dict[str, Any]:
        is_hidden = each.task is not None and each.task.dag_id not in visible
        return {
            **document(each),
            "seconds": each.seconds,
            "text": _HIDDEN if is_hidden else each.text,
            "error": None if is_hidden else each.error,
        }

    return answer(page(found, shown))


@router.get("/statements/summary")
def summarize(metastore: Warehouse, user: GetUserDep, hours: Hours = 0) -> JSONResponse:
    """Return the numbers of the statements of the last ``hours``, and the DAGs in the history."""
    history = metastore.statements
    counts = history.counts(_since(metastore, hours)) if history.is_on else {}
    return answer(
        {
            "retention_s": history.retention_s,
            "total": sum(counts.values()),
            "unsuccessful": sum(counts.get(each, 0) for each in UNSUCCESSFUL),
            "open": counts.get(StatementOutcome.OPEN, 0),
            "dags": [each for each in history.dags() if may_see_tasks(user, each)] if history.is_on else [],
        }
    )


@router.get("/statements/grown")
def list_grown(metastore: Warehouse, hours: Hours = 0) -> JSONResponse:
    """Return the tables whose rows have changed in the last ``hours``, first the tables with the most new rows."""
    return answer({"rows": metastore.statements.grown(_since(metastore, hours))})


def _since(metastore: Metastore, hours: int) -> int:
    return metastore.services.clock() - hours * _MS_PER_HOUR if hours else 0
