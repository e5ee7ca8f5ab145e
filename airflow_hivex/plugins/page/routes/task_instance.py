"""The routes of a task instance: its transactions in a warehouse, with locks, rows and directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import JSONResponse

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.hooks.tasks import agent_of
from airflow_hivex.hooks.warehouse import split_statements
from airflow_hivex.plugins.page.access import Warehouse
from airflow_hivex.plugins.page.documents import answer, document

router = APIRouter()
_MOST_TRIES = 100
_MOST_ROWS = 200
_TRANSACTION_FIELDS = ("transaction", "txn_id")
_TEXTS = ("hivex_conn_id", "database", "cluster")
Id = Annotated[str, Query(min_length=1, max_length=250)]
MapIndex = Annotated[int, Query(ge=-1, lt=2**31)]


@dataclass(frozen=True, slots=True)
class TaskWork:
    """The rendered fields of a task instance, and the names under which its tries own transactions."""

    fields: Mapping[str, Any]
    agents: Sequence[str]

    @property
    def txn_ids(self) -> list[int]:
        """Return a list with the id of the transaction that the task has joined, or an empty list."""
        found = (self.fields.get(name) for name in _TRANSACTION_FIELDS)
        return [int(each) for each in found if isinstance(each, int | str) and str(each).isdecimal()]

    @property
    def statements(self) -> list[str]:
        """Return the statements of the task. A script that Airflow has truncated counts as one statement."""
        sql = self.fields.get("sql")
        texts = [sql] if isinstance(sql, str) else [each for each in sql or () if isinstance(each, str)]
        try:
            return split_statements(texts)
        except HivexError:
            return texts


def may_see_tasks(user: BaseUser, dag_id: str) -> bool:
    """Return whether the user can see the task instances of a DAG."""
    team = DagModel.get_team_name(dag_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    return get_auth_manager().is_authorized_dag(
        method="GET",
        access_entity=DagAccessEntity.TASK_INSTANCE,
        details=DagDetails(id=dag_id, team_name=team),
        user=user,
    )


def visible_task(user: GetUserDep, dag_id: Id, run_id: Id, task_id: Id, map_index: MapIndex = -1) -> TaskWork:
    """Return the fields of a task instance, and the names of its tries, if the user can see the task instance.

    Raises:
        HTTPException: the user is not allowed to see the task instance, or the task instance does not exist.
    """
    if not may_see_tasks(user, dag_id):
        raise HTTPException(403, "You may not see this task instance.")
    key = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
    with create_session() as session:
        found = session.query(TaskInstance.try_number).filter_by(**key).one_or_none()
        rendered = session.query(RenderedTaskInstanceFields.rendered_fields).filter_by(**key).one_or_none()
    if found is None:
        raise HTTPException(404, "There is no such task instance.")
    tries = range(1, min(found[0] or 0, _MOST_TRIES) + 1)
    agents = [agent_of(dag_id, task_id, map_index, run_id, number) for number in tries]
    return TaskWork(dict(rendered[0]) if rendered is not None else {}, agents)


Task = Annotated[TaskWork, Depends(visible_task)]


@router.get("/task/fields")
def read_fields(task: Task) -> JSONResponse:
    """Return the connection, database, cluster and statements of a task. A missing field is null."""
    texts = {name: task.fields.get(name) for name in _TEXTS}
    shown = {name: text if isinstance(text, str) and text else None for name, text in texts.items()}
    return answer({**shown, "statements": task.statements})


@router.get("/task")
def read_task(metastore: Warehouse, task: Task) -> JSONResponse:
    """Return the transactions of all tries of a task, with their locks and written directories."""
    listed = metastore.transaction_listing.of_agents(task.agents, task.txn_ids)
    ids = [each.transaction.id for each in listed]
    locks = [
        {
            **document(lock),
            "component": None,
            "resource": lock.component.resource,
            "name": lock.component.shown,
            "type": document(lock.component.type),
        }
        for each in listed
        if each.locks_acquired or each.locks_waiting
        for lock in metastore.transaction_listing.locks(PageRequest(), each.transaction.id).rows
    ]
    written = metastore.commits.directories_of(ids, _MOST_ROWS)
    return answer(
        {
            "transactions": [
                {**document(each.transaction), "acquired": each.locks_acquired, "waiting": each.locks_waiting}
                for each in listed
            ],
            "locks": locks,
            "directories": written,
        }
    )
