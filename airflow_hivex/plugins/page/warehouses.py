"""The warehouses that the page shows: connections of the type ``hivex``, and their open metastores."""

from __future__ import annotations

import json
import os
from typing import Annotated

from airflow.models.connection import Connection
from airflow.utils.session import create_session
from fastapi import Depends
from sqlalchemy import select

from airflow_hivex.core.errors import StoreMissingError, StoreTooNewError, StoreTooOldError
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.hooks.configuration import CONNECTION_TYPE
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.plugins.page.access import ConnectionId, Viewer

_VARIABLE = "AIRFLOW_CONN_"
_opened: set[str] = set()


def connection_ids() -> list[str]:
    """Return the ids of the connections of the type ``hivex`` in Airflow's database and in the environment.

    Connections of a secrets backend cannot be listed. The default connection is always in the list, because it works
    without being defined.
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
    """Return the open metastore of a connection. The page never creates a metastore, and never upgrades one.

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
