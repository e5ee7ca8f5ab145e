"""The task that rewrites stripes of full ACID files without the excluded rows. It uses only pyarrow.

Spark sends the code of this module, and of its imports from this package, to executors.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_hivex.core.job import root_markers, storage
from airflow_hivex.core.job.row_keys import Key, Writer, writers
from airflow_hivex.core.job.storage import Place, place

STRIPE_BYTES = 64 << 20
_KEY = slice(1, 4)
_WRITE_ID = 4
_METADATA = 5
# With a greater share of different texts in a stripe, there is no dictionary. Spark's ORC writer has the same limit.
_DICTIONARY_LIMIT = 0.8
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Form:
    """The options of the ORC writer for the new stripes, and the write ids whose rows are excluded.

    If ``is_nested`` is true, the files store the table's columns in a struct, as Hive does. Rows with a write id above
    ``high_watermark`` or in ``exceptions`` are excluded.
    """

    compression: str
    block_size: int
    row_index_stride: int
    is_nested: bool
    high_watermark: int | None = None
    exceptions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """The stripes that become one file: pairs (URI of a file, number of the stripe) in the order of the rows' keys.

    ``deleted`` is a dict from :data:`~.row_keys.Writer` to the ids of deleted rows, in ascending order.
    """

    stripes: Sequence[tuple[str, int]]
    deleted: Mapping[Writer, Any]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of the rewrite of a piece: the name of the new file, and its number of rows.

    If no rows remain, no file is written. ``problem`` is the reason why the file could not be written.
    """

    rows: int = 0
    name: str = ""
    problem: str | None = None


def rewrite(piece: Piece, form: Form, directory: str) -> Rewritten:
    """Write the remaining rows of a piece to a new file in a directory.

    The columns of the new file have the same positions as in the files of the piece, but different names. If these
    files store the table's columns in a struct, the new file has a placeholder column in the place of the struct, and
    then the fields of the struct as columns.
    """
    name = f"{uuid.uuid4().hex}.orc"
    try:
        return Rewritten(_write(_batches(piece, form), form, place(directory) / name), name)
    except (OSError, ValueError, pa.ArrowException) as error:
        return Rewritten(problem=f"{type(error).__name__}: {error}")


def _write(batches: Iterable[pa.RecordBatch], form: Form, target: Place) -> int:
    from pyarrow import orc

    rows = 0
    # A file that cannot be written, as on a full disk, would end the process in the writer's C++.
    sink = pa.BufferOutputStream()
    with ExitStack() as opened:
        writer = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                writer = orc.ORCWriter(
                    sink,
                    stripe_size=STRIPE_BYTES,
                    compression=form.compression,
                    compression_block_size=form.block_size,
                    row_index_stride=form.row_index_stride,
                    dictionary_key_size_threshold=_DICTIONARY_LIMIT,
                    batch_size=_BATCH,
                )
                opened.enter_context(writer)
            writer.write(pa.Table.from_batches([batch]))
            rows += batch.num_rows
    if rows:
        target.write(sink.getvalue())
    return rows


def _batches(piece: Piece, form: Form) -> Iterator[pa.RecordBatch]:
    """Yield the remaining rows of each stripe.

    Raises:
        ValueError: the rows are not in the order of their keys.
    """
    last: Key | None = None
    for rows in _stripes(piece.stripes):
        columns = _columns(rows, form)
        key = [column.to_numpy() for column in columns[_KEY]]
        stays = _seen(columns[_WRITE_ID].to_numpy(), form)
        for writer, run in writers(key[0], key[1], key[2], after=last):
            if writer in piece.deleted:
                _leave_out(piece.deleted[writer], key[2][run], stays[run])
        if rows.num_rows:
            last = int(key[0][-1]), int(key[1][-1]), int(key[2][-1])
        batch = pa.RecordBatch.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])
        yield batch if stays.all() else batch.filter(pa.array(stays))


def _stripes(chosen: Sequence[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    for uri, stripes in groupby(chosen, key=lambda stripe: stripe[0]):
        with place(uri).open() as data:
            file = orc.ORCFile(data)
            for _, number in stripes:
                yield file.read_stripe(number)


def _columns(rows: pa.RecordBatch, form: Form) -> list[pa.Array]:
    if not form.is_nested:
        return list(rows.columns)
    *metadata, row = rows.columns
    if row.null_count:
        raise ValueError("it has delete events among the rows")
    return [*metadata, pa.array(np.ones(rows.num_rows, bool)), *row.flatten()]


def _seen(write_ids: Any, form: Form) -> Any:
    if form.high_watermark is None:
        return np.ones(len(write_ids), bool)
    return (write_ids <= form.high_watermark) & ~np.isin(write_ids, form.exceptions)


def _leave_out(deleted: Any, row_ids: Any, stays: Any) -> None:
    """Set ``stays`` to False for the deleted rows of one writer; both arrays of ids are in ascending order."""
    found = deleted[np.searchsorted(deleted, row_ids[0]) : np.searchsorted(deleted, row_ids[-1], side="right")]
    at = np.searchsorted(row_ids, found)
    stays[at[row_ids[at] == found]] = False


# -- as a task of Spark's ------------------------------------------------------------

NUMBER = "number"
RESULT = f"{NUMBER} int, rows bigint, name string, problem string"


def as_table(pieces: Sequence[Piece]) -> pa.Table:
    """Return a table with the number and the stripes of each piece in one row, from which Spark makes a DataFrame."""
    found = [
        {
            NUMBER: number,
            "files": [uri for uri, _ in piece.stripes],
            "stripes": [stripe for _, stripe in piece.stripes],
            "write_ids": [write_id for write_id, _ in piece.deleted],
            "buckets": [bucket for _, bucket in piece.deleted],
            "counts": [len(row_ids) for row_ids in piece.deleted.values()],
            "row_ids": np.concatenate([np.zeros(0, np.int64), *piece.deleted.values()]),
        }
        for number, piece in enumerate(pieces)
    ]
    return pa.Table.from_pylist(found, schema=_GIVEN)


_GIVEN = pa.schema(
    {
        NUMBER: pa.int32(),
        "files": pa.list_(pa.string()),
        "stripes": pa.list_(pa.int32()),
        "write_ids": pa.list_(pa.int64()),
        "buckets": pa.list_(pa.int32()),
        "counts": pa.list_(pa.int64()),
        "row_ids": pa.list_(pa.int64()),
    }
)


def _pieces(rows: pa.RecordBatch) -> Iterator[tuple[int, Piece]]:
    row_ids = rows.column("row_ids")
    for at, row in enumerate(rows.drop_columns(["row_ids"]).to_pylist()):
        parts = np.split(row_ids[at].values.to_numpy(), np.cumsum(row["counts"], dtype=np.int64)[:-1])
        # Without writers there is still one part, an empty one.
        deleted = dict(zip(zip(row["write_ids"], row["buckets"], strict=True), parts, strict=False))
        yield row[NUMBER], Piece(list(zip(row["files"], row["stripes"], strict=True)), deleted)


def task(
    form: Form, directory: str, markers: Sequence[root_markers.Marker], opened: Mapping[str, Any]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a Spark task runs: it rewrites the piece in each row of :func:`as_table`.

    For each piece, the function yields a row with the columns :data:`RESULT`. ``opened`` are the file systems of
    :func:`storage.use_opened`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        root_markers.check(markers)
        storage.use_opened(opened)
        for batch in batches:
            for number, piece in _pieces(batch):
                done = rewrite(piece, form, directory)
                columns = {NUMBER: pa.array([number], pa.int32()), "rows": pa.array([done.rows], pa.int64())}
                texts = {"name": pa.array([done.name], pa.string()), "problem": pa.array([done.problem], pa.string())}
                yield pa.RecordBatch.from_pydict(columns | texts)

    return run


def results(rows: pa.Table) -> list[Rewritten]:
    """Return the results of the pieces, in the order of the pieces."""
    found = sorted(rows.to_pylist(), key=lambda row: int(row[NUMBER]))
    return [Rewritten(row["rows"], row["name"], row["problem"]) for row in found]
