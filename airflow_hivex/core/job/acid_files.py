"""The ORC files in the directories of a full ACID table that Hive has written, as far as an import looks at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from airflow_hivex.core.errors import InvalidObjectError, JobError
from airflow_hivex.core.job.orc_tail import read_tail
from airflow_hivex.core.job.orc_tail.nesting import ACID_FIELDS, STATISTICS
from airflow_hivex.core.job.orc_tail.types import children, names
from airflow_hivex.core.job.storage import place

R = TypeVar("R")
T = TypeVar("T")

_READERS = 16
_WRITE_ID, _BUCKET = ACID_FIELDS[1], ACID_FIELDS[2]


@dataclass(frozen=True, slots=True)
class AcidFile:
    """An ORC file: ``is_nested`` says that it has Hive's metadata columns, and the table's columns in a struct.

    ``columns`` are the table's as the file calls them, in small letters. A nested file has events: ``changes`` counts
    updates and deletes where the writer has noted them.
    """

    rows: int
    columns: tuple[str, ...] = ()
    is_nested: bool = False
    changes: int = 0


def read_acid_files(files: Sequence[tuple[str, int]]) -> list[AcidFile]:
    """Return the facts in the tails of files, given the URI and size of each. An empty file has no rows.

    Raises:
        InvalidObjectError: a file cannot be read as ORC.
    """
    return _each(_read, files)


def read_writers(uris: Sequence[str]) -> list[frozenset[tuple[int, int]]]:
    """Return the pairs of original write id and bucket property in nested files. Reads two columns of each.

    Raises:
        InvalidObjectError: a file cannot be read as ORC.
    """
    return _each(_read_writers, uris)


def _each(read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, items))


def _read(file: tuple[str, int]) -> AcidFile:
    uri, size = file
    # Hive leaves empty files for buckets without rows.
    if not size:
        return AcidFile(0)
    try:
        tail = read_tail(place(uri))
        types = tail.types
        root = [name.lower() for name in names(types[0])]
        if root != [name.lower() for name in ACID_FIELDS]:
            return AcidFile(tail.rows, tuple(root))
        row = types[children(types[0])[-1]]
        counted = [int(text) for text in tail.user_metadata.get(STATISTICS, b"").decode().split(",") if text]
        return AcidFile(tail.rows, tuple(name.lower() for name in names(row)), True, changes=sum(counted[1:]))
    except (OSError, ValueError, IndexError, JobError, pa.ArrowException) as error:
        raise _unreadable(uri, error) from error


def _read_writers(uri: str) -> frozenset[tuple[int, int]]:
    from pyarrow import orc

    try:
        with place(uri).open() as data:
            found = orc.ORCFile(data).read(columns=[_WRITE_ID, _BUCKET])
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(uri, error) from error
    pairs = found.group_by([_WRITE_ID, _BUCKET]).aggregate([])
    return frozenset(zip(pairs[_WRITE_ID].to_pylist(), pairs[_BUCKET].to_pylist(), strict=True))


def _unreadable(uri: str, error: Exception) -> InvalidObjectError:
    return InvalidObjectError("file", uri, f"it cannot be read as ORC: {error}")
