"""The state of a table's copies: which of them are current, and what the others lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.replication import CopyStatus
from airflow_hivex.core.replication.planning import place_of, registered_places


def copy_statuses(
    bound: BoundTable, contents: TableContents, registered_ms: Mapping[int, int], now_ms: int
) -> Iterator[CopyStatus]:
    """Yield the state of each partition on each cluster that has a copy of it, the primary first. Pure.

    ``registered_ms`` is when each directory was registered on the primary.
    """
    primary = bound.table.storage.primary.cluster
    places = {cluster: registered_places(contents, cluster) for cluster in bound.copies}
    ids: dict[str | None, int | None] = {each.name: each.id for each in contents.partitions}
    for partition in bound.partitions:
        directories = [each for each in partition.directories if isinstance(each, RegisteredDirectory)]
        registered = contents.directories.get(ids.get(partition.name), ())
        yield _status(partition, primary, partition.location, directories, (), None, registered, is_primary=True)
        for cluster, there in bound.copies.items():
            is_current = partition.name in there
            if not is_current and partition.name not in bound.stale.get(cluster, ()):
                continue
            held = contents.held.get(cluster, frozenset())
            has = [each for each in directories if each.id in held]
            lacks = [each for each in directories if each.id not in held]
            since = [registered_ms[each.id] for each in lacks if each.id in registered_ms]
            lag_ms = max(0, now_ms - min(since)) if since else None if lacks else 0
            location = there[partition.name] if is_current else place_of(bound, cluster, partition, places[cluster])
            own = [each for each in registered if each.id in held]
            yield _status(partition, cluster, location, has, lacks, lag_ms, own)


def _status(
    partition: BoundPartition,
    cluster: str,
    location: str,
    has: Sequence[RegisteredDirectory],
    lacks: Sequence[RegisteredDirectory],
    lag_ms: int | None,
    own: Sequence[RegisteredDirectory],
    *,
    is_primary: bool = False,
) -> CopyStatus:
    return CopyStatus(
        partition.name,
        cluster,
        location,
        len(has),
        sum(each.size_bytes for each in has),
        len(lacks),
        sum(each.size_bytes for each in lacks),
        lag_ms,
        is_primary,
        max((last for each in own if (last := _last_write_id(each)) is not None), default=None),
        len(_commits(lacks, own)),
    )


def _commits(lacks: Sequence[RegisteredDirectory], own: Sequence[RegisteredDirectory]) -> set[int]:
    """Return the write ids of the commits that a copy lacks.

    Of the results of compactions those count that are above what the copy has.
    """
    highest = max((last for each in own if (last := _last_write_id(each)) is not None), default=0)
    found: set[int] = set()
    for each in lacks:
        directory = parse_directory(each.name)
        if directory is None:
            found.add(0)
        elif directory.visibility_txn_id or directory.is_batch:
            found.update(range(max(highest + 1, directory.min_write_id), directory.max_write_id + 1))
        else:
            found.add(directory.max_write_id)
    return found


def _last_write_id(directory: RegisteredDirectory) -> int | None:
    found = parse_directory(directory.name)
    return None if found is None else found.max_write_id
