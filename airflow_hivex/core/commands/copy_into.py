"""COPY INTO: load those files of a folder into a table that the table has not loaded before.

The commit of the rows records their files (``catalog/loaded_files.py``). While a statement chooses files and until its
transaction ends, it holds a lock for which other COPY INTO of the table wait. So a file is loaded once, also if loads
run at the same time, are killed, or are repeated.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from airflow_hivex.core.catalog import loaded_files
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.commands.columns import with_merged_columns
from airflow_hivex.core.commands.multi_inserts import run_multi_insert
from airflow_hivex.core.commands.rows import with_new_columns
from airflow_hivex.core.commands.source_files import SourcePlace, find_place, matches
from airflow_hivex.core.errors import HivexError, InvalidOperationError, JobError, UnfitRowError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import InsertSteps, plan_query, run_insert
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.files.filesystem import FileStamp
from airflow_hivex.core.model.loads import LoadedFile, path_key
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.plans import UNFIT_COLUMNS, ColumnNaming, JobResult, LoadedFiles
from airflow_hivex.core.parser.statements import (
    COPIED_FILES,
    CopyInto,
    Insert,
    MultiInsert,
    Query,
    ShowCopyHistory,
    TextEdit,
)
from airflow_hivex.core.transactions import pending_writes

log = logging.getLogger(__name__)

_SMALL_BYTES = 64 * 1024
"""Files up to this size get a checksum, which distinguishes a changed file from a file that was only touched."""
_READ_AT_ONCE = 8
_MOST_SINGLE_STAMPS = 100
"""The greatest number of files whose stamps are read one by one, and not by a listing of the folder."""
_CHUNK = 1 << 20
_COLUMNS = ("files_loaded", "files_skipped", "files_changed", "bytes_loaded", "rows_loaded", "rows_rejected")


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
    rejects = (
        None
        if statement.rejects is None
        else context.services.catalog.get_table(*context.session.qualify(statement.rejects))
    )
    if rejects is not None and rejects.id == table.id:
        raise place.refused("its own rejected rows cannot go into it; name another table")
    stamps = _listed(context, statement, place)
    steps = _CopySteps(context, statement, place, stamps, len(stamps), rejects)
    fresh = steps.fresh(table)
    if not fresh and statement.validates:
        return Result(list(_UNFIT_COLUMNS))
    if not fresh:
        # Without a transaction, since an aborted one would leave work for compactions.
        return steps.result(Result(cluster=place.table.storage.primary.cluster, rows_written=0))
    place.check_links(context, fresh)
    # Files that come later wait for the next load.
    steps.stamps = {name: stamp for name, stamp in stamps.items() if name in fresh}
    insert = _insert(statement)
    if statement.validates:
        return _validated(context, insert, steps)
    try:
        return steps.result(_run(context, insert, steps))
    except JobError as error:
        if not any(condition in str(error) for condition in _UNFIT):
            raise
        unfit = _unfit_rows(context, insert, steps, 1)
        if not unfit:
            raise
        file, line, column, reason, _ = unfit[0]
        raise UnfitRowError(table.full_name, file, line, column, reason) from error


def _run(context: StatementContext, insert: Insert, steps: _CopySteps) -> Result:
    statement = steps.statement
    if statement.rejects is not None:
        rejected = Insert(statement.rejects, _query_of_unfit(), by_name=True)
        return run_multi_insert(context, MultiInsert((insert, rejected)), steps)
    if not statement.merges_schema:
        return run_insert(context, insert, steps)

    def evolved(table: StoredTable) -> Table:
        return with_merged_columns(table, _columns_of_files(context, insert, steps, table))

    return with_new_columns(
        context,
        statement.KIND,
        statement.target,
        evolved,
        lambda merge: run_insert(context, insert, steps, merge=merge),
    )


def _columns_of_files(
    context: StatementContext, insert: Insert, steps: _CopySteps, table: StoredTable
) -> Sequence[Column]:
    """Return the columns of the files, or of the query over them, with the types that Spark finds."""
    return _read(context, insert, steps, table, max_rows=0).columns


def _read(
    context: StatementContext, insert: Insert, steps: _CopySteps, table: StoredTable, max_rows: int | None
) -> JobResult:
    """Return the rows of the query of an INSERT over the files, on the cluster where the INSERT runs."""

    def work(running: Running) -> JobResult:
        routed = route(context, insert, declarations=running.functions)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s reads %d files", running.txn_id, len(steps.stamps))
        query = steps.over_files(routed.statement.query, table, steps.chosen or steps.stamps)
        plan = plan_query(context, running, query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=max_rows))
        commit_own(context, running)
        return found

    return in_transaction(context, work, read_only=True)


_UNFIT = ("MALFORMED_RECORD", "CANNOT_PARSE_DECIMAL")
"""The beginnings of Spark's conditions for a row that does not fit."""
_UNFIT_COLUMNS = ("file", "line", "column", "reason", "record")
_UnfitRow = tuple[str, int | None, str | None, str, str]


def _query_of_unfit(limit: int | None = None) -> Query:
    """Return the query of the rows that do not fit."""
    start = f"SELECT {', '.join(UNFIT_COLUMNS)} FROM "  # noqa: S608 - names of our own
    ending = LoadedFiles("", "", ()).unfit_view + ("" if limit is None else f" LIMIT {limit}")
    text = f"{start}{COPIED_FILES}{ending}"
    return Query(text, 0, len(text), (), (TextEdit(len(start), len(start) + len(COPIED_FILES), COPIED_FILES),))


def _validated(context: StatementContext, insert: Insert, steps: _CopySteps) -> Result:
    """Return the first rows of the files that do not fit. Nothing is written."""
    limit = None if steps.statement.validates_all else steps.statement.most_rows
    rows = _unfit_rows(context, insert, steps, limit)
    return Result(list(_UNFIT_COLUMNS), list(rows), cluster=steps.place.table.storage.primary.cluster)


def _unfit_rows(context: StatementContext, insert: Insert, steps: _CopySteps, limit: int | None) -> Sequence[_UnfitRow]:
    steps.splits = True
    found = _read(context, replace(insert, query=_query_of_unfit(limit)), steps, steps.place.table, context.max_rows)
    rows = []
    for uri, column, reason, record in found.rows:
        name = steps.name_of(str(uri))
        line = steps.line_of(name, str(record))
        shown = None if column is None else str(column)
        rows.append((steps.path(name), line, shown, str(reason), str(record)))
    return rows


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
    rejects: StoredTable | None
    changed: set[str] = field(default_factory=set)
    chosen: Mapping[str, FileStamp] = field(default_factory=dict)
    loaded: Sequence[LoadedFile] = ()
    splits: bool = False
    rejected: int | None = None
    view: str = field(default_factory=lambda: f"hivex_files_{uuid.uuid4().hex}")

    def locks(self) -> Sequence[LockComponent]:
        """Return the lock of COPY INTO on the table."""
        return self.context.services.statement_locks.copy_into(self.place.table)

    def choose(self, running: Running, table: StoredTable, query: Query) -> Query | None:  # noqa: ARG002
        """Return the query over the files that are still not loaded, or None if another load has taken all of them."""
        place = self.place
        if self.rejects is not None and table.id == self.rejects.id:
            return self.over_files(query, place.table, self.chosen)
        if table.id != place.table.id:
            raise place.refused("the table was dropped and created again meanwhile; try again")
        fresh = self.fresh(table)
        self.chosen, self.loaded = {name: stamp for name, stamp in self.stamps.items() if name in fresh}, ()
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
        view, statement, place = self.view, self.statement, self.place
        files = LoadedFiles(
            view,
            statement.format,
            tuple(place.cluster.uri(place.below(name)) for name in names),
            () if statement.selects else _columns(table, statement.columns),
            statement.format_options,
            _naming(statement),
            self.splits or statement.rejects is not None,
        )
        edits = (replace(each, text=view) if each.text == COPIED_FILES else each for each in query.qualifiers)
        return replace(query, qualifiers=tuple(edits), loaded=files)

    def check(self) -> None:
        """Refuse files that have changed or were deleted while they were read."""
        place = self.place
        if len(self.chosen) <= _MOST_SINGLE_STAMPS:
            now = {name: place.files.stamp(place.below(name)) for name in self.chosen}
        else:
            now = {**dict.fromkeys(self.chosen), **place.files.list_stamps(place.location)}
        for name, stamp in self.chosen.items():
            if now[name] != stamp:
                done = "deleted" if now[name] is None else "changed"
                shown = f"{place.path}/{name}" if name else place.path
                raise place.refused(f"file {shown} was {done} while it was read; load it when it is complete")

    def count(self, rows: Sequence[int]) -> None:
        """Take the number of rejected rows."""
        self.rejected = rows[-1]

    def fresh(self, table: StoredTable) -> Collection[str]:
        """Return the files among ``stamps`` that the statement must load. Record skipped files that have changed.

        Empty files are skipped, and loaded when they have a content.
        """
        keys = {name: path_key(self.path(name)) for name in self.stamps}
        joined = self.context.session.transaction
        with self.context.services.store.read() as connection:
            known = dict(loaded_files.find(connection, table.id, list(keys.values())))
            if joined is not None:
                own = pending_writes.of_transaction(connection, joined.txn_id, table_id=table.id)
                done = (write for write in own if write.directories is not None and not write.is_taken_back)
                known |= {each.key: each for write in done for each in write.loaded}
        filled = {name for name, stamp in self.stamps.items() if stamp.size_bytes}
        if self.statement.force:
            return filled
        fresh = {name for name, key in keys.items() if key not in known}
        changed = {name for name in self.stamps.keys() - fresh if self._has_changed(name, known[keys[name]])}
        if self.statement.reloads_changed:
            fresh, changed = fresh | (changed & filled), changed - filled
        self.changed |= changed
        if changed:
            log.warning(
                "COPY INTO %s: %d files have changed since they were loaded, such as %s, and are skipped; the option "
                "'allowOverwrites' = 'true' loads them again",
                table.full_name,
                len(changed),
                self.path(min(changed)),
            )
        return fresh & filled

    def result(self, done: Result) -> Result:
        """Return the result of the INSERT with the numbers of the load as its row."""
        size_bytes = sum(each.size_bytes for each in self.loaded)
        rejected = self.rejected or 0
        rows = (done.rows_written or 0) - rejected
        row = (len(self.loaded), self.listed - len(self.loaded), len(self.changed), size_bytes, rows, rejected)
        return replace(done, columns=list(_COLUMNS), rows=[row], rows_written=rows)

    def name_of(self, uri: str) -> str:
        """Return the path below the place for the URI of a file, as Spark writes it."""
        end = unquote(uri)
        found = (name for name in self.stamps if end.endswith(f"/{self.place.below(name)}"))
        return max(found, key=len, default="")

    def line_of(self, name: str, record: str) -> int | None:
        """Return the number, from 1, of the first line of a file that equals a record's first line, or else None."""
        options = {key.lower(): value for key, value in self.statement.format_options.items()}
        encoding = options.get("encoding", options.get("charset", "utf-8-sig"))
        first = record.splitlines()[0] if record else ""
        try:
            content = io.BufferedReader(_Chunks(self.place.files.read_chunks(self.place.below(name), _CHUNK)))
            with (
                gzip.open(content) if name.endswith(".gz") else content as unpacked,
                io.TextIOWrapper(unpacked, encoding=encoding, errors="replace") as lines,
            ):
                return next((number for number, line in enumerate(lines, 1) if line.rstrip("\r\n") == first), None)
        except (LookupError, OSError, HivexError) as error:
            log.warning("The line of a row of %s is not known: %s", self.path(name), error)
            return None

    def path(self, name: str) -> str:
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
            LoadedFile(self.path(name), stamp.size_bytes, stamp.changed, checksum)
            for (name, stamp), checksum in zip(self.chosen.items(), checksums, strict=True)
        ]

    def _checksum(self, name: str, stamp: FileStamp) -> str | None:
        if stamp.size_bytes > _SMALL_BYTES:
            return None
        found = hashlib.sha256()
        for chunk in self.place.files.read_chunks(self.place.below(name), _SMALL_BYTES):
            found.update(chunk)
        return found.hexdigest()


class _Chunks(io.RawIOBase):
    """The chunks of a file as a file object."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the next bytes into ``buffer``, and return their number."""
        self._rest = self._rest or next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


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
