"""The versions of tables that a statement reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from airflow_hivex.core.catalog.contents import TableContents, read_contents
from airflow_hivex.core.catalog.history import read_floors, read_record
from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.model.versions import TableVersion, VersionAsOf, find_version
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.parser.reader import read_table_name
from airflow_hivex.core.transactions import snapshots
from airflow_hivex.core.transactions.shared_state import read_as_of


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """A version of a table that can be read now.

    ``floors`` is a dict from partition id to a write id. The cleaner has possibly removed directories that versions
    before this write id need.
    """

    version: TableVersion
    floors: Mapping[int | None, int]


_LEAST_KEPT_S = 3600
"""The least number of seconds for which the cleaner keeps a version that a statement of a transaction has read."""


def query_of_version(name: str, version: int | None, timestamp: datetime | str | None) -> tuple[str, dict[str, object]]:
    """Return a pair: the text and the parameters of a query of all rows of a table, in a given or the current version.

    Raises:
        StatementSyntaxError: ``name`` is not the name of a table.
        InvalidParametersError: the caller gives both a version and a time.
    """
    read_table_name(name)
    text = f"SELECT * FROM {name}"  # noqa: S608 - it was read as a name
    if version is not None and timestamp is not None:
        raise InvalidParametersError(f"version and timestamp both name a version of {name}; give one of them.")
    if version is not None:
        return f"{text} VERSION AS OF :version", {"version": version}
    if timestamp is not None:
        return f"{text} TIMESTAMP AS OF :timestamp", {"timestamp": timestamp}
    return text, {}


def find(
    context: StatementContext, snapshot: Snapshot, table: StoredTable, wanted: VersionAsOf, running: Running | None
) -> FoundVersion:
    """Return the version of a table that a statement names, if it can be read now.

    With ``running`` the version is recorded, so that the cleaner keeps its files.

    Raises:
        InvalidOperationError: the table has no versions.
        NoSuchVersionError: the table has never had this version.
        VersionExpiredError: the version cannot be read any more.
    """
    check_has_versions("VERSION AS OF", table)
    found = _find(context, snapshot, table, wanted)
    if running is None or found.version.settled_txn_id is None:
        return found
    _note_for_cleaner(context, running, table, found.version.settled_txn_id)
    return _find(context, snapshot, table, wanted)


def check_has_versions(operation: str, table: StoredTable) -> None:
    """Refuse a table that has no versions.

    Raises:
        InvalidOperationError: the table is a view, or not transactional.
    """
    if table.is_view:
        reason = "it is a view, which has no versions; name those of the tables that it reads"
    elif not table.is_transactional:
        reason = "it is not transactional, and only the present version of its files is there"
    else:
        return
    raise InvalidOperationError(operation, table.full_name, reason)


def _find(context: StatementContext, snapshot: Snapshot, table: StoredTable, wanted: VersionAsOf) -> FoundVersion:
    services = context.services
    now_ms = services.clock()
    with services.store.read() as connection:
        record = read_record(connection, table.id)
        floors = read_floors(connection, table.id)
    version = find_version(
        table.full_name,
        record,
        wanted,
        snapshot.write_ids[table.id],
        now_ms=now_ms,
        retention_ms=history_retention_ms(services.settings, table.parameters),
    )
    return FoundVersion(version, floors)


def contents_of(
    context: StatementContext, table: StoredTable, predicate: Predicate | None, clusters: frozenset[str]
) -> TableContents:
    """Return the contents of a table, read from the database without the cache, with all registered directories."""
    with context.services.store.read() as connection:
        return read_contents(connection, table, predicate, clusters)


def _note_for_cleaner(context: StatementContext, running: Running, table: StoredTable, settled_txn_id: int) -> None:
    """Record the version as the statement's snapshot, so that the cleaner keeps the directories of the version.

    In a joined transaction, the cleaner keeps these directories for a limited time.
    """
    services = context.services
    if running.earliest is not None and running.earliest.high_watermark <= settled_txn_id:
        settled_txn_id = running.earliest.high_watermark
    seen = ValidTxnList(settled_txn_id)

    def work(connection: Connection) -> None:
        if running.joined is None:
            read_as_of(connection, running.txn_id, seen)
            return
        snapshots.keep_lower(
            connection,
            running.txn_id,
            table.id,
            settled_txn_id,
            now_ms=services.clock(),
            retention_s=max(int(services.settings["hivex.dataframe.retention.time"]), _LEAST_KEPT_S),
            user=context.session.user,
        )

    services.store.write(work, name="read as of")
    running.earliest = seen
