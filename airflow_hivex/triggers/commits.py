"""A trigger that starts DAGs after commits. The tables of a connection share one poll of the notification log.

A watcher is the trigger of one asset. Each watcher yields one event for each committed transaction that has written to
its tables. After a restart the watcher continues after the last event that Airflow has stored. So a restart of the
triggerer neither loses nor repeats a commit. The plugin of `airflow_hivex.plugins.commit_events` records the last
stored event.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hivex.assets.hivex import create_asset
from airflow_hivex.core.errors import EventsPurgedError, EventsReplacedError, HivexError, InvalidObjectError
from airflow_hivex.core.model.identifiers import check_name
from airflow_hivex.hooks.warehouse import WarehouseHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Sequence

    from airflow.sdk import Asset

    from airflow_hivex.core.events.notification_log import Bookmark, Event

SOURCE = "hivex"
DELIVERED = "hivex_delivered_event"
"""The key, in the state of an asset, for the id of the last event that Airflow has stored."""
POSITION = "hivex_position"
"""The key, in the state of an asset, for the id of the last event of the log that the watcher has finished."""
PRODUCER = "hivex_producer:"
"""The first part of the keys, in the state of an asset, of the tasks that have written to the table."""
WATCHED = {"hivex_events": "commits"}
"""The extra of assets whose events come from the notification log. Operators do not send events for these assets."""
BATCH = 500
STORE_EVERY_S = 60.0
_yielded: dict[int, int] = {}
"""A dict from the id of a trigger in this process to the id of the last event that the trigger has yielded."""


class Batch(NamedTuple):
    """The result of one read of the notification log: commits, and a bookmark, the position of the next read."""

    bookmark: Bookmark
    commits: list[dict[str, Any]]


def watched_table(
    table: str,
    *,
    hivex_conn_id: str = WarehouseHook.default_conn_name,
    database: str = "default",
    partition: str | None = None,
    poll_interval: float = 5.0,
) -> Asset:
    """Return the asset of a table. Each transaction that commits to the table becomes an event of the asset.

    ::

        with DAG("on_sales", schedule=watched_table("shop.sales")):
            ...

    :param table: ``table`` or ``database.table``
    :param hivex_conn_id: the connection of type ``hivex``
    :param database: the database, if ``table`` does not name it
    :param partition: a partition, ``key=value/...``, or the first parts of partitions; see :class:`HivexCommitTrigger`
    :param poll_interval: seconds between two reads of the log, which watchers with the same connection and interval
        share
    """
    from airflow.sdk import AssetWatcher

    if "@" in table:
        raise ValueError(f"{table} is a link, which has no commits; watch its source")
    asset = create_asset(table=table, database=database, hivex_conn_id=hivex_conn_id, extra=dict(WATCHED))
    trigger = HivexCommitTrigger(
        tables=asset.uri.partition("://")[2].partition("/")[2].replace("/", "."),
        partition=partition,
        hivex_conn_id=hivex_conn_id,
        poll_interval=poll_interval,
    )
    asset.watchers.append(AssetWatcher(name="commits", trigger=trigger))
    return asset


class HivexCommitTrigger(BaseEventTrigger):
    """Yield an event for each committed transaction that has written to one of the tables.

    The payload is ``{"source": "hivex", "event_id", "txn_id", "time", "tables", "write_ids", "partitions"}``: all
    tables of the transaction, with their write ids and written partitions. If the notification log was purged while
    the triggerer was down, one event has ``"missed": true`` and no transaction.

    :param tables: ``table`` or ``database.table``, or a list of such names; None for all tables
    :param partition: a partition, ``key=value/...``, or first parts. Commits to other partitions yield no events; one
        without known partitions does
    :param hivex_conn_id: the connection of type ``hivex``
    :param poll_interval: seconds between two reads of the notification log
    """

    def __init__(
        self,
        *,
        tables: str | Sequence[str] | None = None,
        partition: str | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tables = None if tables is None else sorted(map(_checked, [tables] if isinstance(tables, str) else tables))
        self.partition = partition
        self.hivex_conn_id = hivex_conn_id
        self.poll_interval = _seconds(poll_interval)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and the arguments of its constructor."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "tables": self.tables,
            "partition": self.partition,
            "hivex_conn_id": self.hivex_conn_id,
            "poll_interval": self.poll_interval,
        }

    def shared_stream_key(self) -> Hashable | None:
        """Return the key of the shared poll. It is equal for two watchers with the same connection and interval."""
        return ("hivex commits", self.hivex_conn_id, str(self.poll_interval))

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Batch]:
        """Yield batches of the commits that the notification log records after this call."""
        trigger = cls(**kwargs)
        bookmark = _at(await trigger._in_thread(_current_id))
        while True:
            batch = await trigger._look(bookmark)
            if batch is None:
                await asyncio.sleep(trigger.poll_interval)
            else:
                bookmark = batch.bookmark
                yield batch

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """Yield the events after the last stored event of Airflow: first from the log, then from the stream."""
        progress = await self._progress()
        # The stream has all events since its subscription, which was before this read: none is lost in between.
        while (batch := await self._look(progress.bookmark)) is not None:
            async for event in self._events(batch, progress):
                yield event
        async for batch in shared_stream:
            async for event in self._events(batch, progress):
                yield event

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the log and yield the events. A triggerer without shared streams calls this method."""
        progress = await self._progress()
        while True:
            batch = await self._look(progress.bookmark)
            if batch is None:
                await asyncio.sleep(self.poll_interval)
                continue
            async for event in self._events(batch, progress):
                yield event

    async def _events(self, batch: Batch, progress: _Progress) -> AsyncIterator[TriggerEvent]:
        for commit in batch.commits:
            if commit["event_id"] > progress.position and self._matches(commit):
                progress.note(commit["event_id"])
                yield TriggerEvent(commit)
        if batch.bookmark.position >= progress.position:
            progress.position, progress.recent = batch.bookmark.position, batch.bookmark.recent
        await progress.store()

    async def _progress(self) -> _Progress:
        progress = _Progress(self)
        await progress.load()
        if progress.position < 0:
            progress.position = await self._in_thread(_current_id)
            await progress.store(now=True)
        return progress

    async def _look(self, bookmark: Bookmark) -> Batch | None:
        """Return the commits after a bookmark, or None if the log has no new event.

        If the metastore cannot be reached, wait until the metastore answers.
        """
        while True:
            try:
                return await asyncio.to_thread(_read, self.hivex_conn_id, bookmark)
            except HivexError as error:
                if not error.retryable:
                    raise
                self.log.warning("Looking again in %s s: %s", self.poll_interval, error)
                await asyncio.sleep(self.poll_interval)

    async def _in_thread(self, look: Any) -> int:
        while True:
            try:
                return int(await asyncio.to_thread(look, self.hivex_conn_id))
            except HivexError as error:
                if not error.retryable:
                    raise
                self.log.warning("Looking again in %s s: %s", self.poll_interval, error)
                await asyncio.sleep(self.poll_interval)

    def _matches(self, commit: dict[str, Any]) -> bool:
        if commit.get("missed"):
            return True
        return any(
            (self.tables is None or table in self.tables) and self._has_partition(commit["partitions"].get(table))
            for table in commit["tables"]
        )

    def _has_partition(self, partitions: Sequence[str] | None) -> bool:
        if self.partition is None or not partitions:
            return True
        return any(f"{each}/".startswith(f"{self.partition}/") for each in partitions)


class _Progress:
    """The position of a watcher in the notification log, in memory and in the state of its asset."""

    def __init__(self, trigger: HivexCommitTrigger) -> None:
        self._trigger = trigger
        self._state = trigger.asset_state_store
        self._stored_at = time.monotonic()
        self.position = -1
        self.recent: tuple[Event, ...] = ()
        self.yielded: int | None = None

    @property
    def bookmark(self) -> Bookmark:
        """Return the bookmark of the position."""
        is_of_place = bool(self.recent) and self.recent[-1].id == self.position
        return _at(self.position, self.recent if is_of_place else ())

    def note(self, event_id: int) -> None:
        """Record an event right before the trigger yields the event."""
        self.position = self.yielded = event_id
        if self._trigger.trigger_id is not None:
            _yielded[self._trigger.trigger_id] = event_id

    async def load(self) -> None:
        """Read the position from the state of the asset. The position of a new watcher is -1."""
        for key in (POSITION, DELIVERED):
            self.position = max(self.position, await self._get(key))
        if self._trigger.trigger_id is not None:
            # A failed trigger is restarted in the same process, perhaps before Airflow has stored its last events.
            self.position = max(self.position, _yielded.get(self._trigger.trigger_id, -1))

    async def store(self, *, now: bool = False) -> None:
        """Store the position when Airflow has stored all events before the position, but at most once a minute.

        If Airflow has not stored these events within two minutes, store the position with a warning. With ``now`` do
        not wait for the minute.
        """
        if self._state is None or not (now or time.monotonic() - self._stored_at > STORE_EVERY_S):
            return
        if self.yielded is not None and await self._get(DELIVERED) < self.yielded:
            if time.monotonic() - self._stored_at < 2 * STORE_EVERY_S:
                return
            self._trigger.log.warning(
                "The plugin hivex_commit_events has not noted event %s. A restart may repeat events.", self.yielded
            )
        await self._state.aset(POSITION, self.position)
        self._stored_at = time.monotonic()

    async def _get(self, key: str) -> int:
        if self._state is None:
            return -1
        try:
            found = await self._state.aget(key, -1)
        except ValueError as error:
            raise InvalidObjectError(
                "watcher",
                str(self._trigger.tables),
                "several assets have the same watcher; give one of them another poll_interval",
            ) from error
        return found if isinstance(found, int) else -1


def _checked(table: str) -> str:
    """Return ``table`` or ``database.table`` in lower case.

    :raises ValueError: the text is not a valid name of a table
    """
    try:
        return ".".join(check_name("table", part) for part in str(table).split(".", 1))
    except InvalidObjectError as error:
        raise ValueError(f"{table!r} is not a valid name of a table: {error}") from None


def _seconds(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"poll_interval is {value!r}; it must be a number of seconds above 0")
    return float(value)


def _current_id(hivex_conn_id: str) -> int:
    return WarehouseHook(hivex_conn_id).get_metastore().notification_log.current_event_id()


def _at(position: int, recent: tuple[Event, ...] = ()) -> Bookmark:
    from airflow_hivex.core.events.notification_log import Bookmark

    return Bookmark(position, recent)


def _read(hivex_conn_id: str, bookmark: Bookmark) -> Batch | None:
    """Return the commits after a bookmark of the notification log, or None if the log has no new event."""
    log = WarehouseHook(hivex_conn_id).get_metastore().notification_log
    try:
        events, following = log.read(bookmark, limit=BATCH)
    except (EventsPurgedError, EventsReplacedError):
        current = log.current_event_id()
        missed = {"source": SOURCE, "event_id": current, "txn_id": None, "time": None, "missed": True}
        return Batch(_at(current), [{**missed, "tables": [], "write_ids": {}, "partitions": {}}])
    if not events:
        return None
    commits = [event for event in events if event.type.value == "COMMIT_TXN" and event.message.get("write_ids")]
    return Batch(following, [_payload(event) for event in commits])


def _payload(event: Event) -> dict[str, Any]:
    write_ids = dict(event.message["write_ids"])
    return {
        "source": SOURCE,
        "event_id": event.id,
        "txn_id": event.txn_id,
        "time": event.time.isoformat(),
        "tables": sorted(write_ids),
        "write_ids": write_ids,
        "partitions": dict(event.message.get("partitions", {})),
    }
