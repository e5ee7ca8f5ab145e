"""The concatenation of ORC files: their stripes are copied unchanged into one file.

Source: docs/reference/spark.md, "Compaction"; ``OrcFile.mergeFiles`` of Apache ORC, which silently skips files that
this module refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job.orc_tail.nesting import KEY_INDEX, STATISTICS
from airflow_hivex.core.job.orc_tail.tail import MAGIC, Tail, as_job_error, copy_bytes
from airflow_hivex.core.job.orc_tail.types import attributes, described, merge
from airflow_hivex.core.job.storage import Place


@dataclass(frozen=True, slots=True)
class Concatenated:
    """The result of a concatenation."""

    rows: int
    stripes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive stripes of a file from byte ``start``, and the tail that a file of only these stripes would have."""

    file: Place
    tail: Tail
    start: int = len(MAGIC)


def stripes_of(file: Place, tail: Tail, first: int, end: int) -> Slice:
    """Return the stripes of a file from ``first`` to before ``end``, with merged statistics.

    Raises:
        JobError: a full ACID file lacks the last keys of some stripes, or has other rows than inserts.
    """
    if (first, end) == (0, len(tail.stripes)):
        return Slice(file, tail)
    part = tail.part(first, end)
    statistics = part.stripe_statistics
    merged = [merge(columns) for columns in zip(*statistics, strict=True)] if len(statistics) == end - first else []
    metadata = {}
    with as_job_error(file, "cut"):
        if KEY_INDEX in tail.user_metadata:
            keys = tail.user_metadata[KEY_INDEX].split(b";")[:-1]
            if len(keys) != len(tail.stripes):
                raise ValueError(f"{KEY_INDEX} has {len(keys)} keys for {len(tail.stripes)} stripes")
            metadata[KEY_INDEX] = b"".join(key + b";" for key in keys[first:end])
        if STATISTICS in tail.user_metadata:
            if _counts(tail) != [tail.rows, 0, 0]:
                raise ValueError(f"{STATISTICS} reports rows other than inserts")
            metadata[STATISTICS] = f"{part.rows},0,0".encode()
    return Slice(file, part.with_statistics(merged).with_user_metadata(metadata), tail.stripes[first].offset)


def join(target: Place, slices: Sequence[Slice]) -> Concatenated:
    """Write one file with the stripes of all slices, in order, without decoding them.

    Statistics are merged. The key index and the counts of full ACID files are merged, too. The rows are not sorted, so
    the slices of a full ACID table must be in the order of their keys. The source files stay.

    Args:
        target: the new file, which must not be a source of stripes.
        slices: one or more slices, of files with equal types and compression. The attributes of types, in which Spark
            stores its own names of types, can be missing in some files.

    Raises:
        JobError: two slices differ, and no file is written; or a file was changed meanwhile, and the target is deleted.
    """
    if not slices or any(target.path == each.file.path for each in slices):
        raise ValueError("A concatenation needs sources, and a target that is not one of them.")
    tails = [each.tail for each in slices]
    _refuse_differences([each.file for each in slices], tails)
    tail = _joined(tails)
    size = _write(target, slices, tail)
    return Concatenated(tail.rows, len(tail.stripes), size)


def _refuse_differences(sources: Sequence[Place], tails: Sequence[Tail]) -> None:
    """Refuse files with differences that one joined file cannot have."""
    attributed = _first_with_attributes(tails)
    noted = attributes(tails[attributed].types)
    for source, tail in zip(sources, tails, strict=True):
        has_index = KEY_INDEX in tail.user_metadata
        different = [what for what, value in tail.form.items() if value != tails[0].form[what]]
        if described(tail.types) != described(tails[0].types):
            different.append("types")
        if has_index != (KEY_INDEX in tails[0].user_metadata):
            different.append(f"whether they have {KEY_INDEX}")
        if different:
            raise _difference(source, sources[0], ", ".join(different))
        if any(attributes(tail.types)) and attributes(tail.types) != noted:
            raise _difference(source, sources[attributed], "attributes of types")


def _difference(source: Place, other: Place, what: str) -> JobError:
    return JobError(
        "", f"{source.path} cannot be put behind {other.path}: they differ in {what}; rewrite the rows of both."
    )


def _first_with_attributes(tails: Sequence[Tail]) -> int:
    return next((at for at, tail in enumerate(tails) if any(attributes(tail.types))), 0)


def _joined(tails: Sequence[Tail]) -> Tail:
    """Return the tail of the file that has all stripes."""
    statistics = [tail.statistics for tail in tails]
    merged = [merge(columns) for columns in zip(*statistics, strict=True)] if all(statistics) else []
    return (
        tails[0]
        .followed_by(tails[1:])
        .with_types(tails[_first_with_attributes(tails)].types)
        .with_statistics(merged)
        .with_user_metadata(_user_metadata(tails))
    )


def _user_metadata(tails: Sequence[Tail]) -> dict[str, bytes]:
    """Return the first value of each metadata key. The key index and the counts of full ACID files are combined."""
    found = [tail.user_metadata for tail in tails]
    merged = dict(chain.from_iterable(metadata.items() for metadata in reversed(found)))
    if KEY_INDEX in merged:
        merged[KEY_INDEX] = b"".join(metadata[KEY_INDEX] for metadata in found)
    if STATISTICS in merged:
        counts = [_counts(tail) for tail in tails if STATISTICS in tail.user_metadata]
        merged[STATISTICS] = ",".join(str(sum(each)) for each in zip(*counts, strict=True)).encode()
    return merged


def _counts(tail: Tail) -> list[int]:
    """Return the numbers of inserts, updates and deletes in a full ACID file."""
    return list(map(int, tail.user_metadata[STATISTICS].split(b",")))


def _write(target: Place, slices: Sequence[Slice], tail: Tail) -> int:
    end = bytes(tail)
    try:
        with target.filesystem.open_output_stream(target.path) as out:
            out.write(MAGIC)
            for each in slices:
                with as_job_error(each.file), each.file.open() as data:
                    copy_bytes(data, out, each.start, each.start + each.tail.data_length - len(MAGIC))
            out.write(end)
    except BaseException:
        if target.exists():
            target.filesystem.delete_file(target.path)
        raise
    return tail.data_length + len(end)
