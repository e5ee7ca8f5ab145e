"""LOAD DATA: the rows of ORC files, which are gone from their place once the rows count."""

from __future__ import annotations

import logging
import re
import uuid
from dataclasses import replace

from airflow_hivex.core.catalog import tables
from airflow_hivex.core.errors import AnalysisError, HivexError, InvalidOperationError, JobError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.model.statements import Insert, LoadData, Query
from airflow_hivex.core.statements.context import Result, StatementContext
from airflow_hivex.core.statements.queries import run_insert

log = logging.getLogger(__name__)

_GLOB = re.compile(r"([\\*?\[\]{},^])")
_FORMAT = "orc"
_NOT_ORC = ("UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER")


def run_load(context: StatementContext, statement: LoadData) -> Result:
    """Return the rows of the files, written as INSERT writes them: their columns count by position, as in Hive.

    A file's columns are those of the table, and behind them the partition columns that the statement does not name.
    Without LOCAL the files lie on the table's primary cluster and are deleted after the commit; those of a statement
    in a transaction of several stay, since that may yet be rolled back.

    Raises:
        InvalidOperationError: there are no files, or they are a table's, or lie in subdirectories.
        LocationOutsideClusterError: they lie outside of the cluster.
    """
    services = context.services
    table = services.catalog.get_table(*context.session.qualify(statement.target))
    if table.not_written:
        raise InvalidOperationError("LOAD DATA", table.full_name, table.not_written)
    cluster = services.clusters.get(table.storage.primary.cluster)
    if statement.is_local:
        # Paths of this machine, which is where jobs run.
        cluster = replace(cluster, filesystem="file:///", storage_options={})
    location = cluster.relative(statement.path)
    if not statement.is_local:
        with services.store.read() as connection:
            owner = tables.owner_at(connection, cluster.name, location)
        if owner is not None:
            reason = f"{statement.path} belongs to {owner}; read it by INSERT INTO ... SELECT"
            raise InvalidOperationError("LOAD DATA", table.full_name, reason)
    files = ClusterFiles(cluster.filesystem, cluster.storage_options)
    names = _files_below(files, location, statement, table)
    dynamic = [key.name for key in table.partition_keys if key.name not in statement.static]
    view = f"hivex_files_{uuid.uuid4().hex}"
    text = f"SELECT * FROM {view}"  # noqa: S608 - a name of our own
    insert = Insert(
        target=statement.target,
        query=Query(text, 0, len(text), (), loaded=LoadedFiles(view, _FORMAT, _pattern(cluster.uri(location), names))),
        overwrite=statement.overwrite,
        partition=(*statement.static, *dynamic) if statement.static else (),
        static=statement.static,
    )
    is_alone = context.session.transaction is None
    try:
        result = run_insert(context, insert)
    except (AnalysisError, JobError) as error:
        if not any(condition in str(error) for condition in _NOT_ORC):
            raise
        reason = f"{statement.path} holds files that are not ORC; make an external table of them and INSERT from that"
        raise InvalidOperationError("LOAD DATA", table.full_name, reason) from error
    if is_alone and not statement.is_local:
        for name in names:
            try:
                files.delete_directory(f"{location}/{name}" if name else location)
            except HivexError as error:
                # The rows count already; loading what is left would double them.
                log.warning("File %s of %s is loaded and could not be deleted: %s", name, statement.path, error)
    return result


def _files_below(files: ClusterFiles, location: str, statement: LoadData, table: Table) -> list[str]:
    """Return the names of the files to load.

    Raises:
        InvalidOperationError: there are none, or they lie in subdirectories, or outside of the cluster's root.
    """
    target = None if statement.is_local else files.link_target(location)
    if target is not None:
        reason = f"{statement.path} leads by symbolic links to {target}, out of the root of its cluster"
        raise InvalidOperationError("LOAD DATA", table.full_name, reason)
    names = files.list_loose_files(location)
    if not names:
        raise InvalidOperationError("LOAD DATA", table.full_name, f"there are no files in {statement.path}")
    below = next((name for name in names if "/" in name), None)
    if below is not None:
        reason = f"{statement.path} has subdirectories, as of {below}; load one directory at a time"
        raise InvalidOperationError("LOAD DATA", table.full_name, reason)
    return names


def _pattern(uri: str, names: list[str]) -> str:
    """Return the pattern of exactly these files: others may come meanwhile."""
    escaped = _GLOB.sub(r"\\\1", uri)
    if names != [""]:
        escaped += "/{" + ",".join(_GLOB.sub(r"\\\1", name) for name in names) + "}"
    return escaped
