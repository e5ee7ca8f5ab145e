"""Copying of files between the file systems of two clusters, by threads of this process.

:func:`copy_files` is the one function that moves bytes. It takes a list of files and returns their checksums, so that a
job on a cluster can take its place.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from airflow_hivex.core.errors import CopyAlteredError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.replication import CopyProgress

log = logging.getLogger(__name__)

_CHUNK_BYTES = 4 << 20
_THROTTLED_CHUNK_BYTES = 64 << 10
_REPORTED_EVERY_S = 3.0


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file to copy: its cluster and location there, its location on the target, its size and its table's name."""

    table: str
    source: str
    location: str
    place: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """The SHA-256 checksums of all files, by location on the target, and which of them did not have to be copied."""

    checksums: dict[str, str]
    kept: frozenset[str]


class Throttle:
    """A limit of bytes per second for all threads together; None for no limit."""

    def __init__(self, bytes_per_second: int | None, stop: threading.Event) -> None:
        self._rate = bytes_per_second
        self._stop = stop
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        """Wait until so many bytes may go, or the copying is stopped."""
        if self._rate is None:
            return
        with self._lock:
            starts = max(self._free_at, time.monotonic())
            self._free_at = starts + size / self._rate
        self._stop.wait(max(0.0, starts - time.monotonic()))


class StoppedError(Exception):
    """The copying was stopped by its owner, who knows why."""


def copy_files(
    sources: Callable[[str], ClusterFiles],
    target: ClusterFiles,
    target_name: str,
    files: Sequence[FileCopy],
    stop: threading.Event,
    *,
    threads: int,
    bytes_per_second: int | None = None,
    progress: Callable[[CopyProgress], object] | None = None,
) -> CopiedFiles:
    """Copy files in parallel and verify each; a file that is there with the right size and checksum stays.

    Each file is hashed while it is copied, and the copy is read again. Safe to repeat after any end.

    Args:
        sources: the file system of a cluster by its name.
        target: the file system to copy to.
        target_name: the name of its cluster, for errors.
        files: each of them with a place of its own.
        stop: ends the copying early when it is set.
        threads: how many files are copied at once.
        bytes_per_second: how much is copied at most.
        progress: called every few seconds, in the thread of the caller.

    Raises:
        StorageError: a file could not be read or written.
        CopyAlteredError: a source has not the size that it was listed with, or a copy is read back differently.
        StoppedError: ``stop`` was set.
    """
    copier = _Copier(sources, target, target_name, stop, bytes_per_second)
    total = sum(each.size_bytes for each in files)
    if not files:
        return CopiedFiles({}, frozenset())
    with ThreadPoolExecutor(max(1, min(threads, len(files))), thread_name_prefix="hivex-copy") as pool:
        # Large ones first, so that no thread is left alone with one at the end.
        running = {
            pool.submit(copier.copy, each): each
            for each in sorted(files, key=lambda each: each.size_bytes, reverse=True)
        }
        try:
            waiting = set(running)
            while waiting:
                done, waiting = wait(waiting, timeout=_REPORTED_EVERY_S, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
                state = CopyProgress(len(running) - len(waiting), len(files), copier.bytes_done, total)
                log.info(
                    "Copied to cluster %s: %d of %d files, %d of %d bytes",
                    target_name,
                    state.files_done,
                    state.files,
                    state.bytes_done,
                    state.size_bytes,
                )
                if progress is not None:
                    progress(state)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    results = {each.place: future.result() for future, each in running.items()}
    return CopiedFiles(
        {place: checksum for place, (checksum, _) in results.items()},
        frozenset(place for place, (_, is_kept) in results.items() if is_kept),
    )


def hash_files(
    sources: Callable[[str], ClusterFiles], files: Sequence[tuple[str, str]], stop: threading.Event, *, threads: int
) -> dict[tuple[str, str], str]:
    """Return the SHA-256 checksums of files, each a cluster and a location there. They are read in parallel.

    Raises:
        StorageError: a file could not be read.
        StoppedError: ``stop`` was set.
    """

    def checksum(file: tuple[str, str]) -> str:
        cluster, location = file
        return _checksum(sources(cluster), location, stop)

    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="hivex-hash") as pool:
        try:
            return dict(zip(files, pool.map(checksum, files), strict=True))
        except BaseException:
            stop.set()
            raise


def _checksum(files: ClusterFiles, location: str, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(files, location, _CHUNK_BYTES, stop):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(files: ClusterFiles, location: str, size: int, stop: threading.Event) -> Iterator[bytes]:
    for chunk in files.read_chunks(location, size):
        if stop.is_set():
            raise StoppedError
        yield chunk


class _Copier:
    def __init__(
        self,
        sources: Callable[[str], ClusterFiles],
        target: ClusterFiles,
        target_name: str,
        stop: threading.Event,
        bytes_per_second: int | None,
    ) -> None:
        self._sources = sources
        self._target = target
        self._target_name = target_name
        self._stop = stop
        self._throttle = Throttle(bytes_per_second, stop)
        self._chunk_bytes = _CHUNK_BYTES if bytes_per_second is None else _THROTTLED_CHUNK_BYTES
        self._lock = threading.Lock()
        self.bytes_done = 0

    def copy(self, file: FileCopy) -> tuple[str, bool]:
        """Return the checksum of a file, and whether its copy was there already."""
        source = self._sources(file.source)
        if self._target.size(file.place) == file.size_bytes:
            checksum = _checksum(source, file.location, self._stop)
            if _checksum(self._target, file.place, self._stop) == checksum:
                self._count(file.size_bytes)
                return checksum, True
        digest = hashlib.sha256()
        size = 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            for chunk in _chunks(source, file.location, self._chunk_bytes, self._stop):
                self._throttle.take(len(chunk))
                digest.update(chunk)
                size += len(chunk)
                self._count(len(chunk))
                yield chunk

        self._target.write_chunks(file.place, hashed())
        if size != file.size_bytes:
            reason = f"it has {size} bytes, and {file.size_bytes} when it was listed"
            raise CopyAlteredError(file.table, file.source, file.location, reason)
        checksum = digest.hexdigest()
        if _checksum(self._target, file.place, self._stop) != checksum:
            self._target.delete_file(file.place)
            reason = "the copy was read back with another checksum, and is deleted"
            raise CopyAlteredError(file.table, self._target_name, file.place, reason)
        return checksum, False

    def _count(self, size: int) -> None:
        with self._lock:
            self.bytes_done += size


def directory_checksum(checksums: dict[str, str]) -> str:
    """Return the checksum of a directory from those of its files, by their names in it."""
    digest = hashlib.sha256()
    for name, checksum in sorted(checksums.items()):
        digest.update(f"{name}\0{checksum}\n".encode())
    return digest.hexdigest()


def check_whole(table: str, cluster: str, location: str, found: dict[str, int], expected: tuple[int, int]) -> None:
    """Ensure that a directory has at least the files and bytes that are registered.

    Raises:
        CopyAlteredError: files of it are missing or shorter.
    """
    there = (len(found), sum(found.values()))
    if there[0] < expected[0] or there[1] < expected[1]:
        reason = f"it has {there[0]} files of {there[1]} bytes, and {expected[0]} of {expected[1]} are registered"
        raise CopyAlteredError(table, cluster, location, reason)
