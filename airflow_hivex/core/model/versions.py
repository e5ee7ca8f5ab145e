"""Versions of tables: the rows of a table after one of its commits. No I/O.

A version is named by the write id of its commit. It has the rows of this commit and of all commits that were recorded
before it. A lower write id can be committed after a higher one.

Source: docs/how-to/history.md, "Contents of a version".
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import timegm
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from airflow_hivex.core.errors import NoSuchVersionError, VersionExpiredError
from airflow_hivex.core.model.directories import AcidDirectory, DirectoryKind
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.write_ids import ValidWriteIdList

_MILLISECOND = timedelta(milliseconds=1)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class VersionAsOf:
    """The version that a statement names by ``write_id``, by ``time``, or by a time span (``before_now_ms``).

    A time span ends now or, if ``is_of_day`` is true, at the start of the current day in UTC.

    ``marker`` is the ``:name`` marker of the value, or None. ``start`` and ``end`` are the place of the clause in the
    text of a query.
    """

    write_id: int | None = None
    time: datetime | None = None
    before_now_ms: int | None = None
    is_of_day: bool = False
    marker: str | None = None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def time_ms(self, now_ms: int) -> int | None:
        """Return the time in milliseconds since the epoch, or None for a write id. A time without zone is in UTC."""
        if self.before_now_ms is not None:
            begin_ms = now_ms - now_ms % _DAY_MS if self.is_of_day else now_ms
            return begin_ms - self.before_now_ms
        if self.time is None:
            return None
        aware = self.time if self.time.tzinfo is not None else self.time.replace(tzinfo=UTC)
        # A difference of pendulum's times cannot be divided by a timedelta.
        return timegm(aware.utctimetuple()) * 1000 + aware.microsecond // 1000

    def describe(self, now_ms: int) -> str:
        """Return the version as a part of a sentence."""
        time_ms = self.time_ms(now_ms)
        return f"version {self.write_id}" if time_ms is None else f"version at {_time_text(time_ms)}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The commits whose changes a statement reads, from ``since`` to ``until``. None stands for the last commit.

    ``text`` is the clause, and ``start`` and ``end`` are its place in the text of a query.
    """

    since: VersionAsOf
    until: VersionAsOf | None = None
    without_first: bool = False
    without_last: bool = False
    text: str = ""
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    @property
    def markers(self) -> tuple[str, ...]:
        """Return the ``:name`` markers of the values."""
        given = (self.since, self.until)
        return tuple(each.marker for each in given if each is not None and each.marker is not None)


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """One row of the catalog's record of commits to a table. The rows are in the order of ``id``.

    If ``write_id`` is None, the row records a change, such as DROP PARTITION. Versions before this change cannot be
    read.

    If the commit has changed the columns, ``columns_before`` are the columns before the commit, otherwise None.
    """

    id: int
    write_id: int | None
    txn_id: int | None
    committed_ms: int
    columns_before: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table that can be read.

    ``later`` are the write ids that were committed after this version. ``columns`` are the columns of the version, or
    None for the current columns. ``columns_txn_id`` is the first transaction that has changed the columns after this
    version. The version has all commits of the transactions up to ``settled_txn_id``, or of all transactions if
    ``settled_txn_id`` is None.
    """

    write_id: int
    committed_ms: int
    later: tuple[int, ...] = ()
    columns: tuple[Column, ...] | None = None
    columns_txn_id: int | None = None
    settled_txn_id: int | None = None

    def seen(self, write_ids: ValidWriteIdList) -> ValidWriteIdList:
        """Return the write id list of the version, from the current write id list."""
        return without(write_ids, self.later)


def without(write_ids: ValidWriteIdList, later: Iterable[int]) -> ValidWriteIdList:
    """Return the write id list with the write ids ``later`` as open ids."""
    open_ids = {*write_ids.open_ids, *later}
    high_watermark = write_ids.high_watermark
    while high_watermark in open_ids:
        high_watermark -= 1
    return ValidWriteIdList.of(
        write_ids.table,
        high_watermark,
        [each for each in open_ids if each <= high_watermark],
        [each for each in write_ids.aborted_ids if each <= high_watermark],
    )


def is_beyond(directory: AcidDirectory, later: Sequence[int], columns_txn_id: int | None) -> bool:
    """Return whether a reader of an old version must ignore a directory, and read the directories that it has replaced.

    The result is True for a base or a compacted directory with a write id in the sorted ``later``, and for a directory
    that was compacted after the transaction ``columns_txn_id``, because the directory has the changed columns. The
    result is False for deltas of statements: the write id list decides whether a reader sees such a delta.
    """
    if directory.visibility_txn_id and columns_txn_id is not None and directory.visibility_txn_id > columns_txn_id:
        # The directory has the columns of a later definition.
        return True
    if not directory.visibility_txn_id:
        is_base = directory.kind is DirectoryKind.BASE
        return is_base and _has_any(later, directory.max_write_id, directory.max_write_id)
    return _has_any(later, directory.min_write_id, directory.max_write_id)


def _has_any(ids: Sequence[int], low: int, high: int) -> bool:
    place = bisect_left(ids, low)
    return place < len(ids) and ids[place] <= high


def first_readable(record: Sequence[RecordedVersion], now_ms: int, retention_ms: int) -> int:
    """Return the index in ``record`` of the oldest version that can be read.

    This is the version that was current ``retention_ms`` ago.

    If ``retention_ms`` is 0, only the last version can be read. ``record`` must not be empty.
    """
    if not retention_ms:
        return max((place for place, each in enumerate(record) if each.write_id is not None), default=0)
    begins = [
        place
        for place, each in enumerate(record)
        if each.write_id is not None and each.committed_ms <= now_ms - retention_ms
    ]
    return max(begins, default=0)


def find_version(
    table: str,
    record: Sequence[RecordedVersion],
    wanted: VersionAsOf,
    write_ids: ValidWriteIdList,
    *,
    now_ms: int,
    retention_ms: int,
) -> TableVersion:
    """Return the version that a statement names. ``record`` is the whole record of the table, the oldest row first.

    Raises:
        NoSuchVersionError: the table has never had the version.
        VersionExpiredError: the version is older than ``retention_ms``, or a partition was dropped or renamed after it.
    """
    named = wanted.describe(now_ms)
    commits = [place for place, each in enumerate(record) if each.write_id is not None]
    if not commits:
        raise VersionExpiredError(table, named, "no commit to the table is recorded yet; the next one will be")
    place = _place(table, record, commits, wanted, write_ids, now_ms)
    found = record[place]
    assert found.write_id is not None
    if place < first_readable(record, now_ms, retention_ms):
        raise VersionExpiredError(table, named, _retention_text(retention_ms))
    following = record[place + 1 :]
    if any(each.write_id is None for each in following):
        reason = "a partition was dropped or renamed, or the table became transactional, after it"
        raise VersionExpiredError(table, named, reason)
    changes = [each for each in following if each.columns_before is not None]
    later_txns = [each.txn_id for each in following if each.txn_id is not None]
    return TableVersion(
        found.write_id,
        found.committed_ms,
        tuple(each.write_id for each in following if each.write_id is not None),
        changes[0].columns_before if changes else None,
        min((each.txn_id for each in changes if each.txn_id is not None), default=None),
        min(later_txns) - 1 if later_txns else None,
    )


def version_before(
    table: str, record: Sequence[RecordedVersion], wanted: VersionAsOf, write_ids: ValidWriteIdList, *, now_ms: int
) -> int | None:
    """Return the write id of the version before the named version, or None if the named version is the first one.

    Raises:
        NoSuchVersionError: the table has never had the named version.
        VersionExpiredError: the record no longer has the version before the named version.
    """
    commits = [place for place, each in enumerate(record) if each.write_id is not None]
    time_ms = wanted.time_ms(now_ms)
    if time_ms is not None:
        before = [place for place in commits if record[place].committed_ms < time_ms]
    elif commits:
        found = _place(table, record, commits, wanted, write_ids, now_ms)
        before = [place for place in commits if place < found]
    else:
        before = []
    if before:
        return record[before[-1]].write_id
    if not commits or record[commits[0]].txn_id is not None:
        raise VersionExpiredError(table, f"the one before {wanted.describe(now_ms)}", "its record begins later")
    return None


def _place(
    table: str,
    record: Sequence[RecordedVersion],
    commits: Sequence[int],
    wanted: VersionAsOf,
    write_ids: ValidWriteIdList,
    now_ms: int,
) -> int:
    time_ms = wanted.time_ms(now_ms)
    named = wanted.describe(now_ms)
    first = record[commits[0]]
    is_creation = first.txn_id is None
    if time_ms is not None:
        if time_ms > now_ms:
            raise NoSuchVersionError(table, named, f"the time is not yet; it is {_time_text(now_ms)}")
        before = [place for place in commits if record[place].committed_ms <= time_ms]
        if before:
            return before[-1]
        if is_creation:
            raise NoSuchVersionError(table, named, f"the table was created at {_time_text(first.committed_ms)}")
        raise VersionExpiredError(table, named, f"its record begins at {_time_text(first.committed_ms)}")
    for place in reversed(commits):
        if record[place].write_id == wanted.write_id:
            return place
    number = wanted.write_id or 0
    newest = max(each.write_id for each in record if each.write_id is not None)
    if write_ids.is_aborted(number):
        raise NoSuchVersionError(table, named, f"the transaction of write id {number} was aborted")
    if number in write_ids.open_ids:
        raise NoSuchVersionError(table, named, f"the transaction of write id {number} has not committed")
    if number <= newest and not is_creation:
        raise VersionExpiredError(table, named, f"its record begins with version {first.write_id}")
    raise NoSuchVersionError(table, named, f"no commit has this write id; the newest one is {newest}")


def _retention_text(retention_ms: int) -> str:
    if not retention_ms:
        return "hivex.history.retention is 0, so that only the present version can be read"
    return f"it is older than hivex.history.retention, {retention_ms // 1000} s"


def _time_text(time_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + time_ms * _MILLISECOND).isoformat(sep=" ", timespec="milliseconds")
