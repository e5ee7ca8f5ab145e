"""The hook that opens the metastore of an Airflow connection, without the provider common.sql.

Operators, sensors and triggers use this hook. So a DAG file does not import common.sql.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from airflow.sdk import BaseHook, get_current_context
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret, redact  # type: ignore[attr-defined]

from airflow_hivex.core.errors import (
    HivexError,
    InvalidConnectionError,
    InvalidOperationError,
    StatementSyntaxError,
)
from airflow_hivex.core.errors.secrets import MASKERS, secrets_of, secrets_of_uri
from airflow_hivex.hooks import spark_connections
from airflow_hivex.hooks.configuration import CONNECTION_TYPE, embedded_configuration, from_connection
from airflow_hivex.hooks.tasks import part_name, task_try

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.ended_statements import TaskTry
    from airflow_hivex.core.session import Session
    from airflow_hivex.hooks.configuration import Configuration


def _mask_as_airflow(text: str) -> str:
    return str(redact(text))


MASKERS.append(_mask_as_airflow)


class _Part(NamedTuple):
    """The part of a transaction that belongs to one try of a task. ``name`` is the name of the part."""

    metastore: str
    txn_id: int
    name: str
    try_number: int


_metastores: dict[str, Metastore] = {}
_metastores_lock = threading.Lock()
# One lock for each configuration, held while its metastore is opened: a database that hangs must not block the others.
_openings: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_joined: set[_Part] = set()
# The embedded warehouses that the log of this process has named.
_announced: set[str] = set()
_metastores_of_parents: list[dict[str, Metastore]] = []


def share_metastore(configuration: Configuration, metastore: Metastore) -> None:
    """Make the hooks of this process use ``metastore`` for a configuration. :func:`close_metastores` closes it.

    If hooks have already opened another metastore for the configuration, this other metastore is closed. A caller can
    still use the closed metastore, because it opens new connections when it is used.
    """
    with _metastores_lock:
        replaced = _metastores.get(configuration.key)
        _metastores[configuration.key] = metastore
    if replaced is not None:
        replaced.close()


def close_metastores() -> None:
    """Close all metastores that hooks have opened in this process. A hook that needs a metastore opens it again."""
    with _metastores_lock:
        while _metastores:
            _metastores.popitem()[1].close()


def _leave_metastores_to_parent() -> None:
    # A forked process shares the sockets of its parent: using or even closing them here would break the
    # parent's connections. So the child keeps these metastores, unused, and opens its own.
    global _metastores, _metastores_lock
    _metastores_of_parents.append(_metastores)
    _metastores = {}
    _metastores_lock = threading.Lock()
    _openings.clear()
    _announced.clear()


atexit.register(close_metastores)
os.register_at_fork(after_in_child=_leave_metastores_to_parent)


def split_statements(sql: str | Sequence[str]) -> list[str]:
    """Return the statements of one or several scripts. The list has at least one statement.

    :raises StatementSyntaxError: the scripts have no statement, or a script cannot be split
    """
    from airflow_hivex.core.parser.reader import split

    scripts = [sql] if isinstance(sql, str) else list(sql)
    statements = [statement for script in scripts for statement in split(script)]
    if not statements:
        raise StatementSyntaxError("there is no statement to run", 1, 1)
    return statements


class WarehouseHook(BaseHook):
    """The hook of a connection of type ``hivex``. The subclass HivexHook adds the methods of a DbApiHook.

    If the connection ``hivex_default`` does not exist, the hook uses an embedded warehouse: SQLite and one cluster
    ``local`` under ``$AIRFLOW_HOME/hivex``.

    :param hivex_conn_id: the id of the connection
    """

    conn_name_attr = "hivex_conn_id"
    default_conn_name = "hivex_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Hivex Metastore"

    def __init__(self, hivex_conn_id: str = default_conn_name, *, logger_name: str | None = None) -> None:
        super().__init__(logger_name=logger_name)
        self.hivex_conn_id = hivex_conn_id

    def get_configuration(self) -> Configuration:
        """Return the checked configuration of the connection. No metastore is opened.

        :raises InvalidConnectionError: the connection exists, but cannot be used
        :raises AirflowNotFoundException: a connection other than ``hivex_default`` does not exist
        """
        try:
            connection = self.get_connection(self.hivex_conn_id)
        except AirflowNotFoundException:
            if self.hivex_conn_id != self.default_conn_name:
                raise
            # Airflow skips a connection that it cannot parse, as if the connection did not exist.
            variable = f"AIRFLOW_CONN_{self.hivex_conn_id.upper()}"
            if variable in os.environ:
                raise InvalidConnectionError(
                    self.hivex_conn_id, f"the text in {variable} is neither connection JSON nor a connection URI"
                ) from None
            configuration = embedded_configuration()
            self._announce(configuration.url)
            return configuration
        configuration = from_connection(connection)
        _mask_secrets(configuration)
        return configuration

    def get_metastore(self) -> Metastore:
        """Return the metastore.

        The first call in a process opens the metastore. Do not close it, because all hooks share the metastore.
        """
        return self._open(self.get_configuration())

    def get_existing_metastore(self) -> Metastore:
        """Return the metastore as :meth:`get_metastore` does, but never create a metastore.

        :raises StoreMissingError: the database does not have a metastore yet
        """
        from airflow_hivex.core.metastore import Metastore

        configuration = self.get_configuration()
        if configuration.key not in _metastores:
            Metastore.check_exists(configuration.url)
        return self._open(configuration)

    def session(
        self,
        *,
        user: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        agent_info: str | TaskTry | None = None,
        txn_id: int | None = None,
        writer: str | None = None,
        max_lag: float | str | None = None,
        max_lag_commits: int | str | None = None,
        server_jobs_only: bool = False,
    ) -> Session:
        """Return a new session, which is also a context manager.

        With ``txn_id`` all statements of the session are a part of this open transaction. Another task ends the
        transaction. To get the id, pass ``HivexTransaction.txn_id`` to the task as an argument.

        :param user: the owner of the session's transactions, and of the objects that its statements create
        :param database: the current database; None for the database of the connection
        :param cluster: the cluster that runs all statements, as USE CLUSTER does; None: the router chooses
        :param agent_info: the text that is shown as the agent of the session's transactions and locks, or the try of a
            task (``hooks.tasks.task_try``); in a task, the default is its own try
        :param txn_id: the open transaction to join
        :param writer: the name of the session's part of that transaction. If another session has already written with
            the same name, its writes are discarded. The default is the name of the task: a retry then replaces the
            writes of the previous try, and only one session of a try can join the transaction
        :param max_lag: the largest lag of copies that queries accept, in seconds or as a text such as ``10min``
        :param max_lag_commits: the largest lag of copies that queries accept, in commits
        :param server_jobs_only: whether to refuse statements whose jobs would run in this process
        :raises InvalidOperationError: another session of this try has already joined the transaction, and this session
            would discard its writes
        """
        configuration = self.get_configuration()
        part = _part_of_task(configuration, txn_id) if txn_id is not None and writer is None else None
        session = self._open(configuration).session(
            user=user,
            database=database or configuration.database,
            cluster=cluster or None,
            agent_info=_try_of_task() if agent_info is None else agent_info,
            txn_id=txn_id,
            writer=writer if part is None else part.name,
            max_lag=max_lag,
            max_lag_commits=max_lag_commits,
            server_jobs_only=server_jobs_only,
        )
        if part is not None:
            _joined.add(part)
        return session

    def test_connection(self) -> tuple[bool, str]:
        """Return a pair: whether the metastore's database and all clusters can be used, and a text about each of them.

        A missing metastore is not created.
        """
        from airflow_hivex.core.metastore import Metastore
        from airflow_hivex.core.opening import describe

        spark_connections.register()
        try:
            configuration = self.get_configuration()
            return describe(
                Metastore.check(
                    configuration.url,
                    clusters=configuration.clusters,
                    default_cluster=configuration.default_cluster,
                    settings=configuration.of_metastore,
                )
            )
        except (HivexError, AirflowNotFoundException) as error:
            return False, str(error)

    def _announce(self, url: str) -> None:
        """Log that the embedded warehouse is used. Log this only once in a process."""
        with _metastores_lock:
            is_known = url in _announced
            _announced.add(url)
        if not is_known:
            self.log.info("There is no connection %s; the embedded warehouse is used: %s", self.hivex_conn_id, url)

    @staticmethod
    def _open(configuration: Configuration) -> Metastore:
        # The import loads SQLAlchemy and sqlglot, which take too long for a process that only reads a DAG file.
        from airflow_hivex.core.metastore import Metastore

        # Under Airflow, where the root logger is at INFO, py4j logs every connection to the JVM.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        spark_connections.register()
        key = configuration.key
        with _metastores_lock:
            opening = _openings[key]
        with opening:
            with _metastores_lock:
                metastore = _metastores.get(key)
            if metastore is not None:
                return metastore
            opened = Metastore.open(
                configuration.url,
                clusters=configuration.clusters,
                default_cluster=configuration.default_cluster,
                settings=configuration.of_metastore,
            )
            with _metastores_lock:
                # Another thread may have shared one meanwhile.
                metastore = _metastores.setdefault(key, opened)
        if metastore is not opened:
            opened.close()
        return metastore


def _try_of_task() -> TaskTry | None:
    try:
        return task_try(get_current_context())
    except RuntimeError:
        # Outside of tasks.
        return None


def _part_of_task(configuration: Configuration, txn_id: int) -> _Part | None:
    """Return the part of a transaction that belongs to the running task, or None if no task runs.

    :raises InvalidOperationError: another session of this try has joined the transaction already
    """
    try:
        context = get_current_context()
    except RuntimeError:
        return None
    part = _Part(configuration.key, txn_id, part_name(context), context["ti"].try_number)
    if part in _joined:
        raise InvalidOperationError(
            "A second session of",
            f"transaction {txn_id} in task {context['ti'].task_id}",
            "it would discard what the first has written; run all statements in one session, "
            "or give each a writer= of its own",
        )
    return part


def _mask_secrets(configuration: Configuration) -> None:
    """Make Airflow hide the secrets of a configuration in its logs, rendered fields and results."""
    found = secrets_of_uri(configuration.url)
    if isinstance(configuration.clusters, Mapping):
        found += secrets_of(configuration.clusters)
    elif configuration.clusters and configuration.clusters.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            # A text that is not JSON is refused when the metastore is opened.
            found += secrets_of(json.loads(configuration.clusters))
    for secret in found:
        mask_secret(secret)
        mask_secret(unquote(secret))
