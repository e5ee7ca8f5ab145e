"""Several ORC files made one: their stripes are copied as they are, one file's behind the other's.

Source: spark-notes, section 4; ``OrcFile.mergeFiles`` of Apache ORC, which leaves files out silently where
this refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.spark.orc_tail.nesting import KEY_INDEX, STATISTICS
from airflow_hivex.core.spark.orc_tail.statistics import merge
from airflow_hivex.core.spark.orc_tail.tail import MAGIC, Tail, as_job_error, read_tail
from airflow_hivex.core.spark.orc_tail.types import attributes, described
from airflow_hivex.core.spark.orc_tail.writing import copy_bytes
from airflow_hivex.core.spark.storage import Place

_READERS = 16


@dataclass(frozen=True, slots=True)
class Concatenated:
    """What a concatenation has made."""

    rows: int
    stripes: int
    size_bytes: int


def concatenate(target: Place, sources: Sequence[Place]) -> Concatenated:
    """One file with the rows of all, in the order of the sources, made without decoding them.

    Statistics are merged, and of full ACID files the key index and the counts. The rows are not sorted: sources of
    a full ACID table have to follow each other by their keys. The sources stay.

    Args:
        target: the new file; none of the sources.
        sources: one or more files of equal types and compression. Attributes of types, which say what Spark
            calls a type, may be missing in some.

    Raises:
        JobError: a source cannot be read, or two differ; nothing is written then. Or a source was
            changed meanwhile; the target is deleted then.
    """
    if not sources or any(target.path == source.path for source in sources):
        raise ValueError("A concatenation needs sources, and a target that is none of them.")
    with ThreadPoolExecutor(_READERS) as pool:
        tails = list(pool.map(read_tail, sources))
    _refuse_differences(sources, tails)
    tail = _joined(tails)
    size = _write(target, sources, tails, tail)
    return Concatenated(tail.rows, len(tail.stripes), size)


def _refuse_differences(sources: Sequence[Place], tails: Sequence[Tail]) -> None:
    """Refuse what readers of one file could not tell apart any more."""
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
        "", f"{source.path} cannot be put behind {other.path}: they differ in {what}; write the rows of both anew."
    )


def _first_with_attributes(tails: Sequence[Tail]) -> int:
    return next((at for at, tail in enumerate(tails) if any(attributes(tail.types))), 0)


def _joined(tails: Sequence[Tail]) -> Tail:
    """The tail of the file that has the stripes of all."""
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
    """The first value of each key; what describes the rows of a full ACID file is put together."""
    found = [tail.user_metadata for tail in tails]
    merged = dict(chain.from_iterable(metadata.items() for metadata in reversed(found)))
    if KEY_INDEX in merged:
        merged[KEY_INDEX] = b"".join(metadata[KEY_INDEX] for metadata in found)
    if STATISTICS in merged:
        counts = [list(map(int, metadata[STATISTICS].split(b","))) for metadata in found if STATISTICS in metadata]
        merged[STATISTICS] = ",".join(str(sum(each)) for each in zip(*counts, strict=True)).encode()
    return merged


def _write(target: Place, sources: Sequence[Place], tails: Sequence[Tail], tail: Tail) -> int:
    end = bytes(tail)
    try:
        with target.filesystem.open_output_stream(target.path) as out:
            out.write(MAGIC)
            for source, each in zip(sources, tails, strict=True):
                with as_job_error(source), source.open() as data:
                    copy_bytes(data, out, len(MAGIC), each.data_length)
            out.write(end)
    except BaseException:
        if target.exists():
            target.filesystem.delete_file(target.path)
        raise
    return tail.data_length + len(end)
