"""Start DAGs by commits: one poll of the notification log for all watched tables of a connection.

Each watcher yields one event for each committed transaction that has written to its tables. It continues after the
last event that Airflow has stored, which the plugin of `airflow_hivex.plugins.commit_events` notes in the database
transaction that stores the event: so a restart of the triggerer loses no commit, and repeats none.
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
"""The key of the asset's state under which the plugin notes the last event that Airflow has stored."""
POSITION = "hivex_position"
"""The key of the asset's state with an event of the notification log up to which all commits were yielded."""
WATCHED = {"hivex_events": "commits"}
"""The extra of assets whose events come from the notification log; operators then send no events of their own."""
BATCH = 500
STORE_EVERY_S = 60.0
_yielded: dict[int, int] = {}
"""The last event that each trigger of this process has yielded."""


class Batch(NamedTuple):
    """The result of one look at the notification log: the place behind its last event, and its commits."""

    bookmark: Bookmark
    commits: list[dict[str, Any]]


def watched_table(
    table: str,
    *,
    hivex_conn_id: str = WarehouseHook.default_conn_name,
    database: str = "default",
    partition: str | None = None,
    poll_interval: float = 5.0,
    name: str | None = None,
) -> Asset:
    """Return the asset of a table that has an event for each committed transaction of any process.

    ::

        with DAG("on_sales", schedule=watched_table("shop.sales")):
            ...

    :param table: ``table`` or ``database.table``
    :param hivex_conn_id: the connection of type ``hivex``
    :param database: the database of a table that is named without one
    :param partition: only commits to this partition, ``key=value/...`` or its first parts
    :param poll_interval: seconds between two looks; those of one connection and interval are one look
    :param name: the asset's name; its URI by default
    """
    from airflow.sdk import AssetWatcher

    if "@" in table:
        raise ValueError(f"{table} is a link, which has no commits; watch its source")
    asset = create_asset(table=table, database=database, hivex_conn_id=hivex_conn_id, name=name, extra=dict(WATCHED))
    trigger = HivexCommitTrigger(
        tables=asset.uri.partition("://")[2].partition("/")[2].replace("/", "."),
        partition=partition,
        hivex_conn_id=hivex_conn_id,
        poll_interval=poll_interval,
    )
    asset.watchers.append(AssetWatcher(name="commits", trigger=trigger))
    return asset


class HivexCommitTrigger(BaseEventTrigger):
    """Yields an event for each committed transaction that has written to one of some tables.

    The payload is ``{"source": "hivex", "event_id", "txn_id", "time", "tables", "write_ids", "partitions"}``: all
    tables of the transaction, the write id of each, and the partitions of those that have some. If the triggerer was
    down for so long that the notification log was cut, one event has ``"missed": true`` and no transaction.

    :param tables: ``table`` or ``database.table``, or several; None for all
    :param partition: only commits to this partition, ``key=value/...`` or its first parts; commits that do not name
        their partitions count
    :param hivex_conn_id: the connection of type ``hivex``
    :param poll_interval: seconds between two looks
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
        """Return the path of the class, and the arguments that make an equal trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "tables": self.tables,
            "partition": self.partition,
            "hivex_conn_id": self.hivex_conn_id,
            "poll_interval": self.poll_interval,
        }

    def shared_stream_key(self) -> Hashable | None:
        """Return the key of the poll that all watchers of a connection share."""
        return ("hivex commits", self.hivex_conn_id, str(self.poll_interval))

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Batch]:
        """Yield the commits that are recorded in the notification log from now on."""
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
        """Yield the events since the last one that Airflow has stored: first from the log, then from the stream."""
        progress = await self._progress()
        # The stream has all that is new since the subscription, which was before this look.
        while (batch := await self._look(progress.bookmark)) is not None:
            async for event in self._events(batch, progress):
                yield event
        async for batch in shared_stream:
            async for event in self._events(batch, progress):
                yield event

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the events with a poll of its own, where the triggerer shares none."""
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
        """Return the events behind a place, or None. A metastore that cannot be reached is waited for."""
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
    """The point of the notification log that a watcher has reached, in memory and in the state of its asset."""

    def __init__(self, trigger: HivexCommitTrigger) -> None:
        self._trigger = trigger
        self._state = trigger.asset_state_store
        self._stored_at = time.monotonic()
        self.position = -1
        self.recent: tuple[Event, ...] = ()
        self.yielded: int | None = None

    @property
    def bookmark(self) -> Bookmark:
        """Return the place in the log, with its last events where this process has read them."""
        is_of_place = bool(self.recent) and self.recent[-1].id == self.position
        return _at(self.position, self.recent if is_of_place else ())

    def note(self, event_id: int) -> None:
        """Note an event that is about to be yielded: Airflow stores it, or its process ends."""
        self.position = self.yielded = event_id
        if self._trigger.trigger_id is not None:
            _yielded[self._trigger.trigger_id] = event_id

    async def load(self) -> None:
        """Read the point from the state of the asset; -1 where a watcher begins."""
        for key in (POSITION, DELIVERED):
            self.position = max(self.position, await self._get(key))
        if self._trigger.trigger_id is not None:
            # A trigger that has failed is started again in its process, before its last events are stored.
            self.position = max(self.position, _yielded.get(self._trigger.trigger_id, -1))

    async def store(self, *, now: bool = False) -> None:
        """Store the point from time to time, once Airflow has stored all events before it.

        Only the events since the stored point are read again after a restart. Of those Airflow stores the plugin notes
        the last one.
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
    """Return ``database.table`` as it is compared; a name without a database stays so.

    :raises ValueError: it is not the name of a table
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
    """Return the commits behind a place of the notification log; None where nothing is new."""
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
