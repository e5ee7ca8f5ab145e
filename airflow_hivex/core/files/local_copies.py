"""Copies files between local disks. The source is hashed while it is copied; then the copy is read and hashed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_AT_ONCE = 1 << 20
SMALL = 1 << 18
"""The largest size in bytes of a file that is read as a whole."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_WRITE_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def copy_file(
    source: str, place: str, size_bytes: int, written: Callable[[int], object], checked: Callable[[], object]
) -> tuple[int, str, str]:
    """Copy a file to ``place``. Return a triple: size, SHA-256 checksum of the source, and checksum of the copy.

    ``written`` is called with the size of each piece. ``checked`` is called from time to time, and can end the copying
    by an error. An error leaves no part of the file.

    Raises:
        StorageError: the source cannot be read, or the copy cannot be written, for example because ``place`` exists.
    """
    if size_bytes <= SMALL:
        (done,) = copy_small_files([(source, place, size_bytes)], checked)
        written(done[0])
        return done
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_AT_ONCE))
    size = 0
    with _of(source):
        origin = os.open(source, _READ)
    try:
        with _made(place) as copy:
            while True:
                with _of(source):
                    count = os.readv(origin, [buffer])
                if not count:
                    break
                checked()
                piece = buffer[:count]
                digest.update(piece)
                with _of(place):
                    _write(copy, piece)
                size += count
                written(count)
    finally:
        os.close(origin)
    return size, digest.hexdigest(), hash_file(place, checked)


def hash_file(path: str, checked: Callable[[], object]) -> str:
    """Return the SHA-256 checksum of a file. ``checked`` is called from time to time, and can raise an error.

    Raises:
        StorageError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with _of(path):
        file = os.open(path, _READ)
        try:
            first = os.read(file, SMALL)
            digest.update(first)
            if len(first) < SMALL:
                return digest.hexdigest()
            buffer = memoryview(bytearray(_AT_ONCE))
            while count := os.readv(file, [buffer]):
                checked()
                digest.update(buffer[:count])
        finally:
            os.close(file)
    return digest.hexdigest()


def copy_small_files(
    files: Iterable[tuple[str, str, int]], checked: Callable[[], object]
) -> list[tuple[int, str, str]]:
    """Copy files of at most :data:`SMALL` bytes, one after the other. Return for each the result of :func:`copy_file`.

    ``files`` are triples of a source, a target that does not exist yet, and a size in bytes. ``checked`` is called
    before each file, and can raise an error. An error leaves the complete copies, and no part of the failed copy.

    Raises:
        StorageError: a source cannot be read, or a copy cannot be written, for example because its target exists.
    """
    # For thousands of files these calls take most of the time, so there is no function in between.
    opened, read, write, pread, close, sha256 = os.open, os.read, os.write, os.pread, os.close, hashlib.sha256
    done = []
    for source, place, size_bytes in files:
        checked()
        copy = -1
        path = source
        try:
            origin = opened(source, _READ)
            try:
                # One more byte than expected, to notice a longer file.
                content = read(origin, size_bytes + 1)
                while len(content) < size_bytes and (more := read(origin, size_bytes + 1 - len(content))):
                    content += more
            finally:
                close(origin)
            path = place
            copy = opened(place, _WRITE_NEW, 0o666)
            try:
                if write(copy, content) < len(content):
                    _write_again(copy, content)
                again = pread(copy, len(content) + 1, 0)
            finally:
                close(copy)
        except BaseException as error:
            if copy >= 0:
                with suppress(OSError):
                    Path(place).unlink()
            if isinstance(error, OSError):
                raise StorageError(path, str(error)) from error
            raise
        checksum = sha256(content).hexdigest()
        done.append((len(content), checksum, checksum if again == content else sha256(again).hexdigest()))
    return done


def _write_again(file: int, content: bytes) -> None:
    """Write a file again from its start, after the system has written only a part of it."""
    os.lseek(file, 0, os.SEEK_SET)
    _write(file, content)


def _write(file: int, content: bytes | memoryview) -> None:
    count = os.write(file, content)
    while count < len(content):
        content = content[count:]
        count = os.write(file, content)


@contextmanager
def _made(place: str) -> Iterator[int]:
    """Yield the descriptor of a new file, and delete the file after an error."""
    with _of(place):
        file = os.open(place, _WRITE_NEW, 0o666)
    try:
        try:
            yield file
        finally:
            with _of(place):
                os.close(file)
    except BaseException:
        with suppress(OSError):
            Path(place).unlink()
        raise


class _of:  # noqa: N801 - reads as a word of its `with`
    """A context manager that converts errors of the operating system to StorageErrors with the path.

    A class is faster than a generator function, and each file needs several of these contexts.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise StorageError(self._path, str(error)) from error
