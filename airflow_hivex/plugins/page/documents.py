"""The conversion of values of the core to JSON, and the tasks of Airflow that own transactions."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Query
from fastapi.responses import JSONResponse
from sqlalchemy import select

from airflow_hivex.core.store.paging import MOST_ROWS, Page, PageRequest

T = TypeVar("T")

_TASK = re.compile(r"(?P<name>[^\s\[]+)(?:\[(?P<map_index>\d+)\])? (?P<run_id>\S.*) (?P<try_number>\d+)")


def page_request(
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
    order_by: Annotated[str | None, Query(max_length=30)] = None,
    descending: bool = False,
    search: Annotated[str, Query(max_length=200)] = "",
) -> PageRequest:
    """Return the requested page of a list: offset, limit, order and search text."""
    return PageRequest(offset, limit, order_by, descending, search.strip().replace("\0", ""))


def answer(value: Any) -> JSONResponse:
    """Return a value as a response in JSON. Caches do not store this response."""
    return JSONResponse(document(value), headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def page(found: Page[T], shown: Callable[[T], Any]) -> dict[str, Any]:
    """Return a dict with the rows of a page and the number of all rows of the list. ``shown`` converts each row."""
    return {"rows": [shown(row) for row in found.rows], "total": found.total}


def document(value: Any) -> Any:
    """Return a value in JSON types.

    Dataclasses become dicts, enum members become words, and times become texts in ISO format.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", " ")
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: document(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {document(key): document(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [document(each) for each in value]
    return str(value)


def tasks_of(agents: Iterable[str | None]) -> dict[str, dict[str, Any]]:
    """Return a dict from agent (``hooks.tasks.agent_info``) to the task instance that the agent names. One query.

    An agent begins with ``dag_id.task_id``, and both ids can contain dots. So the known ids of DAGs are compared. For
    example, ``a.b.c`` is the task ``c`` of the DAG ``a.b`` if this DAG exists.
    """
    parsed = {agent: found for agent in agents if agent and (found := _TASK.fullmatch(agent))}
    prefixes = {prefix for found in parsed.values() for prefix in _prefixes(found["name"])}
    if not prefixes:
        return {}
    with create_session() as session:
        known = set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(prefixes))))
    tasks = {}
    for agent, found in parsed.items():
        dag_id = max((each for each in _prefixes(found["name"]) if each in known), key=len, default=None)
        if dag_id is not None:
            tasks[agent] = {
                "dag_id": dag_id,
                "task_id": found["name"][len(dag_id) + 1 :],
                "run_id": found["run_id"],
                "map_index": None if found["map_index"] is None else int(found["map_index"]),
                "try_number": int(found["try_number"]),
            }
    return tasks


def holder_of(txn_id: int | None, lock_id: int, user: str, agent: str | None) -> str:
    """Return a text that names the owner of a lock: the transaction or lock request, and the task or user."""
    name = f"transaction {txn_id}" if txn_id else f"lock {lock_id}"
    return f"{name} of {owner_name(user, agent)}"


def owner_name(user: str, agent: str | None) -> str:
    """Return the task of an owner as ``task dag_id.task_id``, or the user if the owner is not a task."""
    parsed = _TASK.fullmatch(agent or "")
    return f"task {parsed['name']}" if parsed else user


def _prefixes(name: str) -> list[str]:
    return [name[: place.start()] for place in re.finditer(r"\.", name) if place.start()]
