"""The warehouses that the page shows, and the rights of users to view and to edit them.

Requests that a page of another web site sends from a user's browser are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, ConnectionDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Query, Request
from sqlalchemy import select

from airflow_hivex.core.errors import HivexError, StoreMissingError, StoreTooNewError, StoreTooOldError
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.hooks.configuration import CONNECTION_TYPE
from airflow_hivex.hooks.warehouse import WarehouseHook

ACTION_HEADER = "X-Hivex-Action"
"""A header that pages of other web sites cannot send. A browser first asks the api-server, which refuses the header."""

ConnectionId = Annotated[str, Query(alias="conn_id", min_length=1, max_length=250)]


def may_view(conn_id: ConnectionId, user: GetUserDep) -> BaseUser:
    """Return the user if the user is allowed to view the warehouse of a connection.

    The user needs the right to view Airflow's jobs, which the role Viewer includes. If Airflow has several teams, the
    user instead needs the right to read the connection.

    Raises:
        HTTPException: the user does not have the right.
    """
    manager = get_auth_manager()
    if conf.getboolean("core", "multi_team", fallback=False):
        is_allowed = _allowed_connection(manager, "GET", conn_id, user)
    else:
        is_allowed = manager.is_authorized_view(access_view=AccessView.JOBS, user=user)
    if not is_allowed:
        raise HTTPException(403, "You may not see this warehouse.")
    return user


def is_editor(conn_id: str, user: BaseUser) -> bool:
    """Return whether a user is allowed to edit a connection."""
    return _allowed_connection(get_auth_manager(), "PUT", conn_id, user)


def own_request(request: Request) -> None:
    """Refuse a request that the page itself has not sent.

    Raises:
        HTTPException: the request is not JSON, has no header ``ACTION_HEADER``, or comes from another site.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "Send the request as application/json.")
    if ACTION_HEADER not in request.headers:
        raise HTTPException(403, f"The request has no header {ACTION_HEADER}, so it is not from the page Hivex.")
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        # A proxy may change the scheme, but not the host.
        is_own = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not is_own:
        raise HTTPException(403, "The request comes from another site.")


def may_edit(conn_id: ConnectionId, user: GetUserDep, _: Annotated[None, Depends(own_request)]) -> BaseUser:
    """Return the user if the user is allowed to change the warehouse of a connection.

    Raises:
        HTTPException: the user is not allowed to edit the connection, or the page itself has not sent the request.
    """
    if not is_editor(conn_id, user):
        raise HTTPException(403, f"You may not edit the connection {conn_id}, so you may not change its warehouse.")
    return user


Viewer = Annotated[BaseUser, Depends(may_view)]
Editor = Annotated[BaseUser, Depends(may_edit)]
OWN_REQUEST = Depends(own_request)


@contextmanager
def recorded(user: BaseUser, action: str, conn_id: str, facts: dict[str, Any]) -> Iterator[Callable[..., None]]:
    """Record an action in Airflow's audit log before the block, and record the outcome after the block.

    Yields:
        A function that adds details of the outcome to the record.
    """
    extra: dict[str, Any] = {"conn_id": conn_id, **facts, "outcome": "begun"}
    entry = Log(
        event=f"hivex.{action}",
        owner=str(user.get_id()),
        owner_display_name=user.get_name(),
        extra=json.dumps(extra, default=str),
    )
    with create_session() as session:
        session.add(entry)
        session.flush()
        entry_id = entry.id
    try:
        yield lambda **more: extra.update(more)
        extra["outcome"] = "done"
    except BaseException as error:
        extra |= {"outcome": "failed", "error": str(error) if isinstance(error, HivexError) else type(error).__name__}
        raise
    finally:
        with create_session() as session:
            written = session.get(Log, entry_id)
            if written is not None:
                written.extra = json.dumps(extra, default=str)


def _allowed_connection(manager: BaseAuthManager[Any], method: Any, conn_id: str, user: BaseUser) -> bool:
    team = Connection.get_team_name(conn_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    details = ConnectionDetails(conn_id=conn_id, team_name=team)
    return bool(manager.is_authorized_connection(method=method, details=details, user=user))


_VARIABLE = "AIRFLOW_CONN_"
_opened: set[str] = set()


def connection_ids() -> list[str]:
    """Return the ids of the connections of the type ``hivex`` in Airflow's database and in the environment.

    Connections in a secrets backend are missing. The default connection is always in the list.
    """
    found = {WarehouseHook.default_conn_name}
    with create_session() as session:
        found.update(session.scalars(select(Connection.conn_id).where(Connection.conn_type == CONNECTION_TYPE)))
    for name, text in os.environ.items():
        if name.startswith(_VARIABLE) and _is_hivex(text):
            found.add(name.removeprefix(_VARIABLE).lower())
    return sorted(found, key=lambda each: (each != WarehouseHook.default_conn_name, each))


def _is_hivex(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return text.startswith(f"{CONNECTION_TYPE}:")
    try:
        return bool(json.loads(text).get("conn_type") == CONNECTION_TYPE)
    except (ValueError, RecursionError):
        return False


def open_warehouse(conn_id: ConnectionId, _: Viewer) -> Metastore:
    """Return the open metastore of a connection. No metastore is created or upgraded.

    Raises:
        StoreMissingError: the database does not have a metastore yet.
        StoreTooOldError, StoreTooNewError: the metastore has the schema of another release.
        StoreUnavailableError: the database cannot be reached.
    """
    hook = WarehouseHook(conn_id)
    configuration = hook.get_configuration()
    if configuration.key not in _opened:
        status = Metastore.status(configuration.url)
        url, revision, head = str(status["url"]), str(status["revision"]), str(status["head"])
        if status["state"] == "new":
            raise StoreMissingError(url)
        if status["state"] == "older":
            raise StoreTooOldError(url, revision, head)
        if status["state"] == "newer":
            raise StoreTooNewError(url, revision, head)
    metastore = hook.get_metastore()
    _opened.add(configuration.key)
    return metastore


Warehouse = Annotated[Metastore, Depends(open_warehouse)]
