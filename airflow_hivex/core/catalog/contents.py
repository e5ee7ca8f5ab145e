"""The contents of a table, read in one round trip: partitions, directories, and the locations of copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Text,
    cast,
    func,
    literal_column,
    null,
    select,
    union_all,
)

from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.pruning import FoundPartition, check_stored_alike, database_conditions, matching
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import And, Predicate
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
)

_PARTITION, _DIRECTORY, _LOCATION, _HELD = range(4)
_Restriction: TypeAlias = Callable[[ColumnElement[Any]], ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class TableContents:
    """The chosen partitions of a table, their registered directories, and their copies on some clusters.

    ``directories`` is a dict from partition id to directories; the id is None for a table without partitions.
    ``locations`` has the locations of copies: a dict from cluster to a dict from partition id to location. ``held`` is
    a dict from cluster to the ids of the directories that the cluster has.
    """

    partitions: Sequence[FoundPartition] = ()
    directories: Mapping[int | None, Sequence[RegisteredDirectory]] = field(default_factory=dict)
    locations: Mapping[str, Mapping[int | None, str]] = field(default_factory=dict)
    held: Mapping[str, frozenset[int]] = field(default_factory=dict)


_TAKEN_ALONG = 200
"""The largest number of partitions whose contents are read in one query together with the list of partitions."""


def read_contents(
    connection: Connection, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]
) -> TableContents:
    """Return the contents of the partitions that match a predicate, with their copies on some clusters.

    Most reads take one round trip. If the database cannot decide the whole predicate, and finds more than 200
    partitions, each batch of matching partitions takes one more round trip. If partitions of a table without
    transactions have their own storage descriptors, the check of the descriptors takes one more round trip. The result
    can include directories and copies of partitions that do not match.

    Raises:
        InvalidOperationError: the storage descriptor of a partition has another format than the table.
    """
    secondaries = [copy.cluster for copy in table.storage.secondaries if copy.cluster in clusters]
    if not table.is_partitioned:
        return _read(connection, _of_partitions(table, secondaries, None))
    conditions, residual = database_conditions(connection, table, predicate)
    wanted = (
        select(partitions.c.id, partitions.c.name, partitions.c.location, partitions.c.storage_descriptor_id)
        .where(partitions.c.table_id == table.id, ~partitions.c.dropped, *conditions)
        .cte("wanted")
    )
    # For a partition, the number is the id of its own storage descriptor.
    columns = (wanted.c.id, wanted.c.id, wanted.c.name, wanted.c.location, wanted.c.storage_descriptor_id)
    names = _part(_PARTITION, *columns, *[cast(null(), BigInteger)] * 2)
    parts = _of_partitions(table, secondaries, partial(_is_in, select(wanted.c.id)) if conditions else None)
    if residual:
        is_few = select(func.count()).select_from(wanted).scalar_subquery() <= _TAKEN_ALONG
        parts = [part.where(is_few) for part in parts]
    contents = _read(connection, [names, *parts])
    if residual:
        found = matching(contents.partitions, table.partition_keys, And(tuple(residual)))
        if len(contents.partitions) <= _TAKEN_ALONG:
            contents = replace(contents, partitions=found)
        else:
            read = [
                _read(connection, _of_partitions(table, secondaries, partial(_is_in, batch)))
                for batch in batches([each.id for each in found])
            ]
            contents = TableContents(found, *_merged(read))
    if not table.is_transactional:
        check_stored_alike(connection, table, contents.partitions)
    return contents


def _is_in(ids: Any, column: ColumnElement[Any]) -> ColumnElement[bool]:
    return column.in_(ids)


def _merged(
    read: Sequence[TableContents],
) -> tuple[
    dict[int | None, Sequence[RegisteredDirectory]], dict[str, dict[int | None, str]], dict[str, frozenset[int]]
]:
    clusters = {cluster for each in read for cluster in (*each.locations, *each.held)}
    return (
        {key: value for each in read for key, value in each.directories.items()},
        {
            cluster: {key: value for each in read for key, value in each.locations.get(cluster, {}).items()}
            for cluster in clusters
        },
        {cluster: frozenset().union(*(each.held.get(cluster, frozenset()) for each in read)) for cluster in clusters},
    )


def _part(kind: int, *columns: ColumnElement[Any]) -> Any:
    """Return a query for one kind of rows: partitions, directories, copies or held directories.

    All kinds have the columns of a directory, so that one query can combine them.
    """
    names = ("partition_id", "id", "name", "text", "files", "rows", "size_bytes")
    labelled = [column.label(name) for column, name in zip(columns, names, strict=True)]
    return select(literal_column(str(kind), Integer).label("kind"), *labelled)


def _of_partitions(table: StoredTable, secondaries: Sequence[str], restriction: _Restriction | None) -> list[Any]:
    """Return the queries for directories and copies. ``restriction`` selects their partitions; None selects all."""

    def chosen(part: Any, column: ColumnElement[Any]) -> Any:
        return part if restriction is None else part.where(restriction(column))

    d, copies, held = directories.c, cluster_storage_descriptors.c, directory_copies.c
    no_number, no_text = cast(null(), BigInteger), cast(null(), Text)
    parts = []
    if table.is_transactional:
        part = _part(_DIRECTORY, d.partition_id, d.id, d.name, d.row_layout, d.files, d.rows, d.size_bytes)
        parts.append(chosen(part.where(d.table_id == table.id), d.partition_id))
    if secondaries:
        nothing = (no_number, no_number, no_number)
        part = _part(_LOCATION, copies.partition_id, no_number, copies.cluster, copies.location, *nothing)
        # A row without a partition is the copy of a table without partitions; for other tables it only has the folder
        # below which copies of partitions lie.
        is_copy = copies.partition_id.is_not(None) if table.is_partitioned else copies.partition_id.is_(None)
        parts.append(
            chosen(
                part.where(copies.table_id == table.id, copies.cluster.in_(secondaries), is_copy), copies.partition_id
            )
        )
        if table.is_transactional:
            part = _part(_HELD, d.partition_id, held.directory_id, held.cluster, no_text, *nothing)
            joined = part.join_from(directory_copies, directories, d.id == held.directory_id)
            parts.append(chosen(joined.where(d.table_id == table.id, held.cluster.in_(secondaries)), d.partition_id))
    return parts


def _read(connection: Connection, parts: Sequence[Any]) -> TableContents:
    if not parts:
        return TableContents()
    names: list[FoundPartition] = []
    found: dict[int | None, list[RegisteredDirectory]] = defaultdict(list)
    locations: dict[str, dict[int | None, str]] = defaultdict(dict)
    held: dict[str, set[int]] = defaultdict(set)
    for kind, partition_id, id_, name, text, files, rows, size_bytes in connection.execute(union_all(*parts)).all():
        match kind:
            case 0:
                names.append(FoundPartition(id_, name, text, files))
            case 1:
                found[partition_id].append(RegisteredDirectory(name, text, files, rows, size_bytes, id_, partition_id))
            case 2:
                locations[name][partition_id] = text
            case _:
                held[name].add(id_)
    names.sort()
    return TableContents(names, found, locations, {cluster: frozenset(ids) for cluster, ids in held.items()})
