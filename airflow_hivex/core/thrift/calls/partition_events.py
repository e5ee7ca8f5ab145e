"""Calls that mark a partition as loaded, and ask for such a mark."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.errors import InvalidOperationError, NoSuchObjectError
from airflow_hivex.core.events.notification_log import PartitionEventType
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import partition_name
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint


@call("markPartitionForEvent")
def mark_partition_for_event(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Mark a partition, which need not exist."""
    endpoint.metastore.partition_events.mark(*_asked(endpoint, args))


@call("isPartitionMarkedForEvent")
def is_partition_marked_for_event(endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Return whether a partition is marked, which need not exist."""
    return endpoint.metastore.partition_events.is_marked(*_asked(endpoint, args))


def _asked(endpoint: Endpoint, args: Any) -> tuple[str, str, str, PartitionEventType]:
    """Return the names of a table and partition, and the event, that a call names.

    Raises:
        MetaException: the call leaves something out, names a link, or an event that Hive does not have.
        UnknownTableException: the table does not exist.
        InvalidPartitionException: there is not one value for each key of the table.
    """
    if args.db_name is None or args.tbl_name is None or args.part_vals is None:
        raise ttypes.MetaException("An event of a partition needs a database, a table and values of its keys")
    try:
        event = PartitionEventType(args.eventType)
    except ValueError:
        known = ", ".join(f"{each.value} ({each.name})" for each in PartitionEventType)
        raise ttypes.MetaException(
            f"{args.eventType} is not a valid event of a partition; these are: {known}"
        ) from None
    name = read_database(args.db_name).name
    if "@" in args.tbl_name:
        reason = "partitions of its source are marked, by the name of the source"
        raise InvalidOperationError("An event of a partition", f"{name}.{args.tbl_name}", reason)
    try:
        table = endpoint.catalog.get_table(name, args.tbl_name)
    except NoSuchObjectError as error:
        raise ttypes.UnknownTableException(str(error)) from error
    return table.database, table.name, _name_of(table, args.part_vals), event


def _name_of(table: StoredTable, values: dict[str, str]) -> str:
    keys = [key.name for key in table.partition_keys]
    if sorted(values) != sorted(keys):
        given, wanted = ", ".join(sorted(values)) or "none", ", ".join(keys) or "none"
        raise ttypes.InvalidPartitionException(f"The keys of {table.full_name} are: {wanted}; given are: {given}")
    return partition_name(keys, [values[key] for key in keys])
