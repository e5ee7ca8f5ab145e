"""Copies of tables that Hive itself can read: the rows of one snapshot, in a directory of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_hivex.core.catalog.tables import owner_at
from airflow_hivex.core.commands.listings import hive_create_statement
from airflow_hivex.core.errors import InvalidOperationError, NoSuchColumnError, NoSuchPartitionError
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.linked_names import places_of
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.column_types import primitives
from airflow_hivex.core.model.objects import HIVE_LAYOUT, Table
from airflow_hivex.core.model.partitions import nullable_values, partition_values
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.model.texts import quoted_text
from airflow_hivex.core.parser.statements import Select

log = logging.getLogger(__name__)

_WRITE_ID = 1


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export: the directories of its rows, which all have ``write_id``, and the table for Hive.

    ``valid_write_ids`` is the snapshot that was copied, None for a table without transactions.
    """

    table: str
    cluster: str
    write_id: int
    create_statement: str
    directories: tuple[WrittenDirectory, ...]
    valid_write_ids: str | None

    @property
    def rows(self) -> int:
        """Return the number of copied rows."""
        return sum(directory.rows for directory in self.directories)


def query_of(table: Table, partitions: Sequence[str]) -> str:
    """Return the query of all columns of a table, of the named partitions or, without names, of all.

    Raises:
        InvalidObjectError: a name is not a valid partition name.
        NoSuchColumnError: a name has a column that is not a partition key.
    """
    columns = ", ".join(_name(column.name) for column in (*table.columns, *table.partition_keys))
    text = f"SELECT {columns} FROM {_name(table.database)}.{_name(table.name)}"  # noqa: S608 - quoted as names
    chosen = " OR ".join(f"({_condition(table, name)})" for name in partitions)
    return f"{text} WHERE {chosen}" if chosen else text


def _condition(table: Table, partition: str) -> str:
    names = [part.partition("=")[0] for part in partition.split("/")]
    keys = {key.name: key.type for key in table.partition_keys}
    tests = []
    for name, value in zip(names, nullable_values(partition), strict=True):
        if name.lower() not in keys:
            raise NoSuchColumnError(table.full_name, f"{name} among its partition keys", list(keys))
        tests.append(f"{_name(name.lower())} {'IS NULL' if value is None else f'= {quoted_text(value)}'}")
    return " AND ".join(tests)


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def _check_owner(context: StatementContext, table: str, target: Path) -> None:
    """Refuse a directory that overlaps the folder of a table.

    Raises:
        InvalidOperationError: the directory overlaps the folder of a table.
    """
    with context.services.store.read() as connection:
        for cluster, place in dict.fromkeys(places_of(context.services, target.as_uri(), target)):
            owner = owner_at(connection, cluster, place)
            if owner is not None:
                reason = f"{target} is not apart from the folder of {owner}; name another directory"
                raise InvalidOperationError("An export for Hive of", table, reason)


def export_for_hive(
    context: StatementContext, statement: Select, table: Table, partitions: Sequence[str], target: Path
) -> Export:
    """Return the rows of a query on all columns of ``table``, in directories of full ACID files below ``target``.

    ``partitions`` are the partitions that the query names.

    Raises:
        NoSuchPartitionError: a partition does not exist.
        InvalidOperationError: the target is not empty, or Hive lacks a column type.
    """
    for column in table.columns:
        if not all(each.kind.in_hive for each in primitives(column.parsed_type)):
            reason = f"Hive has no type for column {column.name} {column.type}; CAST it in a CREATE TABLE AS SELECT"
            raise InvalidOperationError("An export for Hive of", table.full_name, reason)
    target = target.resolve()
    _check_owner(context, table.full_name, target)
    _check_empty(table.full_name, target)
    write = Write(
        path=f"file://{target}",
        table=table.full_name,
        # The exported files have the current names of the columns.
        columns=tuple(replace(column, stored_name=None) for column in table.columns),
        partition_columns=table.partition_keys,
        write_id=_WRITE_ID,
        layout=HIVE_LAYOUT,
        options=table.file_options,
        bucket_columns=table.storage.bucket_columns,
        sort_columns=table.storage.sort_columns,
        num_buckets=table.storage.num_buckets,
    )

    def work(running: Running) -> Export:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        (bound,) = routed.bound
        _check_found(table, partitions, bound.partition_names)
        written = context.run(
            cluster, replace(plan_query(context, running, statement.query, routed, cluster), write=write)
        )
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Export(
            table.full_name,
            cluster.name,
            _WRITE_ID,
            hive_create_statement(table, f"file://{target}"),
            written.directories,
            None if bound.write_ids is None else str(bound.write_ids),
        )

    return in_transaction(context, work, read_only=True)


def _check_found(table: Table, partitions: Sequence[str], found: Sequence[str]) -> None:
    """Refuse a name that no partition has: a copy without rows would hide the typing error.

    Raises:
        NoSuchPartitionError: no partition has the name.
    """
    there = [_parts(name) for name in found]
    for name in partitions:
        if not any(_parts(name) <= each for each in there):
            raise NoSuchPartitionError(table.database, table.name, name)


def _parts(partition: str) -> frozenset[tuple[str, str]]:
    keys = (part.partition("=")[0].lower() for part in partition.split("/"))
    return frozenset(zip(keys, partition_values(partition), strict=True))


def _check_empty(table: str, target: Path) -> None:
    """Refuse a target with files that the export could overwrite, or mix with its rows.

    Raises:
        InvalidOperationError: the target is a file, or a directory that is not empty.
    """
    try:
        holds = next(target.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidOperationError("An export for Hive of", table, f"{target} cannot be listed: {error}") from error
    if holds is not None:
        reason = f"{target} is not empty, it holds {holds.name}; name a new directory"
        raise InvalidOperationError("An export for Hive of", table, reason)
