"""LOAD DATA: the rows of files, in the format of the table or of another one, written as INSERT writes them."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection

from airflow_hivex.core.commands.load_sources import LoadSource, find_source
from airflow_hivex.core.errors import AnalysisError, InvalidOperationError, JobError
from airflow_hivex.core.execution import consumed_files
from airflow_hivex.core.execution.consumed_files import ConsumedFiles
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.queries import InsertSteps, run_insert
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.parser.statements import Insert, LoadData, Query

_NOT_OF_FORMAT = ("UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "Not an Avro data file")


def run_load(context: StatementContext, statement: LoadData) -> Result:
    """Return the rows of the files, written as INSERT writes them.

    The columns of the files are those of the table, and behind them the partition columns that the statement does not
    name. Files below the root of the table's cluster are deleted after the commit, all others stay. Those of a
    statement in a transaction of several stay, too, since that may yet be rolled back, and so do those that have
    changed meanwhile.

    Raises:
        InvalidOperationError: there are no files, or they are a table's, lie in subdirectories, have another format,
            or have changed while they were read; or another statement loads one of them, or has loaded it.
        LocationOutsideClusterError: they lie outside of the cluster.
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
    """Return the INSERT of all rows of the files."""
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
