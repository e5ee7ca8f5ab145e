"""Calls about the notification log, and about partitions that clients mark as complete."""

from __future__ import annotations

import json
from typing import Any

from airflow_hivex.core.errors import EventsPurgedError, InvalidOperationError, NoSuchObjectError
from airflow_hivex.core.events.notification_log import Event, PartitionEventType
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import partition_name
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

FORMAT = "hivex-1"
"""The name of the format of an event's message: JSON whose fields this project defines.

Hive's own format has the name ``json-0.2``. So a client can distinguish the two formats.
"""
_MOST = 10_000


@call("get_current_notificationEventId")
def get_current_notification_event_id(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the id of the newest event."""
    return ttypes.CurrentNotificationEventId(eventId=endpoint.metastore.notification_log.current_event_id())


@call("get_next_notification")
def get_next_notification(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the events with a higher id than the request's id, the oldest first."""
    request = args.rqst
    most = request.maxEvents if request.maxEvents and request.maxEvents > 0 else _MOST
    skipped = set(request.eventTypeSkipList or ())
    try:
        found = endpoint.metastore.notification_log.events(max(request.lastEvent or 0, 0), min(most, _MOST))
    except EventsPurgedError as error:
        raise ttypes.MetaException(str(error)) from error
    events = [_event(each) for each in found if each.type.value not in skipped]
    return ttypes.NotificationEventResponse(events=events)


def _event(event: Event) -> Any:
    return ttypes.NotificationEvent(
        eventId=event.id,
        eventTime=int(event.time.timestamp()),
        eventType=event.type.value,
        dbName=event.database,
        tableName=event.table,
        message=json.dumps(event.message, ensure_ascii=False),
        messageFormat=FORMAT,
        catName="hive",
    )


@call("get_notification_events_count")
def get_notification_events_count(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the number of events of a database with a higher id than the request's id."""
    request = args.rqst
    wanted = read_database(request.dbName).name
    log, after, number = endpoint.metastore.notification_log, max(request.fromEventId or 0, 0), 0
    last = request.toEventId or None
    while batch := log.events(after, _MOST):
        number += sum(1 for each in batch if each.database == wanted and (last is None or each.id <= last))
        after = batch[-1].id
        if last is not None and after >= last:
            break
    return ttypes.NotificationEventsCountResponse(eventsCount=number)


@call("fire_listener_event")
def fire_listener_event(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Accept an event about an insert into an external table, but record nothing."""
    return ttypes.FireEventResponse(eventIds=[])


@call("add_write_notification_log", "add_write_notification_log_in_batch")
def add_write_notification_log(_endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Accept a list of the files that a client has written, but record nothing."""
    del args
    return ttypes.WriteNotificationLogResponse()


@call("markPartitionForEvent")
def mark_partition_for_event(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Mark a partition for an event, such as the end of a load. The partition need not exist."""
    endpoint.metastore.partition_events.mark(*_asked(endpoint, args))


@call("isPartitionMarkedForEvent")
def is_partition_marked_for_event(endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Return whether a partition is marked for an event. The partition need not exist."""
    return endpoint.metastore.partition_events.is_marked(*_asked(endpoint, args))


def _asked(endpoint: Endpoint, args: Any) -> tuple[str, str, str, PartitionEventType]:
    """Return (database, table, partition, event) of a call that marks a partition or reads its mark.

    Raises:
        MetaException: a field is missing, or the type of the event is unknown.
        InvalidOperationError: the table is a link, whose partitions cannot be marked.
        UnknownTableException: the table does not exist.
        InvalidPartitionException: the call does not give one value for each partition key.
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
