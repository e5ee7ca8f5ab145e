"""The compaction that merges the ORC files of each bucket into one file, and copies most stripes unchanged.

Only adjacent small stripes, and stripes with rows to exclude, are rewritten. The rows of each file are sorted by their
key: original write id, bucket property and row id. The merge is possible if the statistics of the stripes prove that
the rows stay sorted when the files of a bucket are joined in the order of their deltas. Source:
docs/reference/spark.md, "Compaction".
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import compress, groupby, pairwise
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import layout, root_checks, root_markers, row_keys, storage, stripe_rewriting
from airflow_hivex.core.job.delete_events import event_files, events_in
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID
from airflow_hivex.core.job.new_directories import NewDirectories
from airflow_hivex.core.job.orc_tail import (
    Concatenated,
    Keys,
    Slice,
    Tail,
    is_rewritable,
    join,
    read_tail,
    rewritten,
    stripe_keys,
    stripes_of,
)
from airflow_hivex.core.job.row_keys import Writer, runs
from airflow_hivex.core.job.staging import Staging
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.job.stripe_rewriting import Form, Piece, Rewritten, rewrite
from airflow_hivex.core.model.directories import NO_BUCKET, bucket_number
from airflow_hivex.core.model.file_properties import COMPRESSION, compression
from airflow_hivex.core.model.plans import Scan, Write, WriteIdFilter

log = logging.getLogger(__name__)

SMALL_STRIPE = 20_000
"""The number of rows below which a stripe is small. Adjacent small stripes are merged."""
PIECE_BYTES = 16 << 20
"""The largest total size, in bytes, of the stripes that are rewritten together into one file."""
FEW_ROWS = 100_000
"""The largest number of rows to rewrite in this process. If there are more rows, Spark's tasks rewrite them."""
MOST_TASKS = 4000

_READERS = 16
_WRITERS = 4
_KNOWN_OPTIONS = {COMPRESSION, "orc.compress"}
_SUFFIX = re.compile(r"bucket_[0-9]+_([0-9]+)")


class _UnfitError(Exception):
    """The error that files cannot be merged by stripes. The compaction must then read and write all rows."""


def put_together(spark: SparkSession, scan: Scan, write: Write, staging: Staging, made: NewDirectories) -> bool:
    """Merge the files of a scan by stripes into a new base or delta; return whether this was possible.

    The files of the scan must have the row layout that ``write`` demands. If the result is False, files were added only
    to the staging directory.
    """
    try:
        if not scan.parts:
            return False
        buckets = {bucket: _parts(stripes, write) for bucket, stripes in _stripes(scan, write).items()}
        pieces = [part for parts in buckets.values() for part in parts if part.is_rewritten]
        names = _rewrite(spark, pieces, scan.filter, write, staging) if pieces else {}
        _join(buckets, names, staging, write, made)
    except (JobError, _UnfitError) as error:
        log.info("Files of %s are not put together: %s", scan.table, error)
        return False
    return True


# -- what there is -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    uri: str
    place: Place
    tail: Tail
    keys: Sequence[Keys]

    @property
    def compression(self) -> str:
        """Return the name of the file's compression, as Spark's writer spells it."""
        return self.tail.compression.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class _Stripe:
    """A stripe of an ORC file. ``deleted`` is a dict from :data:`~.row_keys.Writer` to the ids of deleted rows.

    ``is_touched`` is true if at least one row is excluded. ``is_gone`` is true if all rows are excluded.
    """

    file: _File
    number: int
    rows: int
    size_bytes: int
    deleted: Mapping[Writer, Any]
    is_touched: bool
    is_gone: bool

    @property
    def keys(self) -> Keys:
        return self.file.keys[self.number]

    @property
    def is_small(self) -> bool:
        return self.rows < SMALL_STRIPE


def _stripes(scan: Scan, write: Write) -> dict[int, list[_Stripe]]:
    """Return a dict from bucket to its stripes, which are in the order of the keys of their rows."""
    found = _bucket_files(scan)
    left_out = _LeftOut(scan)
    with ThreadPoolExecutor(_READERS) as pool:
        files = dict(pool.map(_file, [uri for uris in found.values() for uri in uris]))
    buckets = {bucket: [stripe for uri in uris for stripe in left_out.of(files[uri])] for bucket, uris in found.items()}
    wanted = compression("orc", write.options)
    for file in files.values():
        if wanted is not None and file.compression != wanted.replace("uncompressed", "none"):
            raise _UnfitError(f"{file.uri} is not compressed with {wanted}")
    for stripes in buckets.values():
        for stripe, following in pairwise(stripes):
            # Within one file the order is trusted, as in readers.
            if stripe.file is not following.file and not stripe.keys.highest < following.keys.lowest:
                raise _UnfitError(f"rows of {following.file.uri} may belong before some of {stripe.file.uri}")
    return buckets


def _file(uri: str) -> tuple[str, _File]:
    where = place(uri)
    tail = read_tail(where)
    return uri, _File(uri, where, tail, stripe_keys(where, tail))


def _bucket_files(scan: Scan) -> dict[int, list[str]]:
    """Return a dict from bucket to the URIs of its files, which are in the order of the keys of their rows."""
    if len(scan.parts) != 1 or scan.parts[0].originals:
        raise _UnfitError("they are of several row layouts")
    (part,) = scan.parts
    found: dict[int, list[str]] = defaultdict(list)
    count = 0
    for path in part.paths:
        names = [name for name, _ in place(path).files() if not name.startswith(("_", "."))]
        count += len(names)
        # The files of a streaming batch's delta are numbered in the order of its transactions.
        for name in sorted(names, key=lambda name: (int(m[1]) if (m := _SUFFIX.fullmatch(name)) else -1, name)):
            bucket = bucket_number(name)
            if bucket == NO_BUCKET:
                raise _UnfitError(f"{path}/{name} is not a bucket file")
            found[bucket].append(f"{path}/{name}")
    if part.files is not None and count != part.files:
        raise _UnfitError(f"{count} files are there of {part.files}")
    return found


class _LeftOut:
    """The rows that a scan does not see: deleted rows, and rows whose write ids are not valid for the scan."""

    def __init__(self, scan: Scan) -> None:
        self._filter = scan.filter
        self._writers: list[Writer] = []
        self._row_ids: list[Any] = []
        events = events_in(event_files(scan), scan.filter)
        if events is None:
            raise _UnfitError("there are too many delete events for the driver")
        write_ids, buckets, row_ids = (events.column(name).to_numpy() for name in (ORIGINAL_WRITE_ID, BUCKET, ROW_ID))
        order = np.lexsort((row_ids, buckets, write_ids))
        write_ids, buckets, row_ids = write_ids[order], buckets[order], row_ids[order]
        for start, end in runs(write_ids, buckets):
            self._writers.append((int(write_ids[start]), int(buckets[start])))
            self._row_ids.append(np.unique(row_ids[start:end]))

    def of(self, file: _File) -> Iterator[_Stripe]:
        """Yield the stripes of a file, each with its deleted rows."""
        for number, (stripe, keys) in enumerate(zip(file.tail.stripes, file.keys, strict=True)):
            deleted = self._deleted(keys)
            is_touched = bool(deleted) or not self._sees_all(keys)
            # Each row has a unique id, so all of its rows are named.
            is_gone = (
                len(deleted) == 1
                and keys.lowest[:2] == keys.highest[:2]
                and keys.row_ids.maximum - keys.row_ids.minimum + 1 == stripe.rows == sum(map(len, deleted.values()))
            )
            yield _Stripe(file, number, stripe.rows, stripe.size_bytes, deleted, is_touched, is_gone)

    def _deleted(self, keys: Keys) -> dict[Writer, Any]:
        first = bisect_left(self._writers, keys.lowest[:2])
        end = bisect_right(self._writers, keys.highest[:2])
        found = {}
        for writer, row_ids in zip(self._writers[first:end], self._row_ids[first:end], strict=True):
            if keys.buckets.minimum <= writer[1] <= keys.buckets.maximum:
                start, stop = np.searchsorted(row_ids, (keys.row_ids.minimum, keys.row_ids.maximum + 1))
                if start < stop:
                    found[writer] = row_ids[start:stop]
        return found

    def _sees_all(self, keys: Keys) -> bool:
        lowest, highest = keys.written_by
        if self._filter is None:
            return True
        hidden = any(lowest <= write_id <= highest for write_id in self._filter.exceptions)
        return highest <= self._filter.high_watermark and not hidden


# -- what becomes of it --------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Part:
    """Consecutive stripes of a bucket. All are copied from one file, or all are rewritten."""

    is_rewritten: bool
    stripes: list[_Stripe] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, stripe: _Stripe) -> None:
        """Append a stripe."""
        self.stripes.append(stripe)
        self.size_bytes += stripe.size_bytes

    def has_room(self, stripe: _Stripe) -> bool:
        """Return whether the next stripe fits into the part. Both must be copied, or both rewritten."""
        return self.size_bytes + stripe.size_bytes <= PIECE_BYTES if self.is_rewritten else self.file is stripe.file

    @property
    def file(self) -> _File:
        return self.stripes[0].file

    @property
    def rows(self) -> int:
        return sum(stripe.rows for stripe in self.stripes)

    @property
    def piece(self) -> Piece:
        deleted: dict[Writer, list[Any]] = defaultdict(list)
        for stripe in self.stripes:
            for writer, row_ids in stripe.deleted.items():
                deleted[writer].append(row_ids)
        return Piece(
            [(stripe.file.uri, stripe.number) for stripe in self.stripes],
            {writer: np.unique(np.concatenate(row_ids)) for writer, row_ids in deleted.items()},
        )


def _parts(stripes: Sequence[_Stripe], write: Write) -> list[_Part]:
    """Return the stripes of a bucket, divided into parts. All stripes of a part are copied, or all are rewritten."""
    stripes = [stripe for stripe in stripes if not stripe.is_gone]
    changed = [stripe.is_touched or stripe.is_small for stripe in stripes]
    if any(changed) and not _are_rewritable(list(compress(stripes, changed)), stripes[0], write):
        small = sum(stripe.rows for stripe in stripes) < SMALL_STRIPE * len(stripes)
        if small or any(stripe.is_touched for stripe in stripes):
            raise _UnfitError("some stripes have to be rewritten, and have values that Spark has to write")
        changed = [False] * len(stripes)
    parts: list[_Part] = []
    for at, stripe in enumerate(stripes):
        # The rewrite of a single small stripe would not improve it.
        neighbours = changed[max(at - 1, 0) : at] + changed[at + 1 : at + 2]
        is_rewritten = stripe.is_touched or (changed[at] and any(neighbours))
        if not parts or parts[-1].is_rewritten != is_rewritten or not parts[-1].has_room(stripe):
            parts.append(_Part(is_rewritten))
        parts[-1].add(stripe)
    return parts


def _are_rewritable(stripes: Sequence[_Stripe], first: _Stripe, write: Write) -> bool:
    """Return whether ``stripes``, after they are rewritten, can be in one file with the stripe ``first``."""
    is_nested = write.layout == layout.HIVE
    # Other options need Spark's writer.
    return {name.lower() for name in write.options} <= _KNOWN_OPTIONS and all(
        is_rewritable(file.tail, [stripe.number for stripe in group], first.file.tail, is_nested=is_nested)
        for file, group in groupby(stripes, key=lambda stripe: stripe.file)
    )


# -- rewriting -----------------------------------------------------------------------


def _rewrite(
    spark: SparkSession, parts: Sequence[_Part], valid: WriteIdFilter | None, write: Write, staging: Staging
) -> dict[_Part, str]:
    """Rewrite parts; return a dict from each part that still has rows to its file in the staging directory."""
    tail = parts[0].file.tail
    if any(part.file.tail.form != tail.form for part in parts):
        raise _UnfitError(f"{parts[0].file.uri} and others differ in how they are written")
    form = Form(
        parts[0].file.compression.replace("none", "uncompressed"),
        tail.block_size,
        tail.row_index_stride,
        write.layout == layout.HIVE,
        None if valid is None else valid.high_watermark,
        () if valid is None else valid.exceptions,
    )
    directory = staging.create()
    pieces = [part.piece for part in parts]
    if sum(part.rows for part in parts) <= FEW_ROWS:
        done = [rewrite(piece, form, directory) for piece in pieces]
    else:
        done = _in_tasks(spark, pieces, form, directory)
    problem = next((each.problem for each in done if each.problem is not None), None)
    if problem is not None:
        raise _UnfitError(problem)
    return {part: each.name for part, each in zip(parts, done, strict=True) if each.rows}


def _in_tasks(spark: SparkSession, pieces: Sequence[Piece], form: Form, directory: str) -> list[Rewritten]:
    # By value, so that a cluster's Python workers do not need our package.
    for module in (row_keys, storage, root_markers, stripe_rewriting):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    tasks = min(len(pieces), MOST_TASKS)
    given = spark.createDataFrame(stripe_rewriting.as_table(pieces))
    dealt = given.repartitionById(tasks, F.expr(f"CAST({stripe_rewriting.NUMBER} % {tasks} AS INT)"))
    try:
        opened = storage.opened_in("\n".join((directory, *(uri for each in pieces for uri, _ in each.stripes))))
        task = stripe_rewriting.task(form, directory, root_checks.markers(), opened)
        found = dealt.mapInArrow(task, stripe_rewriting.RESULT).toArrow()
    except PythonException as error:
        if root_checks.names_root(str(error)):
            raise
        # For example, executors have no pyarrow.
        raise _UnfitError(str(error)) from error
    return stripe_rewriting.results(found)


# -- joining -------------------------------------------------------------------------


def _join(
    buckets: Mapping[int, Sequence[_Part]],
    names: Mapping[_Part, str],
    staging: Staging,
    write: Write,
    made: NewDirectories,
) -> None:
    directory = made.directory(None, ())
    targets = {bucket: directory / layout.bucket_file_name(bucket) for bucket in buckets}

    def slice_of(part: _Part) -> Slice:
        if part.is_rewritten:
            sources = [stripe.file.tail for stripe in part.stripes]
            return rewritten(staging.place / names[part], sources, is_nested=write.layout == layout.HIVE)
        first, last = part.stripes[0].number, part.stripes[-1].number
        return stripes_of(part.file.place, part.file.tail, first, last + 1)

    def run(bucket: int) -> Concatenated | None:
        slices = [slice_of(part) for part in buckets[bucket] if not part.is_rewritten or part in names]
        return join(targets[bucket], slices) if slices else None

    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            done = [each for each in pool.map(run, buckets) if each is not None]
    except JobError:
        for target in targets.values():
            if target.exists():
                target.delete_file()
        raise
    for each in done:
        made.count(None, each.rows, each.size_bytes)
