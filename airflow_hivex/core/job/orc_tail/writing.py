"""Puts a new tail behind the stripes of a file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from airflow_hivex.core.job.orc_tail.tail import Tail, as_job_error
from airflow_hivex.core.job.storage import Place

_PIECE = 8 * 1024 * 1024


def replace_tail(source: Place, target: Place, tail: Tail) -> int:
    """Make the file with this tail at ``target``; the size in bytes.

    In a local file system the file is changed where it is and moved; elsewhere it is copied.
    """
    with as_job_error(source, "rewritten"):
        if isinstance(source.filesystem, pafs.LocalFileSystem) and isinstance(target.filesystem, pafs.LocalFileSystem):
            return _edit(Path(source.path), Path(target.path), tail)
        return _copy(source, target, tail)


def _edit(source: Path, target: Path, tail: Tail) -> int:
    end = bytes(tail)
    with source.open("r+b") as file:
        file.seek(tail.data_length)
        file.write(end)
        file.truncate()
    for file_path in (source, target):
        # Hadoop's checksums, which are of the file as it was.
        file_path.with_name(f".{file_path.name}.crc").unlink(missing_ok=True)
    if source != target:
        shutil.move(source, target)
    return tail.data_length + len(end)


def _copy(source: Place, target: Place, tail: Tail) -> int:
    end = bytes(tail)
    try:
        with source.open() as data, target.filesystem.open_output_stream(target.path) as out:
            copy_bytes(data, out, 0, tail.data_length)
            out.write(end)
    except BaseException:
        if target.exists():
            target.filesystem.delete_file(target.path)
        raise
    return tail.data_length + len(end)


def copy_bytes(data: Any, out: Any, start: int, end: int) -> None:
    """Copy a range of an open file, piece by piece.

    Raises:
        ValueError: the file has become shorter.
    """
    data.seek(start)
    left = end - start
    while left:
        piece = data.read(min(left, _PIECE))
        if not piece:
            raise ValueError("it was cut off while it was read")
        out.write(piece)
        left -= len(piece)
