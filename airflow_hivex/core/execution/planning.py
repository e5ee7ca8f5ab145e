"""The plan of a statement's job on the chosen cluster: scans of the bound tables, writes and configuration.

Every job of a statement is planned by :func:`plan_job`, whichever runner it goes to. No function reads data or files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable
from airflow_hivex.core.catalog.directories import Directory
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.called_functions import declare_called
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.insert_targets import AS_GIVEN, InsertedRows
from airflow_hivex.core.execution.pushdown import with_safe_pushdown
from airflow_hivex.core.files.object_stores import spark_settings
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.configuration import LEGACY_ASSIGNMENT, STORE_ASSIGNMENT
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import ORIGINAL_LAYOUT, PLAIN_LAYOUT, Table
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import (
    Changes,
    LoadedFiles,
    OriginalFiles,
    Plan,
    PlannedCheck,
    PlannedInsert,
    Scan,
    ScanPart,
    Source,
    Write,
    WriteIdFilter,
)
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.grammar.constraints import expression_columns


def plan_job(
    context: StatementContext,
    running: Running,
    cluster: Cluster,
    scans: Iterable[Scan],
    *,
    sql: str = "",
    parameters: Iterable[str] = (),
    write: Write | None = None,
    changes: Changes | None = None,
    sources: Iterable[Source] = (),
    inserts: Iterable[PlannedInsert] = (),
    loaded: LoadedFiles | None = None,
) -> Plan:
    """Return the plan of a statement's job, with the configuration of the cluster.

    Conditions that ORC or the pruning by joins would evaluate wrongly are not pushed down (``execution.pushdown``).

    Args:
        context: the statement.
        running: the statement's transaction, whose tag the job gets.
        cluster: the cluster that runs the job.
        scans: the tables that the job reads.
        sql: the query, if the job has one.
        parameters: the names of the parameters in the SQL texts of the job.
        write: the target of the query, or of ``changes``.
        changes: an UPDATE, DELETE or MERGE.
        sources: the queries that several of ``inserts`` read.
        inserts: the INSERTs of a multi-table INSERT.
        loaded: the files that a LOAD DATA reads.
    """
    objects = context.session.objects
    plan = Plan(
        tag=running.tag,
        name=f"hivex transaction {running.txn_id} of {context.session.agent_info or context.session.user}",
        sql=sql,
        scans=tuple(scans),
        parameters={name: context.parameters[name] for name in sorted(set(parameters))},
        write=write,
        changes=changes,
        sources=tuple(sources),
        inserts=tuple(inserts),
        loaded=loaded,
        spark_conf={**_for_files(context, loaded), **configuration_of(context, cluster)},
    )
    declare_called(context, running.functions, plan.texts)
    return with_safe_pushdown(replace(plan, prelude=(*running.functions.values(), *objects.prelude(plan.texts))))


_LISTING_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "32"}
"""The setting with which Spark lists loaded files by few tasks. By default it runs a task for each file."""


def _for_files(context: StatementContext, loaded: LoadedFiles | None) -> dict[str, str]:
    """Return the settings with which Spark reads loaded files, also those in the object stores of other clusters."""
    if loaded is None:
        return {}
    found = dict(_LISTING_TASKS)
    clusters = context.services.clusters
    for other in map(clusters.get, clusters):
        if any(other.root.relative(path) is not None for path in loaded.paths):
            found |= spark_settings(other.filesystem, other.storage_options, {})
    return found


def configuration_of(context: StatementContext, cluster: Cluster) -> dict[str, str]:
    """Return the Spark configuration of the cluster and the session. It also applies to reads without Spark."""
    return {**cluster.spark_conf, **context.session.objects.configuration}


def scan(bound: BoundTable, cluster: Cluster, view: str, *, row_ids: bool = False, row_id: str | None = None) -> Scan:
    """Return the scan of a table by a job on ``cluster``, which must have all the needed files.

    ``row_ids`` and ``row_id`` have the same meaning as in ``Scan``.

    Raises:
        InvalidOperationError: the statement reads row ids of a version that is older than the table's row ids.
    """
    table = bound.table
    if row_id is not None and not table.is_insert_only and any(map(_is_plain, bound.partitions)):
        reason = "this version is from before it was full ACID, so that its rows have no ids"
        raise InvalidOperationError("A read of the ROW__ID of", table.full_name, reason)
    on_primary = cluster.name == table.storage.primary.cluster
    copy = table.storage.on(cluster.name)
    root = table.storage.primary.location if copy is None else copy.location
    locations: Mapping[str | None, str] = {} if on_primary else bound.copies.get(cluster.name, {})
    parts: dict[object, _Part] = {}
    deletes: dict[str, _Part] = {}
    for partition in bound.partitions:
        location = partition.location if on_primary else locations[partition.name]
        is_elsewhere = partition.name is not None and location != f"{root}/{partition.name}"
        base, values = (location, nullable_values(partition.name)) if is_elsewhere else (root, None)
        has_ids = row_ids or row_id is not None or any(map(_deletes, partition.directories))
        place = cluster.uri(location)
        originals = _originals(partition, place) if has_ids else []
        if originals:
            parts.setdefault(
                (ORIGINAL_LAYOUT, base, values), _Part(cluster.uri(base), ORIGINAL_LAYOUT, values)
            ).originals += originals
        # Where row ids count within a partition, finding deleted rows takes a join: partitions without deletes are
        # apart.
        is_apart = table.partition_row_ids > 0 and any(map(_deletes, partition.directories))
        for layout, folder, files, growing in _folders(table, partition, with_originals=not has_ids):
            key = (layout, base, values, is_apart)
            part = parts.get(key)
            if part is None:
                part = parts[key] = _Part(cluster.uri(base), layout, values)
            part.add(f"{place}/{folder}" if folder else place, files, growing=growing)
        for directory in partition.directories:
            if _deletes(directory):
                part = deletes.setdefault(directory.row_layout, _Part(cluster.uri(root), directory.row_layout))
                part.add(f"{place}/{directory.name}", directory.files)
    return Scan(
        view=view,
        table=table.full_name,
        columns=table.columns,
        partition_columns=table.partition_keys,
        format=table.storage.format,
        base_path=cluster.uri(root),
        parts=tuple(part.planned for part in parts.values()),
        options=table.read_options,
        is_transactional=table.is_transactional,
        filter=_filter(bound),
        deletes=tuple(part.planned for part in deletes.values()),
        row_ids=row_ids,
        row_id=row_id,
        partition_row_ids=table.partition_row_ids,
    )


def write(
    table: Table,
    cluster: Cluster,
    facts: TableWrite,
    rows: InsertedRows = AS_GIVEN,
    *,
    casts: bool = False,
) -> Write:
    """Return the target of a job that writes on the table's primary cluster."""
    storage = table.storage
    path = cluster.uri(storage.primary.location)
    constraints = Constraints.of(table.parameters)
    # Properties may come from other clients, and this process has not checked their expressions.
    for text in constraints.defaults.values():
        expression_columns(text)
    return Write(
        path=f"{path}/{facts.staging_name}" if facts.token else path,
        table=table.full_name,
        columns=table.columns,
        partition_columns=table.partition_keys,
        write_id=facts.write_id,
        statement_id=facts.statement_id,
        overwrite=facts.overwrite,
        layout=PLAIN_LAYOUT if facts.token else table.row_layout,
        format=storage.format,
        options=table.file_options,
        static=dict(rows.static),
        input_columns=rows.columns,
        by_name=rows.by_name,
        bucket_columns=storage.bucket_columns,
        sort_columns=storage.sort_columns,
        num_buckets=storage.num_buckets,
        batch=facts.batch,
        defaults=constraints.defaults,
        not_null=constraints.not_null,
        checks=tuple(PlannedCheck(name, text, expression_columns(text)) for name, text in constraints.checks.items()),
        is_external=bool(facts.token),
        casts=casts,
    )


def casts_values(context: StatementContext, cluster: Cluster) -> bool:
    """Return whether the session or the cluster is configured to cast each stored value to the type of its column."""
    return configuration_of(context, cluster).get(STORE_ASSIGNMENT, "").upper() == LEGACY_ASSIGNMENT


@dataclass(slots=True)
class _Part:
    """An unfinished part of a scan, to which directories are added one by one."""

    base_path: str
    layout: str | None
    values: tuple[str | None, ...] | None = None
    paths: list[str] = field(default_factory=list)
    files: int | None = 0
    growing: bool = False
    originals: list[OriginalFiles] = field(default_factory=list)

    def add(self, path: str, files: int | None, *, growing: bool = False) -> None:
        self.paths.append(path)
        self.growing = self.growing or growing
        self.files = None if files is None or self.files is None else self.files + files

    @property
    def planned(self) -> ScanPart:
        return ScanPart(
            tuple(self.paths),
            self.base_path,
            self.layout,
            self.values,
            self.files,
            self.growing,
            tuple(self.originals),
        )


def _deletes(directory: Directory) -> bool:
    """Return whether a directory has delete events. A delete delta of a minor compaction can be without files."""
    return directory.is_delete_delta and directory.files > 0


def _is_plain(partition: BoundPartition) -> bool:
    """Return whether a partition has rows in directories that were written while the table was insert-only."""
    return any(directory.row_layout == PLAIN_LAYOUT and directory.files for directory in partition.directories)


def _folders(
    table: Table, partition: BoundPartition, *, with_originals: bool
) -> Iterator[tuple[str | None, str, int | None, bool]]:
    """Yield (row layout, directory, number of files, whether the files can still grow) for each folder of rows.

    The folders lie below the location of the partition. With ``with_originals`` original files are read as plain files,
    since their rows need no ids.
    """
    if not table.is_transactional:
        yield None, "", None, False
    for directory in partition.directories:
        # A base without a file, as TRUNCATE makes it, only hides other directories.
        if directory.is_delete_delta or not directory.files:
            continue
        if directory.row_layout != ORIGINAL_LAYOUT:
            yield directory.row_layout, directory.name, directory.files, directory.is_growing
        elif with_originals:
            yield PLAIN_LAYOUT, directory.name, directory.files, False


def _originals(partition: BoundPartition, place: str) -> list[OriginalFiles]:
    """Return the original files of a partition, in its folder and in each base or delta."""
    found = []
    loose: list[tuple[str, int]] = []
    for directory in partition.directories:
        if directory.row_layout != ORIGINAL_LAYOUT:
            continue
        acid = parse_directory(directory.name)
        if acid is None:
            loose.append((directory.name, directory.rows))
        else:
            found.append(OriginalFiles(place, acid.max_write_id, acid.statement_id or 0, folder=directory.name))
    return [*([OriginalFiles(place, files=tuple(loose))] if loose else []), *found]


def _filter(bound: BoundTable) -> WriteIdFilter | None:
    if not bound.partly_visible or bound.write_ids is None:
        return None
    return WriteIdFilter(bound.write_ids.high_watermark, bound.write_ids.exceptions)
