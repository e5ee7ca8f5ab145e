"""LOAD DATA: write the rows of files to a table, as INSERT does. The files can have another format than the table."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from sqlalchemy import Connection

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.errors import AnalysisError, InvalidOperationError, JobError, LocationOutsideClusterError
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.execution import consumed_files
from airflow_hivex.core.execution.consumed_files import ConsumedFiles
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.folder_owners import places_of, real_path
from airflow_hivex.core.execution.select_and_insert import InsertSteps, run_insert
from airflow_hivex.core.files.filesystem import ClusterFiles, FileStamp
from airflow_hivex.core.model.clusters import Cluster, parse_root
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.parser.statements import Insert, LoadData, Query
from airflow_hivex.core.settings import LOAD_PATHS

_NOT_OF_FORMAT = ("UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "Not an Avro data file")


def run_load(context: StatementContext, statement: LoadData) -> Result:
    """Run LOAD DATA: write the rows of the files to the table, as INSERT does.

    The files have the columns of the table, followed by the partition columns that the statement does not name. Files
    below the root of the table's cluster are deleted after the commit, unless they have changed meanwhile. Other files
    stay. In a transaction of several statements all files stay, since the transaction can be rolled back.

    Raises:
        InvalidOperationError: there are no files; or they belong to a table, lie in subdirectories, have another
            format, or have changed while they were read; or another statement loads or has loaded one of them.
        LocationOutsideClusterError: the files lie outside of the cluster's root.
    """
    services = context.services
    table = services.catalog.get_table(*context.session.qualify(statement.target))
    if table.not_inserted:
        raise InvalidOperationError("LOAD DATA", table.full_name, table.not_inserted)
    source = find_source(context, statement, table)
    is_deleted = source.is_own and context.session.transaction is None
    taken: list[ConsumedFiles] = []

    def begin(running: Running, table: StoredTable) -> None:
        if is_deleted:
            folders = {source.location: source.stamps}
            taken[:] = [consumed_files.take(context, running, table, source.place.name, folders)]

    def register(connection: Connection) -> None:
        for each in taken:
            each.register(connection)

    def check() -> None:
        name = source.changed()
        if name is not None:
            reason = f"file {name} of {statement.path} was changed while it was read; load it when it is complete"
            raise InvalidOperationError("LOAD DATA", table.full_name, reason)

    try:
        result = run_insert(context, _insert(statement, table, source), InsertSteps(begin, check, register))
    except (AnalysisError, JobError) as error:
        if not any(condition in str(error) for condition in _NOT_OF_FORMAT):
            raise
        expected = statement.format or table.storage.format
        reason = (
            f"{statement.path} holds files that are not {expected.upper()}; name their format by INPUTFORMAT and "
            "SERDE, or make an external table of them and INSERT from that"
        )
        raise InvalidOperationError("LOAD DATA", table.full_name, reason) from error
    for each in taken:
        each.finish(services)
    return result


def _insert(statement: LoadData, table: Table, source: LoadSource) -> Insert:
    """Return an INSERT that reads all rows of the files."""
    dynamic = [key for key in table.partition_keys if key.name not in statement.static]
    named = dict.fromkeys((*statement.static, *statement.dynamic, *(key.name for key in dynamic)))
    loaded = LoadedFiles(
        view=f"hivex_files_{uuid.uuid4().hex}",
        format=statement.format or table.storage.format,
        paths=source.uris,
        columns=(*table.columns, *dynamic),
        options=table.read_options if statement.format is None else statement.options,
    )
    text = f"SELECT * FROM {loaded.view}"  # noqa: S608 - a name of our own
    return Insert(
        target=statement.target,
        query=Query(text, 0, len(text), (), loaded=loaded),
        overwrite=statement.overwrite,
        partition=tuple(named) if statement.static or statement.dynamic else (),
        static=statement.static,
    )


_ANYWHERE = "*"
_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class LoadSource:
    """The files of a LOAD DATA, with sizes and times from which later changes are noticed.

    ``is_own`` is true if the files lie below the root of the table's cluster.
    """

    files: ClusterFiles
    place: Cluster
    location: str
    stamps: Mapping[str, FileStamp]
    is_own: bool

    @property
    def locations(self) -> tuple[str, ...]:
        """Return the locations of the files, relative to their file system."""
        return tuple(f"{self.location}/{name}" if name else self.location for name in self.stamps)

    @property
    def uris(self) -> tuple[str, ...]:
        """Return the URIs of the files."""
        return tuple(self.place.uri(location) for location in self.locations)

    def changed(self) -> str | None:
        """Return the name of a file that has changed since it was listed, or None if no file has changed."""
        for name, location in zip(self.stamps, self.locations, strict=True):
            if self.files.stamp(location) != self.stamps[name]:
                return name or self.location
        return None


def find_source(context: StatementContext, statement: LoadData, table: Table) -> LoadSource:
    """Return the files that a LOAD DATA names.

    A path without a scheme belongs to the table's cluster or, with LOCAL, to this machine. Files outside of the
    cluster's root are read only if they lie in a folder of the setting ``hivex.load.paths``.

    Raises:
        InvalidOperationError: there are no files, or they belong to a table, lie in subdirectories, or are not allowed
            to be read.
        LocationOutsideClusterError: a path without a scheme leads out of the cluster.
    """
    place, location, is_own = _place(context, statement, table)
    files = ClusterFiles.of(place)
    names = _matching(files, location)
    if names is None:
        _check_place(context, statement, table, files, place.uri(location), location, is_own=is_own)
        names = files.list_loose_files(location)
    else:
        location = location.rpartition("/")[0]
        for name in names[:1]:
            first = f"{location}/{name}"
            _check_place(context, statement, table, files, place.uri(first), first, is_own=is_own)
    if not names:
        # The folder of a root that is not mounted is empty.
        context.services.roots.examine(place.name)
        raise InvalidOperationError("LOAD DATA", table.full_name, f"there are no files in {statement.path}")
    below = next((name for name in names if "/" in name), None)
    if below is not None:
        reason = f"{statement.path} has subdirectories, as of {below}; load one directory at a time"
        raise InvalidOperationError("LOAD DATA", table.full_name, reason)
    for name in names:
        path = files.local_path(f"{location}/{name}") if name else None
        if path is not None and Path(path).is_symlink():
            below = f"{location}/{name}"
            _check_place(context, statement, table, files, place.uri(below), below, is_own=is_own)
    stamps = {}
    for name in names:
        stamp = files.stamp(f"{location}/{name}" if name else location)
        if stamp is None:
            reason = f"file {name or statement.path} was deleted while the statement began; try again"
            raise InvalidOperationError("LOAD DATA", table.full_name, reason)
        stamps[name] = stamp
    return LoadSource(files, place, location, stamps, is_own)


def _matching(files: ClusterFiles, location: str) -> list[str] | None:
    """Return the files in a folder that match the pattern at the end of a location, or None if there is no pattern.

    If a file or folder has exactly the name at the end of the location, this name is not a pattern.
    """
    folder, _, pattern = location.rpartition("/")
    if not _PATTERN.search(pattern) or files.exists(location):
        return None
    alternatives = [pattern]
    while any(match := _BRACES.search(each) for each in alternatives):
        assert match is not None
        alternatives = [
            f"{each[: match.start()]}{choice}{each[match.end() :]}"
            for each in alternatives
            for choice in match[1].split(",")
        ]
    names = files.list_data_files(folder)
    return [name for name in names if any(fnmatchcase(name, each) for each in alternatives)]


def _place(context: StatementContext, statement: LoadData, table: Table) -> tuple[Cluster, str, bool]:
    """Return the file system of the files, their location in it, and whether they belong to the table's cluster."""
    clusters = context.services.clusters
    cluster = clusters.get(table.storage.primary.cluster)
    if statement.is_local:
        # Paths of this machine, on which the jobs run.
        local = replace(cluster, filesystem="file:///", storage_options={})
        path = statement.path
        if parse_root(path) is None:
            path = f"{Path.cwd()}/{path}"
        return local, local.relative(path), False
    try:
        return cluster, cluster.relative(statement.path), True
    except LocationOutsideClusterError:
        root = parse_root(statement.path)
        # Messages would show the keys in a URI.
        has_keys = hide_in_uri(statement.path) != statement.path
        if root is None or "://" not in statement.path or has_keys:
            raise
    for name in clusters:
        other = clusters.get(name)
        relative = other.root.relative(statement.path)
        if relative is not None:
            return other, relative, False
    top = replace(root, names=())
    same = (root.scheme, root.authority) == (cluster.root.scheme, cluster.root.authority)
    options = cluster.storage_options if same else {}
    return replace(cluster, filesystem=top.uri, storage_options=options), "/".join(root.names), False


def _check_place(
    context: StatementContext,
    statement: LoadData,
    table: Table,
    files: ClusterFiles,
    uri: str,
    location: str,
    *,
    is_own: bool,
) -> None:
    """Refuse a file or folder that is not allowed to be read, or belongs to a table.

    Symbolic links are resolved first.
    """
    local = files.local_path(location)
    real = real_path(files, location)
    if is_own:
        target = files.link_target(location)
        if target is not None:
            reason = f"{location} leads by symbolic links to {target}, out of the root of its cluster"
            raise InvalidOperationError("LOAD DATA", table.full_name, reason)
    else:
        _check_allowed(context, statement, table, {uri, uri if real is None else real.as_uri()})
    services = context.services
    places = dict.fromkeys(places_of(services, uri, real))
    with services.store.read() as connection:
        owner = next(filter(None, (table_rows.owner_at(connection, *each) for each in places)), None)
    if owner is not None:
        shown = statement.path if real is None or local == str(real) else f"{statement.path}, which leads to {real},"
        reason = f"{shown} belongs to {owner}; read it by INSERT INTO ... SELECT"
        raise InvalidOperationError("LOAD DATA", table.full_name, reason)


def _check_allowed(context: StatementContext, statement: LoadData, table: Table, uris: Iterable[str]) -> None:
    allowed = context.services.settings[LOAD_PATHS]
    if _ANYWHERE in allowed:
        return
    roots = [root for root in map(parse_root, allowed) if root is not None]
    if all(any(root.relative(uri) is not None for root in roots) for uri in uris):
        return
    reason = f"{statement.path} is not below the root of its cluster, and not below a folder that {LOAD_PATHS} names"
    raise InvalidOperationError("LOAD DATA", table.full_name, reason)
