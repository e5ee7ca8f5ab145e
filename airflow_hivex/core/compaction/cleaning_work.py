"""The work of the cleaner for each table or partition: its folders, its obsolete directories, and their readers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, or_, select

from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.partition_rows import secondaries_of
from airflow_hivex.core.catalog.table_rows import select_tables_by_id
from airflow_hivex.core.compaction.readers import Readers
from airflow_hivex.core.model.cleaning import (
    Aborted,
    Blocker,
    CleaningOutcome,
    CleaningTask,
    Deletion,
    forbids_cleanup,
    obsolete,
    replacing,
)
from airflow_hivex.core.model.compaction import Compaction
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import directories, partitions

# SQLite allows conditions of depth 1,000 at most.
_TABLES_A_BATCH = 200


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """An existing partition, with the columns that the cleaner needs."""

    id: int
    location: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CleanedFolder:
    """The folder of a table or partition on one cluster. Its bases and deltas are ``depth`` levels below it."""

    cluster: str
    location: str
    depth: int = 0


@dataclass(slots=True)
class CleaningWork:
    """The work of the cleaner for one queue entry, or for the aborted data of one table or partition.

    The work is decided before files are listed.
    """

    table_id: int
    database: str
    name: str
    partition: str | None
    entry: Compaction | None = None
    aborted: Aborted | None = None
    table: Table | None = None
    place: CleanedPartition | None = None
    folders: tuple[CleanedFolder, ...] = ()
    registered: dict[str, RegisteredDirectory] = field(default_factory=dict)
    batches: frozenset[tuple[int | None, str]] = frozenset()
    write_ids: ValidWriteIdList | None = None
    valid_txns: ValidTxnList | None = None
    obsolete: frozenset[str] = frozenset()
    replacing: tuple[RegisteredDirectory, ...] = ()
    floor: int | None = None
    waiting: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    outcome: CleaningOutcome = CleaningOutcome.CLEANED
    message: str | None = None

    @property
    def is_active(self) -> bool:
        """Return whether the cleaner must look for files to delete."""
        return self.outcome in (CleaningOutcome.CLEANED, CleaningOutcome.WAITING) and bool(self.folders)

    def task(self, deleted: Iterable[Deletion] = ()) -> CleaningTask:
        """Return the report of the work. ``deleted`` are the deleted files or, in a plan, the files to be deleted."""
        return CleaningTask(
            compaction_id=None if self.entry is None else self.entry.id,
            database=self.database,
            table=self.name,
            partition=self.partition,
            outcome=self.outcome,
            deleted=tuple(deleted),
            waiting=self.waiting,
            blockers=self.blockers,
            message=self.message,
        )


def read_works(
    connection: Connection, works: Sequence[CleaningWork], settings: Settings, *, without_locks: bool, now_ms: int
) -> None:
    """Complete all works: read their tables, partitions, directories and readers, and decide what is obsolete."""
    by_id = {t.id: t for t in select_tables_by_id(connection, {work.table_id for work in works})}
    # Read before the directories: all directories of transactions that have ended by now are registered then.
    readers = Readers(
        connection,
        {each: table.full_name for each, table in by_id.items()},
        without_locks=without_locks,
        now_ms=now_ms,
        retentions={each: history_retention_ms(settings, table.parameters) for each, table in by_id.items()},
    )
    places = read_partitions(connection, works)
    elsewhere = secondaries_of(connection, [place.id for place in places.values()])
    registered = _registered(connection, works, places)
    growing = _growing(connection, [work.table_id for work in works if work.aborted is not None])
    for work in works:
        table = by_id.get(work.table_id)
        if table is None:
            work.message = "the table was dropped"
            continue
        work.table, work.database, work.name = table, table.database, table.name
        work.place = places.get((work.table_id, work.partition))
        if work.outcome is CleaningOutcome.PAUSED:
            continue
        if table.is_partitioned and work.partition is not None and work.place is None and work.aborted is None:
            work.message = "the partition was dropped"
            continue
        parameters = [table.parameters.items(), work.place.parameters.items() if work.place else ()]
        if forbids_cleanup(*map(list, parameters)):
            work.outcome, work.message = CleaningOutcome.REFUSED, "NO_CLEANUP is set"
            continue
        txn_id = None if work.entry is None else work.entry.txn_id
        if txn_id is not None and not readers.valid_txns.is_valid(txn_id):
            work.outcome, work.message = CleaningOutcome.WAITING, "its transaction is not committed"
            continue
        work.write_ids, work.valid_txns = readers.write_ids(work.table_id), readers.valid_txns
        secondaries = elsewhere.get(work.place.id, []) if work.place else []
        work.folders = _folders(table, work, [(copy.cluster, copy.location) for copy in secondaries])
        work.batches = growing.get(work.table_id, frozenset())
        is_any_partition = table.is_partitioned and work.partition is None
        if not is_any_partition:
            found = registered.get((work.table_id, work.place.id if work.place else None), ())
            work.registered = {each.name: each for each in found}
        if work.entry is not None:
            _decide(work, readers)


def _decide(work: CleaningWork, readers: Readers) -> None:
    """Decide which directories of a work are obsolete, and which of them earlier readers still need.

    The results are stored in the work, with the readers that block a deletion.
    """
    assert work.entry is not None
    # The empty name is a partition that is one original file, which nothing can replace.
    names = [name for name in work.registered if name]
    highest = work.entry.highest_write_id
    replaced = obsolete(names, readers.now(work.table_id, highest))
    free = replaced
    blockers = []
    if replaced:
        # Many readers have the same view, so the answers are kept.
        answers: dict[tuple[object, ...], frozenset[str]] = {}
        for blocker, view in readers.of_table(work.table_id, highest):
            key = (view.valid_txns, view.highest, view.later)
            if key not in answers:
                answers[key] = obsolete(names, view)
            if not replaced <= answers[key]:
                blockers.append(blocker)
                free &= answers[key]
    work.obsolete = free
    now = readers.now(work.table_id, highest)
    needed = replacing(names, now, free)
    work.replacing = tuple(work.registered[name] for name in sorted(needed))
    # Versions within the retention read the directories that replace these for the first such version.
    first = readers.first_version(work.table_id, highest)
    replacing_then = needed if first is None else replacing(names, first, free)
    # The write id 0 is that of original files.
    work.floor = max((each.max_write_id for name in replacing_then if (each := parse_directory(name))), default=None)
    work.waiting = tuple(sorted(replaced - free))
    work.blockers = tuple(blockers)
    if work.waiting:
        work.outcome = CleaningOutcome.WAITING
        work.message = f"{len(work.waiting)} obsolete directories may still be read"


def _folders(table: Table, work: CleaningWork, secondaries: Sequence[tuple[str, str]]) -> tuple[CleanedFolder, ...]:
    """Return the folders of a table or partition on its primary cluster, and on each cluster with a copy."""
    primary = table.storage.primary
    roots = [(primary.cluster, primary.location)]
    roots += [(copy.cluster, copy.location) for copy in table.storage.secondaries]
    if not table.is_partitioned:
        return tuple(CleanedFolder(*each) for each in dict.fromkeys(roots))
    if work.partition is None:
        depth = len(table.partition_keys)
        return tuple(CleanedFolder(*each, depth) for each in dict.fromkeys(roots)) if work.aborted is not None else ()
    places = [] if work.place is None else [(primary.cluster, work.place.location), *secondaries]
    if work.aborted is not None:
        # Writes to new partitions go below the folder of the table, whatever the location of the partition is.
        held = {cluster for cluster, _ in places} | ({primary.cluster} if work.place else {c for c, _ in roots})
        places += [(cluster, f"{root}/{work.partition}") for cluster, root in roots if cluster in held]
    return tuple(CleanedFolder(*each) for each in dict.fromkeys(places))


def read_partitions(
    connection: Connection, works: Sequence[CleaningWork]
) -> dict[tuple[int, str | None], CleanedPartition]:
    """Return a dict from (table id, partition name) to partition, for partitions that exist.

    One query for each 200 tables.
    """
    p = partitions.c
    by_table: defaultdict[int, list[str]] = defaultdict(list)
    for work in works:
        if work.partition is not None:
            by_table[work.table_id].append(work.partition)
    found: dict[tuple[int, str | None], CleanedPartition] = {}
    for batch in batches(list(by_table.items()), _TABLES_A_BATCH):
        conditions = [and_(p.table_id == table_id, p.name.in_(names)) for table_id, names in batch]
        query = select(p.table_id, p.name, p.id, p.location, p.parameters).where(~p.dropped, or_(*conditions))
        for row in connection.execute(query):
            found[row.table_id, row.name] = CleanedPartition(row.id, row.location, row.parameters)
    return found


def _registered(
    connection: Connection, works: Sequence[CleaningWork], places: Mapping[tuple[int, str | None], CleanedPartition]
) -> dict[tuple[int, int | None], list[RegisteredDirectory]]:
    """Return a dict from (table id, partition id) to registered directories.

    One query for each 10,000 tables or partitions.
    """
    d = directories.c
    query = select(d.table_id, d.name, d.row_layout, d.files, d.rows, d.size_bytes, d.id, d.partition_id)
    of_partitions = [place.id for place in places.values()]
    of_tables = sorted({work.table_id for work in works if work.partition is None})
    queries = [query.where(d.partition_id.in_(batch)) for batch in batches(of_partitions)]
    queries += [query.where(d.table_id.in_(batch), d.partition_id.is_(None)) for batch in batches(of_tables)]
    found: defaultdict[tuple[int, int | None], list[RegisteredDirectory]] = defaultdict(list)
    for each in queries:
        for row in connection.execute(each):
            found[row.table_id, row.partition_id].append(RegisteredDirectory(*row[1:]))
    return found


def _growing(connection: Connection, table_ids: Sequence[int]) -> dict[int, frozenset[tuple[int | None, str]]]:
    """Return a dict from table id to deltas of streaming batches, as pairs (partition id, name).

    One query for each 10,000 tables.
    """
    d = directories.c
    found: defaultdict[int, set[tuple[int | None, str]]] = defaultdict(set)
    query = select(d.table_id, d.partition_id, d.name).where(
        d.kind == "delta", d.min_write_id < d.max_write_id, d.visibility_txn_id == 0
    )
    for batch in batches(sorted(set(table_ids))):
        for row in connection.execute(query.where(d.table_id.in_(batch))):
            found[row.table_id].add((row.partition_id, row.name))
    return {table_id: frozenset(names) for table_id, names in found.items()}
