"""LOAD DATA: write the rows of files to a table, as INSERT does. The files can have another format than the table."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from airflow_hivex.core.commands.source_files import PATTERN, SourcePlace, find_place, matches
from airflow_hivex.core.errors import AnalysisError, InvalidOperationError, JobError
from airflow_hivex.core.execution import consumed_files
from airflow_hivex.core.execution.consumed_files import ConsumedFiles
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.select_and_insert import InsertSteps, run_insert
from airflow_hivex.core.files.filesystem import FileStamp
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.parser.statements import Insert, LoadData, Query

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
    steps = _LoadSteps(context, source)
    try:
        result = run_insert(context, _insert(statement, table, source), steps)
    except (AnalysisError, JobError) as error:
        if not any(condition in str(error) for condition in _NOT_OF_FORMAT):
            raise
        expected = statement.format or table.storage.format
        reason = (
            f"{statement.path} holds files that are not {expected.upper()}; name their format by INPUTFORMAT and "
            "SERDE, or make an external table of them and INSERT from that"
        )
        raise InvalidOperationError("LOAD DATA", table.full_name, reason) from error
    if steps.taken is not None:
        steps.taken.finish(services)
    return result


@dataclass(slots=True)
class _LoadSteps(InsertSteps):
    """The steps of a LOAD DATA: its files are taken, compared at the end, and deleted after the commit.

    ``taken`` are the files that are deleted, or None if all files stay.
    """

    context: StatementContext
    source: LoadSource
    taken: ConsumedFiles | None = field(default=None, init=False)

    def begin(self, running: Running, table: StoredTable) -> None:
        """Record the files that the commit deletes."""
        source = self.source
        if source.place.is_own and running.joined is None:
            folders = {source.place.location: source.stamps}
            name = source.place.cluster.name
            self.taken = consumed_files.take(self.context, running, table, name, folders)

    def check(self) -> None:
        """Refuse files that have changed while they were read."""
        name = self.source.changed()
        if name is not None:
            place = self.source.place
            raise place.refused(
                f"file {name} of {place.path} was changed while it was read; load it when it is complete"
            )

    def also(self, connection: Connection) -> None:
        """Record that the files can be deleted."""
        if self.taken is not None:
            self.taken.register(connection)


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


@dataclass(frozen=True, slots=True)
class LoadSource:
    """The files of a LOAD DATA below a place, with sizes and times from which later changes are noticed."""

    place: SourcePlace
    stamps: Mapping[str, FileStamp]

    @property
    def uris(self) -> tuple[str, ...]:
        """Return the URIs of the files."""
        return tuple(self.place.cluster.uri(self.place.below(name)) for name in self.stamps)

    def changed(self) -> str | None:
        """Return the name of a file that has changed since it was listed, or None if no file has changed."""
        place = self.place
        for name, stamp in self.stamps.items():
            if place.files.stamp(place.below(name)) != stamp:
                return name or place.location
        return None


def find_source(context: StatementContext, statement: LoadData, table: StoredTable) -> LoadSource:
    """Return the files that a LOAD DATA names.

    A path without a scheme belongs to the table's cluster or, with LOCAL, to this machine. Files outside of the
    cluster's root are read only if they lie in a folder of the setting ``hivex.load.paths``.

    Raises:
        InvalidOperationError: there are no files, or they belong to a table, lie in subdirectories, or are not allowed
            to be read.
        LocationOutsideClusterError: a path without a scheme leads out of the cluster.
    """
    place = find_place(context, statement.KIND, statement.path, table, is_local=statement.is_local)
    names = _matching(place)
    if names is None:
        place.check(context, place.location)
        names = place.files.list_loose_files(place.location)
    else:
        place = replace(place, location=place.location.rpartition("/")[0])
        for name in names[:1]:
            place.check(context, place.below(name))
    if not names:
        # The folder of a root that is not mounted is empty.
        context.services.roots.examine(place.cluster.name)
        raise place.refused(f"there are no files in {statement.path}")
    below = next((name for name in names if "/" in name), None)
    if below is not None:
        raise place.refused(f"{statement.path} has subdirectories, such as that of {below}; load one at a time")
    place.check_links(context, names)
    stamps = {}
    for name in names:
        stamp = place.files.stamp(place.below(name))
        if stamp is None:
            raise place.refused(f"file {name or statement.path} was deleted while the statement began; try again")
        stamps[name] = stamp
    return LoadSource(place, stamps)


def _matching(place: SourcePlace) -> list[str] | None:
    """Return the files in a folder that match the pattern at the end of a location, or None if there is no pattern.

    If a file or folder has exactly the name at the end of the location, this name is not a pattern.
    """
    folder, _, pattern = place.location.rpartition("/")
    if not PATTERN.search(pattern) or place.files.exists(place.location):
        return None
    return [name for name in place.files.list_data_files(folder) if matches(name, pattern)]
