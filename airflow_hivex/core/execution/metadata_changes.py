"""A change of a table's metadata in the catalog, in a transaction of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList, StateOf
from airflow_hivex.core.catalog.table_rows import lock_as_named
from airflow_hivex.core.errors import InvalidObjectError, StorageError, StoreError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.folder_owners import linked_owner, owner_elsewhere, real_path
from airflow_hivex.core.execution.locking import acquire, commit_at_once
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import TEMPORARY_DATABASE, StoredTable, Table
from airflow_hivex.core.settings import NAMESPACE_MODE
from airflow_hivex.core.transactions import allocation, commit_record

log = logging.getLogger(__name__)

_PATTERN = re.compile(r"[*?\[\]{}]")
# Spark reads and writes no files below such a folder, without an error.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def change_metadata(
    context: StatementContext,
    table: StoredTable,
    locks: Sequence[LockComponent],
    change: Callable[[Connection, GivenList, int | None], None],
    before: Callable[[Running], None] | None = None,
) -> Result:
    """Acquire ``locks`` and apply a change of metadata, in the commit of the change's own transaction.

    On a transactional table the change has a write id, by which caches notice the change. ``before`` is called after
    the locks are acquired and before the change. If ``before`` adds functions to ``Running.undo``, they are called if
    the change fails.
    """
    services = context.services
    if before is None and not table.is_transactional:

        def plain(connection: Connection) -> None:
            lock_as_named(connection, table)
            change(connection, None, None)

        txn_id = commit_at_once(context, locks, plain)
        if txn_id is not None:
            return Result(txn_id=txn_id)
    with own_transaction(context) as running:
        acquire(context, running, locks)
        if before is not None:
            before(running)

        services.transactions.commit(
            running.txn_id, lambda connection: apply_change(context, connection, running, table, change)
        )
        return Result(txn_id=running.txn_id)


def apply_change(
    context: StatementContext,
    connection: Connection,
    running: Running,
    table: StoredTable,
    change: Callable[[Connection, GivenList, int | None], None],
) -> None:
    """Apply a change of metadata in the commit of a transaction that holds the locks for the change.

    Raises:
        NoSuchTableError: the table was dropped meanwhile, or has another name.
    """
    # The table's row first, then the row of its write ids: all transactions lock them in this order.
    lock_as_named(connection, table)
    if not table.is_transactional:
        change(connection, None, None)
        return
    allocation.allocate_later(connection, running.txn_id, table.id)
    if context.kind:
        commit_record.note_operation(connection, table.id, context.kind)
    change(connection, StateOf.OF_TXN, running.txn_id)


def forget_dropped(name: str, forget: Callable[[], None]) -> None:
    """Remove a dropped object's records from the metastore after the commit. A failure is only logged."""
    try:
        forget()
    except StoreError as error:
        log.warning("Rows of what was dropped, such as %s, are still in the metastore: %s", name, error)


def check_location(
    context: StatementContext,
    kind: str,
    name: str,
    location: str | None,
    namespace: str,
    cluster: Cluster | None = None,
    *,
    is_external: bool = False,
    is_closed: bool = False,
) -> None:
    """Refuse a location that an object of a namespace cannot have on a cluster.

    If ``cluster`` is None, the location is on the default cluster. ``is_closed`` says that the namespace does not exist
    yet, and will be closed. With ``is_external`` a location that is a pattern, such as ``data/*``, is refused, unless a
    folder has exactly this name. If the file system of the cluster does not answer, the location is accepted;
    statements that read there report the problem.

    Raises:
        InvalidObjectError: the location is the root, a file or a pattern; or symbolic links lead out of the cluster's
            root, or to files of another table, or to files of another namespace if one of the two namespaces is closed.
        LocationOutsideClusterError: the location is outside of the cluster's root.
    """
    if location is None:
        return
    services = context.services
    place = cluster or services.clusters.get(services.clusters.default)
    relative = place.relative(location) if location.strip("/.") else ""
    if not relative:
        raise InvalidObjectError(kind, name, f"location {location!r} names no folder of its own")
    if _CONTROL.search(location):
        raise InvalidObjectError(kind, name, f"location {location!r} has a control character; name another folder")
    try:
        files = services.files(place)
        target = files.link_target(relative)
        is_file, exists = files.is_file(relative), files.exists(relative)
    except StorageError:
        return
    owner = None
    if target is None and kind != "database":
        owner = linked_owner(services, files, relative, place.uri(relative), only_managed=is_external)
    if target is None:
        check_shared(context, kind, name, relative, namespace, place, is_closed=is_closed)
    if target is not None:
        reason = f"location {location!r} leads by symbolic links to {target}, out of the root of cluster {place.name}"
    elif owner is not None:
        reason = f"location {location!r} leads by symbolic links to the files of {owner}"
    elif is_file:
        reason = f"location {location!r} is a file; name the folder that it is in"
    elif is_external and not exists and _PATTERN.search(location):
        reason = f"location {location!r} is a pattern, and a location names one folder; add a partition for each folder"
    else:
        return
    raise InvalidObjectError(kind, name, reason)


def check_links(
    context: StatementContext, kind: str, name: str, location: str, namespace: str, cluster: Cluster
) -> None:
    """Refuse a partition's folder if symbolic links lead to another namespace, and one of the two is closed.

    A folder without symbolic links is not checked.

    Raises:
        InvalidObjectError: symbolic links lead to another namespace's folder.
    """
    files = context.services.files(cluster)
    real, root = real_path(files, location), real_path(files, "")
    if real is not None and root is not None and real != root.joinpath(*location.split("/")):
        check_shared(context, kind, name, location, namespace, cluster)


def check_shared(
    context: StatementContext,
    kind: str,
    name: str,
    location: str,
    namespace: str,
    cluster: Cluster,
    *,
    is_closed: bool = False,
) -> None:
    """Refuse a location that leads by symbolic links to another namespace, if one of the two is closed.

    Raises:
        InvalidObjectError: the location leads to a folder of another namespace.
    """
    services = context.services
    files = services.files(cluster)
    uri = cluster.uri(location)
    if namespace == TEMPORARY_DATABASE:
        namespace = context.session.database
    elsewhere = owner_elsewhere(services, files, namespace, location, uri, is_closed=is_closed)
    if elsewhere is not None:
        reason = (
            f"location {location!r} is not apart from that of {elsewhere}, and a folder belongs to one namespace where "
            f"namespaces are closed ({NAMESPACE_MODE})"
        )
        raise InvalidObjectError(kind, name, reason)


class ColumnsChangedError(Exception):
    """The columns of the table have changed since the statement was planned."""


@dataclass(frozen=True, slots=True)
class SchemaMerge:
    """The addition of columns by a statement: the target table without and with these columns."""

    before: StoredTable
    after: Table

    def locks(self, context: StatementContext) -> Sequence[LockComponent]:
        """Return the lock under which no other statement changes the columns."""
        return context.services.statement_locks.merge_schema(self.before)

    def merged(self, table: StoredTable) -> StoredTable:
        """Return ``table`` with the added columns. The statement must hold the lock of :meth:`locks`.

        Raises:
            ColumnsChangedError: another statement has changed the columns of the table, or has replaced the table.
        """
        if (table.id, table.columns, table.partition_keys) != (
            self.before.id,
            self.before.columns,
            self.before.partition_keys,
        ):
            raise ColumnsChangedError
        return self._with_columns(table)

    def storing(self, context: StatementContext, running: Running) -> Callable[[Connection], None]:
        """Return a function that stores the added columns. Call the function in the commit of the statement."""
        catalog = context.services.catalog

        def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
            catalog.joining(connection).alter_table(
                self.before.database, self.before.name, self.merged, write_ids, txn_id
            )

        return lambda connection: apply_change(context, connection, running, self.before, change)

    def _with_columns(self, table: StoredTable) -> StoredTable:
        return replace(table, storage=replace(table.storage, columns=self.after.columns))
