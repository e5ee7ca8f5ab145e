"""The plans of a compaction's jobs, computed from the directories to merge, without a read of database or files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_hivex.core.catalog.directories import Directory
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import AcidDirectory, DirectoryKind, parse_directory
from airflow_hivex.core.model.objects import ORIGINAL_LAYOUT, PLAIN_LAYOUT, StoredTable
from airflow_hivex.core.model.plans import (
    Compaction,
    OriginalFiles,
    Plan,
    Rebalance,
    Scan,
    ScanPart,
    Write,
    WriteIdFilter,
    WrittenDirectory,
)
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList


@dataclass(frozen=True, slots=True)
class CompactionTarget:
    """The table or partition to compact: its name, id and location on the primary cluster."""

    table: StoredTable
    partition: str | None
    partition_id: int | None
    location: str
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One job of a compaction. If ``is_major``, it merges ``inputs`` into a base, else into deltas.

    ``inputs`` are in reading order. ``txn_id`` is the transaction of the compaction, and ``write_ids`` are the write
    ids that the compaction is allowed to merge. A job with ``rebalance`` writes a base.
    """

    target: CompactionTarget
    inputs: tuple[Directory, ...]
    is_major: bool
    txn_id: int
    write_ids: ValidCompactorWriteIdList
    rebalance: Rebalance | None = None

    def plan(self, tag: str, name: str, scheduler_pool: str, spark_conf: dict[str, str]) -> Plan:
        """Return the job's plan."""
        rows = [each for each in self.inputs if not each.is_delete_delta and each.files]
        deletes = self._deletes()
        valid = self._filter()
        return Plan(
            tag=tag,
            name=name,
            sql="",
            scans=(self._scan(tag, rows, deletes if self.is_major else (), valid),),
            write=self._write(),
            compaction=Compaction(
                deletes=() if self.is_major else deletes,
                is_of_one_layout=self._is_of_one_layout(rows),
                rows=sum(each.rows for each in rows),
                size_bytes=sum(each.size_bytes for each in rows),
                rebalance=self.rebalance,
            ),
            scheduler_pool=scheduler_pool,
            spark_conf=spark_conf,
        )

    def _is_of_one_layout(self, rows: Sequence[Directory]) -> bool:
        return {each.row_layout for each in rows} == {self.target.table.row_layout} != {PLAIN_LAYOUT}

    def _scan(
        self,
        view: str,
        rows: Sequence[Directory],
        deletes: tuple[ScanPart, ...],
        valid: WriteIdFilter | None,
    ) -> Scan:
        table = self.target.table
        return Scan(
            view=view,
            table=table.full_name,
            columns=table.columns,
            partition_columns=(),
            format=table.storage.format,
            base_path=self._uri,
            parts=tuple(self._parts(rows)),
            options=table.read_options,
            is_transactional=True,
            filter=valid,
            deletes=deletes,
            row_ids=not table.is_insert_only,
            partition_row_ids=table.partition_row_ids,
        )

    @property
    def _uri(self) -> str:
        return self.target.cluster.uri(self.target.location)

    def _parts(self, rows: Sequence[Directory]) -> Iterator[ScanPart]:
        """Yield one part of the scan for each row layout, with the directories of this layout."""
        originals = [each for each in rows if each.row_layout == ORIGINAL_LAYOUT]
        if originals:
            loose = tuple((each.name, each.rows) for each in originals if each.is_original)
            groups = [OriginalFiles(self._uri, files=loose)] if loose else []
            for each in originals:
                named = parse_directory(each.name)
                if named is not None:
                    groups.append(
                        OriginalFiles(self._uri, named.max_write_id, named.statement_id or 0, folder=each.name)
                    )
            yield ScanPart((), self._uri, ORIGINAL_LAYOUT, originals=tuple(groups))
        for layout in dict.fromkeys(each.row_layout for each in rows if each.row_layout != ORIGINAL_LAYOUT):
            yield self._part([each for each in rows if each.row_layout == layout])

    def _part(self, directories: Sequence[Directory]) -> ScanPart:
        return ScanPart(
            paths=tuple(f"{self._uri}/{each.name}" for each in directories),
            base_path=self._uri,
            layout=directories[0].row_layout,
            files=sum(each.files for each in directories),
            growing=any(each.is_growing for each in directories),
        )

    def _deletes(self) -> tuple[ScanPart, ...]:
        found = [each for each in self.inputs if each.is_delete_delta and each.files]
        layouts = dict.fromkeys(each.row_layout for each in found)
        return tuple(self._part([each for each in found if each.row_layout == layout]) for layout in layouts)

    def _filter(self) -> WriteIdFilter | None:
        """Return a filter that excludes aborted write ids in streaming batches, or None if no filter is needed.

        Only the directories of streaming batches can have rows of aborted transactions.
        """
        batches = [named for named in self._named if named.is_batch]
        aborted = tuple(
            write_id
            for write_id in self.write_ids.aborted_ids
            if any(each.min_write_id <= write_id <= each.max_write_id for each in batches)
        )
        return WriteIdFilter(self.write_ids.high_watermark, aborted) if aborted else None

    @property
    def _named(self) -> list[AcidDirectory]:
        return [named for named in (parse_directory(each.name) for each in self.inputs) if named is not None]

    def _write(self) -> Write:
        table = self.target.table
        named = self._named
        # Original files have the write id 0.
        highest = max((each.max_write_id for each in named), default=0)
        lowest = 0 if self.is_major else min(each.min_write_id for each in named)
        return Write(
            path=self._uri,
            table=table.full_name,
            columns=table.columns,
            partition_columns=(),
            write_id=highest,
            overwrite=self.is_major,
            layout=table.row_layout,
            format=table.storage.format,
            options=table.file_options,
            bucket_columns=table.storage.bucket_columns,
            num_buckets=table.storage.num_buckets,
            compacted=(lowest, highest, self.txn_id),
        )

    def followed_by(self, written: Sequence[WrittenDirectory]) -> tuple[Directory, ...]:
        """Return the directories that the job has written, as the inputs of the next job."""
        layout = self.target.table.row_layout
        return tuple(
            Directory(each.name, each.row_layout or layout, each.files, each.rows, each.size_bytes) for each in written
        )


def first_jobs(job: CompactionJob, most_deltas: int) -> list[CompactionJob]:
    """Return the minor compactions that must run before ``job``.

    Each minor compaction merges ``most_deltas`` deltas. A job with at most ``most_deltas`` deltas needs none.

    Deltas with a common write id, such as the deltas of one transaction, are always merged together, even if they are
    more than ``most_deltas``. Source: docs/reference/compaction.md, "Worker", rule 9.
    """
    deltas = [(each, ids) for each in job.inputs if (ids := _write_ids(each)) is not None]
    if len(deltas) <= most_deltas:
        return []
    jobs = []
    start = 0
    for _ in range(len(deltas) // most_deltas):
        end = min(start + most_deltas, len(deltas))
        highest = max((last for _, (_, last) in deltas[start:end]), default=0)
        while end < len(deltas) and deltas[end][1][0] <= highest:
            highest = max(highest, deltas[end][1][1])
            end += 1
        if end - start > 1 and end - start < len(deltas):
            inputs = tuple(each for each, _ in deltas[start:end])
            jobs.append(replace(job, inputs=inputs, is_major=False, rebalance=None))
        start = end
    return jobs


def _write_ids(directory: Directory) -> tuple[int, int] | None:
    """Return the first and last write id of a delta or delete delta, or None for a base or an original file."""
    named = parse_directory(directory.name)
    if named is None or named.kind is DirectoryKind.BASE:
        return None
    return named.min_write_id, named.max_write_id
