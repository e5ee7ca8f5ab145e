"""Calls about the notification log."""

from __future__ import annotations

import json
from typing import Any

from airflow_hivex.core.errors import EventsPurgedError
from airflow_hivex.core.events.notification_log import Event
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

FORMAT = "hivex-1"
"""The format of messages: JSON of our own, not Hive's ``json-0.2``, so that no client takes one for the other."""
_MOST = 10_000


@call("get_current_notificationEventId")
def get_current_notification_event_id(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the id of the newest event."""
    return ttypes.CurrentNotificationEventId(eventId=endpoint.metastore.notification_log.current_event_id())


@call("get_next_notification")
def get_next_notification(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return events after an id, the oldest first."""
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
    """Return the number of events of a database after an id."""
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
    """Accept an event of a client's insert into an external table; there is no file to note here."""
    return ttypes.FireEventResponse(eventIds=[])


@call("add_write_notification_log", "add_write_notification_log_in_batch")
def add_write_notification_log(_endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Accept the files of a client's write."""
    del args
    return ttypes.WriteNotificationLogResponse()
