"""COPY INTO: load those files of a folder into a table that the table has not loaded before.

The commit of the rows records their files (``catalog/loaded_files.py``). While a statement chooses files and until its
transaction ends, it holds a lock for which other COPY INTO of the table wait. So a file is loaded once, also if loads
run at the same time, are killed, or are repeated.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog import loaded_files
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.commands.columns import with_merged_columns
from airflow_hivex.core.commands.rows import with_new_columns
from airflow_hivex.core.commands.source_files import SourcePlace, find_place, matches
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import InsertSteps, plan_query, run_insert
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.files.filesystem import FileStamp
from airflow_hivex.core.model.loads import LoadedFile, path_key
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.plans import ColumnNaming, LoadedFiles
from airflow_hivex.core.parser.statements import COPIED_FILES, CopyInto, Insert, Query, ShowCopyHistory
from airflow_hivex.core.transactions import pending_writes

log = logging.getLogger(__name__)

_SMALL_BYTES = 64 * 1024
"""Files up to this size get a checksum, which distinguishes a changed file from a file that was only touched."""
_READ_AT_ONCE = 8
_COLUMNS = ("files_loaded", "files_skipped", "files_changed", "bytes_loaded", "rows_loaded")


def run_copy_into(context: StatementContext, statement: CopyInto) -> Result:
    """Run COPY INTO. Return the numbers of files and rows as one row.

    Files that the table has loaded before are skipped, also if they have changed; ``files_changed`` counts these.

    Raises:
        InvalidOperationError: the folder is missing, or must not be read; or the table cannot be written; or a file has
            changed while it was read.
        LocationOutsideClusterError: the path leads out of the cluster.
    """
    table = context.services.catalog.get_table(*context.session.qualify(statement.target))
    if table.not_inserted:
        raise InvalidOperationError(statement.KIND, table.full_name, table.not_inserted)
    place = find_place(context, statement.KIND, statement.path, table)
    place.check(context, place.location)
    stamps = _listed(context, statement, place)
    steps = _CopySteps(context, statement, place, stamps, len(stamps))
    fresh = steps.fresh(table)
    if not fresh:
        # Without a transaction, since an aborted one would leave work for compactions.
        return steps.result(Result(cluster=place.table.storage.primary.cluster, rows_written=0))
    place.check_links(context, fresh)
    # Files that come later wait for the next load.
    steps.stamps = {name: stamp for name, stamp in stamps.items() if name in fresh}
    insert = _insert(statement)
    if not statement.merges_schema:
        return steps.result(run_insert(context, insert, steps))

    def evolved(table: StoredTable) -> Table:
        return with_merged_columns(table, _columns_of_files(context, insert, steps, table))

    done = with_new_columns(
        context,
        statement.KIND,
        statement.target,
        evolved,
        lambda merge: run_insert(context, insert, steps, merge=merge),
    )
    return steps.result(done)


def _columns_of_files(
    context: StatementContext, insert: Insert, steps: _CopySteps, table: StoredTable
) -> Sequence[Column]:
    """Return the columns of the files, or of the query over them, with the types that Spark finds."""

    def work(running: Running) -> Sequence[Column]:
        routed = route(context, insert, declarations=running.functions)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s finds the columns of %d files", running.txn_id, len(steps.stamps))
        query = steps.over_files(routed.statement.query, table, steps.stamps)
        plan = plan_query(context, running, query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=0)).columns
        commit_own(context, running)
        return found

    return in_transaction(context, work, read_only=True)


def _listed(context: StatementContext, statement: CopyInto, place: SourcePlace) -> Mapping[str, FileStamp]:
    """Return the stamps of the files that the statement names, by their paths below the place.

    Raises:
        InvalidOperationError: the folder, or one of FILES, is missing.
    """
    stamps = place.files.list_stamps(place.location)
    if not stamps and not place.files.exists(place.location):
        # The folder of a root that is not mounted is empty.
        context.services.roots.examine(place.cluster.name)
        raise place.refused(f"there is no file or folder {statement.path}; name one that exists")
    if statement.files:
        missing = next((name for name in statement.files if name not in stamps), None)
        if missing is not None:
            raise place.refused(f"FILES names {missing}, and there is no such file in {statement.path}")
        return {name: stamps[name] for name in dict.fromkeys(statement.files)}
    if not statement.patterns:
        return stamps
    return {name: stamp for name, stamp in stamps.items() if any(matches(name, each) for each in statement.patterns)}


@dataclass(slots=True)
class _CopySteps(InsertSteps):
    """The steps of a COPY INTO: its lock, the choice of its files, and their comparison at the end.

    ``stamps`` are the files that can be loaded, by their paths below ``place``, and ``listed`` is the number of all
    files that the statement names. ``changed`` are skipped files that have changed since they were loaded.
    """

    context: StatementContext
    statement: CopyInto
    place: SourcePlace
    stamps: Mapping[str, FileStamp]
    listed: int
    changed: set[str] = field(default_factory=set)
    chosen: Mapping[str, FileStamp] = field(default_factory=dict)
    loaded: Sequence[LoadedFile] = ()

    def locks(self) -> Sequence[LockComponent]:
        """Return the lock of COPY INTO on the table."""
        return self.context.services.statement_locks.copy_into(self.place.table)

    def choose(self, running: Running, table: StoredTable, query: Query) -> Query | None:  # noqa: ARG002
        """Return the query over the files that are still not loaded, or None if another load has taken all of them."""
        place = self.place
        if table.id != place.table.id:
            raise place.refused("the table was dropped and created again meanwhile; try again")
        fresh = self.fresh(table)
        self.chosen = {name: stamp for name, stamp in self.stamps.items() if name in fresh}
        if not self.chosen:
            return None
        self.loaded = self._described()
        log.info(
            "COPY INTO %s: %d files of %s with %d bytes are loaded; %d other files were loaded before",
            *(table.full_name, len(self.chosen), place.path, sum(each.size_bytes for each in self.loaded)),
            self.listed - len(self.chosen),
        )
        return self.over_files(query, table, self.chosen)

    def over_files(self, query: Query, table: StoredTable, names: Iterable[str]) -> Query:
        """Return a query of the statement over those of its files with ``names``."""
        view = f"hivex_files_{uuid.uuid4().hex}"
        statement, place = self.statement, self.place
        files = LoadedFiles(
            view,
            statement.format,
            tuple(place.cluster.uri(place.below(name)) for name in names),
            () if statement.selects else _columns(table, statement.columns),
            statement.format_options,
            _naming(statement),
        )
        edits = (replace(each, text=view) if each.text == COPIED_FILES else each for each in query.qualifiers)
        return replace(query, qualifiers=tuple(edits), loaded=files)

    def check(self) -> None:
        """Refuse files that have changed or were deleted while they were read."""
        place = self.place
        if len(self.chosen) <= _READ_AT_ONCE:
            now = {name: place.files.stamp(place.below(name)) for name in self.chosen}
        else:
            now = {**dict.fromkeys(self.chosen), **place.files.list_stamps(place.location)}
        for name, stamp in self.chosen.items():
            if now[name] != stamp:
                done = "deleted" if now[name] is None else "changed"
                shown = f"{place.path}/{name}" if name else place.path
                raise place.refused(f"file {shown} was {done} while it was read; load it when it is complete")

    def fresh(self, table: StoredTable) -> Collection[str]:
        """Return the files among ``stamps`` that the statement must load, and count the others."""
        keys = {name: path_key(self._path(name)) for name in self.stamps}
        joined = self.context.session.transaction
        with self.context.services.store.read() as connection:
            known = dict(loaded_files.find(connection, table.id, list(keys.values())))
            if joined is not None:
                own = pending_writes.of_transaction(connection, joined.txn_id, table_id=table.id)
                done = (write for write in own if write.directories is not None and not write.is_taken_back)
                known |= {each.key: each for write in done for each in write.loaded}
        if self.statement.force:
            return self.stamps.keys()
        fresh = {name for name, key in keys.items() if key not in known}
        changed = {name for name in self.stamps.keys() - fresh if self._has_changed(name, known[keys[name]])}
        if self.statement.reloads_changed:
            fresh, changed = fresh | changed, set()
        self.changed |= changed
        if changed:
            log.warning(
                "COPY INTO %s: %d files have changed since they were loaded, such as %s, and are skipped; the option "
                "'allowOverwrites' = 'true' loads them again",
                table.full_name,
                len(changed),
                self._path(min(changed)),
            )
        return fresh

    def result(self, done: Result) -> Result:
        """Return the result of the INSERT with the numbers of the load as its row."""
        size_bytes = sum(each.size_bytes for each in self.loaded)
        row = (len(self.loaded), self.listed - len(self.loaded), len(self.changed), size_bytes, done.rows_written)
        return replace(done, columns=list(_COLUMNS), rows=[row])

    def _path(self, name: str) -> str:
        """Return the path by which the metastore remembers a file."""
        location = self.place.below(name)
        return location if self.place.is_own else self.place.cluster.shown_uri(location)

    def _has_changed(self, name: str, known: LoadedFile) -> bool:
        stamp = self.stamps[name]
        if stamp.size_bytes != known.size_bytes:
            return True
        if stamp.changed == known.changed:
            return False
        return known.checksum is None or self._checksum(name, stamp) != known.checksum

    def _described(self) -> Sequence[LoadedFile]:
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            checksums = list(pool.map(lambda name: self._checksum(name, self.chosen[name]), self.chosen))
        return [
            LoadedFile(self._path(name), stamp.size_bytes, stamp.changed, checksum)
            for (name, stamp), checksum in zip(self.chosen.items(), checksums, strict=True)
        ]

    def _checksum(self, name: str, stamp: FileStamp) -> str | None:
        if stamp.size_bytes > _SMALL_BYTES:
            return None
        found = hashlib.sha256()
        for chunk in self.place.files.read_chunks(self.place.below(name), _SMALL_BYTES):
            found.update(chunk)
        return found.hexdigest()


def _insert(statement: CopyInto) -> Insert:
    """Return the INSERT of the rows of the files."""
    by_name = statement.columns is None and (statement.selects or _naming(statement) is not ColumnNaming.BY_POSITION)
    return Insert(statement.target, statement.query, columns=statement.columns, by_name=by_name)


def _naming(statement: CopyInto) -> ColumnNaming:
    """Return how the columns of the files get their names."""
    options = {name.lower(): value.lower() for name, value in statement.format_options.items()}
    has_names = statement.format not in ("csv", "text") or options.get("header") == "true"
    if not has_names and not statement.selects:
        return ColumnNaming.BY_POSITION
    return ColumnNaming.INFERRED if statement.merges_schema else ColumnNaming.BY_NAME


def _columns(table: StoredTable, named: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of the table that get the values of the files."""
    columns = {column.name.lower(): column for column in (*table.columns, *table.partition_keys)}
    if named is None:
        return tuple(columns.values())
    return tuple(columns[name] for name in named if name in columns)


def show_copy_history(context: StatementContext, statement: ShowCopyHistory) -> Result:
    """Run SHOW COPY HISTORY: return the loaded files of a table, the last loaded first. Times are texts in UTC."""
    services = context.services
    table = services.catalog.get_table(*context.session.qualify(statement.table))
    with services.store.read() as connection:
        found = loaded_files.history(connection, table.id, statement.limit)
    columns = ["path", "size_bytes", "changed", "checksum", "txn_id", "rows_of_load", "loaded_at"]
    rows: list[tuple[object, ...]] = [
        (
            *(each.file.path, each.file.size_bytes, each.file.changed, each.file.checksum),
            *(each.txn_id, each.rows_of_load),
            to_datetime(each.loaded_ms).isoformat(sep=" ", timespec="milliseconds"),
        )
        for each in found
    ]
    return Result(columns, rows)
