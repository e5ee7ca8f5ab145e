"""The query of the changes of a table between two of its versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from airflow_hivex.core.catalog import change_streams
from airflow_hivex.core.catalog.change_streams import ChangeBatch
from airflow_hivex.core.catalog.history import read_record
from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError
from airflow_hivex.core.execution import read_versions
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.frame_columns import reshaped
from airflow_hivex.core.model.objects import Column, StoredTable, row_key
from airflow_hivex.core.model.row_ids import ROW_ID, WRITTEN_BITS
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.versions import TableVersion, VersionAsOf, VersionRange, version_before
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.model.writes import BatchKey
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.queries.versions import moment
from airflow_hivex.core.parser.statements import TableName

_OPERATION = "A read of the changes of"
_OLD, _NEW, _KEY = "__old", "__new", "__key_"
_PRESENT = VersionAsOf(before_now_ms=0)
CHANGE_TYPE, ROW_ID_COLUMN = "_change_type", "_row_id"

Version = int | datetime | str
"""A write id, or a time."""


def changes_query(context: StatementContext, name: TableName, since: Version | None, until: Version | None) -> str:
    """Return a query of the rows that were added to, and removed from, a table between two versions.

    ``since`` is the first version and ``until`` the last version. If ``since`` is None, all rows of the last version
    are added rows. If ``until`` is None, the last version is the current version. Rows that were both added and deleted
    between the two versions are excluded. The columns are those of the last version.

    Raises:
        InvalidOperationError: the table has no versions, or is insert-only, so that its rows have no ids.
        InvalidParametersError: a version is not a write id or a time, or the versions are in the wrong order.
        NoSuchVersionError: the table has never had one of the versions.
        VersionExpiredError: one of the versions cannot be read any more.
    """
    read = _VersionReader.of(context, name)
    new = read.version(_PRESENT if until is None else _version(until))
    old = None if since is None else read.version(_version(since))
    return _query(read, old, new)


class ReadChanges:
    """The queries that replace the CHANGES clauses of a statement.

    Clauses with the same table and the same commits get the same query.
    """

    def __init__(self, context: StatementContext) -> None:
        self._context = context
        self._queries: dict[tuple[TableName, VersionRange], str] = {}

    def query(self, name: TableName, wanted: VersionRange) -> str:
        """Return a query of the rows that the commits ``wanted`` have added to, and removed from, a table.

        Raises:
            HivexError: as :func:`changes_query`.
        """
        key = (name, wanted)
        if key not in self._queries:
            self._queries[key] = _query_in(_VersionReader.of(self._context, name), wanted)
        return self._queries[key]


def _query_in(read: _VersionReader, wanted: VersionRange) -> str:
    last = wanted.until or _PRESENT
    if wanted.without_last:
        before = read.before(last)
        if before is None:
            raise InvalidParametersError(f"No commit to table {read.table.full_name} is in the range of {wanted.text}.")
        last = VersionAsOf(write_id=before)
    new = read.version(last)
    if wanted.without_first:
        return _query(read, read.version(wanted.since), new)
    before = read.before(wanted.since)
    if wanted.since.write_id is not None:
        _check_order(read.table, read.version(wanted.since), new)
    return _query(read, None if before is None else read.version(VersionAsOf(write_id=before)), new)


@dataclass(frozen=True, slots=True)
class _VersionReader:
    """A reader of the versions of a table, in one snapshot."""

    context: StatementContext
    table: StoredTable
    snapshot: Snapshot

    @classmethod
    def of(cls, context: StatementContext, name: TableName) -> Self:
        table = context.services.catalog.get_table(*context.session.qualify(name))
        if table.is_insert_only:
            reason = "it is insert-only, and its rows have no ids that show changes"
            raise InvalidOperationError(_OPERATION, table.full_name, reason)
        read_versions.check_has_versions(_OPERATION, table)
        return cls(context, table, context.services.catalog.snapshot([(table.database, table.name)]))

    @property
    def write_ids(self) -> ValidWriteIdList:
        return self.snapshot.write_ids[self.table.id]

    def version(self, wanted: VersionAsOf) -> TableVersion:
        return read_versions.find(self.context, self.snapshot, self.table, wanted, None).version

    def before(self, wanted: VersionAsOf) -> int | None:
        services = self.context.services
        with services.store.read() as connection:
            record = read_record(connection, self.table.id)
        return version_before(self.table.full_name, record, wanted, self.write_ids, now_ms=services.clock())


def _check_order(table: StoredTable, old: TableVersion, new: TableVersion) -> None:
    if not set(new.later) <= set(old.later):
        raise InvalidParametersError(
            f"Version {old.write_id} of table {table.full_name} is later than version {new.write_id}; give the "
            "earlier one first."
        )


def _query(read: _VersionReader, old: TableVersion | None, new: TableVersion) -> str:
    table = read.table
    columns = [*(new.columns or table.columns), *table.partition_keys]
    if old is None:
        return _select(table, new, _NEW, "insert", columns, columns)
    _check_order(table, old, new)
    seen = old.seen(read.write_ids)
    write_id = f"{_NEW}.ROW__ID.writeid"
    is_new = f"{write_id} > {seen.high_watermark}"
    if seen.open_ids:
        is_new += f" OR {write_id} IN ({', '.join(map(str, seen.open_ids))})"
    inserted = _select(table, new, _NEW, "insert", columns, columns)
    of_then = [*(old.columns or table.columns), *table.partition_keys]
    deleted = _select(table, old, _OLD, "delete", columns, of_then)
    # A rebalancing compaction gives new ids to rows whose write ids the earlier version has seen.
    is_renumbered = f"ROW__ID.rowid >= {1 << WRITTEN_BITS}L"
    inserted += _without(table, _NEW, old, f" WHERE {is_renumbered}")
    gone = deleted + _without(table, _OLD, new)
    return f"{inserted} WHERE {is_new} OR {_NEW}.{is_renumbered} UNION ALL {gone}"


def _without(table: StoredTable, alias: str, version: TableVersion, where: str = "") -> str:
    """Return an anti-join that excludes the rows of ``version`` from ``alias``."""
    key = row_key([ROW_ID], [quoted(column.name) for column in table.partition_keys])
    columns = ", ".join(f"{column} AS {_KEY}{number}" for number, column in enumerate(key))
    there = f"SELECT {columns} FROM {_name(table)} VERSION AS OF {version.write_id}{where}"  # noqa: S608 - quoted names
    # The partition keys of a row may be NULL.
    same = " AND ".join(f"{alias}.{column} <=> __there.{_KEY}{number}" for number, column in enumerate(key))
    return f" LEFT ANTI JOIN ({there}) AS __there ON {same}"


def _select(
    table: StoredTable,
    version: TableVersion,
    alias: str,
    change: str,
    columns: Sequence[Column],
    of_version: Sequence[Column],
) -> str:
    """Return a query of one version with the columns of another version; missing columns and fields are NULL."""
    then = {column.in_files.lower(): column for column in of_version}

    def value(column: Column) -> str:
        source = then.get(column.in_files.lower())
        if source is None:
            return f"CAST(NULL AS {column.type})"
        return reshaped(table.full_name, f"{alias}.{quoted(source.name)}", source, column)

    values = [f"{value(column)} AS {quoted(column.name)}" for column in columns]
    values += [f"'{change}' AS {CHANGE_TYPE}", f"{alias}.ROW__ID AS {ROW_ID_COLUMN}"]
    source = f"{_name(table)} VERSION AS OF {version.write_id} AS {alias}"
    return f"SELECT {', '.join(values)} FROM {source}"  # noqa: S608 - quoted names


def _name(table: StoredTable) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _version(value: Version) -> VersionAsOf:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return VersionAsOf(write_id=value)
    time = None if isinstance(value, int) else moment(value)
    if time is None:
        raise InvalidParametersError(f"{value!r} is not a valid version; give a write id, or a time.")
    return VersionAsOf(time=time)


class ChangeStream:
    """The batches of one stream of the changes of a table."""

    def __init__(self, context: StatementContext, name: TableName, stream: str, since: Version | None) -> None:
        # The function of a stream writes with the stream's name as its app_id.
        BatchKey(stream, 0)
        table = context.services.catalog.get_table(*context.session.qualify(name))
        read_versions.check_has_versions(_OPERATION, table)
        self._context, self._table, self._stream = context, table, stream
        self._since: int | None = None
        if since is not None:
            snapshot = context.services.catalog.snapshot([(table.database, table.name)])
            self._since = read_versions.find(context, snapshot, table, _version(since), None).version.write_id

    def begin(self) -> ChangeBatch | None:
        """Return the batch that was begun and not ended, else begin the next batch. Without new commits return None."""
        return self._context.services.store.write(
            lambda connection: change_streams.begin_batch(connection, self._table.id, self._stream, self._since)
        )

    def end(self, batch: ChangeBatch) -> None:
        """Record that the consumer has processed a batch."""
        self._context.services.store.write(
            lambda connection: change_streams.end_batch(connection, self._table.id, self._stream, batch)
        )
