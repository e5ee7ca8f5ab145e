"""Copying of files between the file systems of two clusters, by threads of this process.

:func:`copy_files` is the only function that copies bytes. The function takes a list of files and returns their
checksums. Files on local disks are copied by calls of the operating system
(:mod:`airflow_hivex.core.files.local_copies`).
"""

from __future__ import annotations

import enum
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace

from airflow_hivex.core.errors import CopyAlteredError, InvalidOperationError, StorageError
from airflow_hivex.core.files import local_copies
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.job.mounts import is_own_disk
from airflow_hivex.core.model.replication import CopyProgress

log = logging.getLogger(__name__)

_CHUNK_BYTES = 4 << 20
_THROTTLED_CHUNK_BYTES = 64 << 10
_REPORTED_EVERY_S = 3.0
_FILES_AT_ONCE = 100
_BYTES_AT_ONCE = 8 << 20
_SLOW_FILE_S = 0.0002


class There(enum.Enum):
    """The kinds of files that can exist at the place of a copy before the copying."""

    NOTHING = "nothing"
    OWN = "own"
    """A file that a replication has written. If its checksum is not right, the file is replaced."""
    SAME_SIZE = "same size"
    """A file of another program with the right size. If its checksum is not right, the copying is refused."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file to copy: its source cluster, its locations on source and target, its size, and the name of its table.

    ``is_read`` means that queries can read the folder on the target while the file is copied.
    """

    table: str
    source: str
    location: str
    place: str
    size_bytes: int
    there: There = There.NOTHING
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """A dict from a file's location on the target to SHA-256 checksum, and the files that the target already had."""

    checksums: dict[str, str]
    kept: frozenset[str]


class Throttle:
    """A limit of the bytes per second that all threads copy together. None means unlimited."""

    def __init__(self, bytes_per_second: int | None, stop: threading.Event) -> None:
        self._rate = bytes_per_second
        self._stop = stop
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        """Wait until the limit allows to send ``size`` bytes, or until the copying is stopped."""
        if self._rate is None:
            return
        with self._lock:
            starts = max(self._free_at, time.monotonic())
            self._free_at = starts + size / self._rate
        self._stop.wait(max(0.0, starts - time.monotonic()))


class StoppedError(Exception):
    """The copying has ended early, because the event ``stop`` was set."""


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
    """Copy files in parallel and verify each copy. An existing file with the right size and checksum stays.

    Each file is hashed while it is copied, and the copy is read again. The call is safe to repeat after an error or a
    kill.

    Args:
        sources: a function that returns the file system of a cluster.
        target: the file system to copy to.
        target_name: the name of the target's cluster, for errors.
        files: the files, each with a different place on the target.
        stop: ends the copying early when it is set.
        threads: the number of files that are copied at the same time.
        bytes_per_second: the limit of all threads together.
        progress: called every few seconds, in the thread of the caller.

    Raises:
        StorageError: a file could not be read or written.
        CopyAlteredError: the size of a source file differs from ``FileCopy.size_bytes``, or a copy differs from its
            source file.
        InvalidOperationError: a file of another program with other content is in the place of a copy.
        StoppedError: ``stop`` was set.
    """
    total = sum(each.size_bytes for each in files)
    if not files:
        return CopiedFiles({}, frozenset())
    copier = _Copier(sources, target, target_name, stop, bytes_per_second, threads)
    with ThreadPoolExecutor(max(1, min(threads, len(files))), thread_name_prefix="hivex-copy") as pool:
        try:
            if target.local_path("") is not None:
                folders = sorted({each.place.rpartition("/")[0] for each in files})
                list(pool.map(target.make_directory, folders))
            waiting = {pool.submit(copier.copy_all, each) for each in _batches(files, threads)}
            while waiting:
                done, waiting = wait(waiting, timeout=_REPORTED_EVERY_S, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
                state = CopyProgress(len(copier.checksums), len(files), copier.bytes_done, total)
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
    return CopiedFiles(copier.checksums, frozenset(copier.kept))


def _batches(files: Sequence[FileCopy], threads: int) -> Iterator[list[FileCopy]]:
    """Yield the files in batches; one thread copies a whole batch.

    Each large file is a batch of its own, and the largest files come first. Small files of one folder share a batch.
    """
    most = max(1, min(_FILES_AT_ONCE, len(files) // threads))
    large = [each for each in files if each.size_bytes > local_copies.SMALL]
    yield from ([each] for each in sorted(large, key=lambda each: each.size_bytes, reverse=True))
    batch: list[FileCopy] = []
    size_bytes = 0
    small = (each for each in files if each.size_bytes <= local_copies.SMALL)
    for each in sorted(small, key=lambda each: each.place):
        if batch and (len(batch) >= most or size_bytes + each.size_bytes > _BYTES_AT_ONCE):
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += each.size_bytes
    if batch:
        yield batch


def hash_files(
    sources: Callable[[str], ClusterFiles], files: Sequence[tuple[str, str]], stop: threading.Event, *, threads: int
) -> dict[tuple[str, str], str]:
    """Return a dict from file, which is a pair (cluster, location), to SHA-256 checksum. Threads read in parallel.

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
    path = files.local_path(location)
    if path is not None:
        return local_copies.hash_file(path, lambda: _check(stop))
    digest = hashlib.sha256()
    for chunk in _chunks(files, location, _CHUNK_BYTES, stop):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(files: ClusterFiles, location: str, size: int, stop: threading.Event) -> Iterator[bytes]:
    for chunk in files.read_chunks(location, size):
        _check(stop)
        yield chunk


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError


def _is_taken(error: StorageError) -> bool:
    """Return whether a copy failed because another program has put a file into the place of the copy."""
    return isinstance(error.__cause__, FileExistsError)


class _Copier:
    def __init__(
        self,
        sources: Callable[[str], ClusterFiles],
        target: ClusterFiles,
        target_name: str,
        stop: threading.Event,
        bytes_per_second: int | None,
        threads: int,
    ) -> None:
        self._sources = sources
        self._target = target
        self._target_name = target_name
        self._stop = stop
        self._throttle = Throttle(bytes_per_second, stop)
        self._is_throttled = bytes_per_second is not None
        place = target.local_path("")
        # Another store may change a file when it is closed, so that its copies are opened again to be hashed.
        self._is_own_disk = place is not None and is_own_disk(place)
        self._lock = threading.Lock()
        self._lanes = _Lanes(threads)
        self.bytes_done = 0
        self.checksums: dict[str, str] = {}
        self.kept: set[str] = set()

    def copy_all(self, files: Sequence[FileCopy]) -> None:
        """Copy some files one after the other."""
        if self._are_short(files):
            with self._lanes.one_for(len(files)):
                self._copy_short(files)
            return
        for each in files:
            _check(self._stop)
            self.checksums[each.place] = self._copy(each)

    def _copy_short(self, files: Sequence[FileCopy]) -> None:
        """Copy small files between local disks."""
        new = [each for each in files if each.there is There.NOTHING and not each.is_read]
        paths = _LocalPaths(self._target)
        sources = {name: _LocalPaths(self._sources(name)) for name in {each.source for each in new}}
        work = [(sources[each.source].of(each.location), paths.of(each.place), each.size_bytes) for each in new]
        try:
            done = local_copies.copy_small_files(work, lambda: _check(self._stop))
        except StorageError as error:
            if not _is_taken(error):
                raise
            # One by one, since the place of each file is checked.
            new, done = [], []
        for each, (size, checksum, copied) in zip(new, done, strict=True):
            self._check_copy(each, size, checksum, copied)
            self.checksums[each.place] = checksum
        self._count(sum(each.size_bytes for each in new))
        for each in files:
            if each.place not in self.checksums:
                self.checksums[each.place] = self._copy(each)

    def _are_short(self, files: Sequence[FileCopy]) -> bool:
        if self._is_throttled or not self._is_own_disk:
            return False
        sources = {each.source for each in files}
        if any(self._sources(name).local_path("") is None for name in sources):
            return False
        return all(each.size_bytes <= local_copies.SMALL for each in files)

    def _copy(self, file: FileCopy) -> str:
        source = self._sources(file.source)
        if file.there is not There.NOTHING:
            checksum = _checksum(source, file.location, self._stop)
            size = self._target.size(file.place)
            if size == file.size_bytes and _checksum(self._target, file.place, self._stop) == checksum:
                self._count(file.size_bytes)
                self.kept.add(file.place)
                return checksum
            if file.there is There.SAME_SIZE and size is not None:
                reason = f"{file.place} on cluster {self._target_name} is another file; move it away"
                raise InvalidOperationError("REPLICATE", file.table, reason)
            if not file.is_read:
                self._target.delete_file(file.place)
        try:
            size, checksum, copied = self._transfer(source, file)
        except StorageError as error:
            if file.there is not There.NOTHING or not _is_taken(error):
                raise
            # A task of a cancelled job may still publish a whole file shortly after its job has ended.
            return self._copy(replace(file, there=There.SAME_SIZE))
        self._check_copy(file, size, checksum, copied)
        return checksum

    def _check_copy(self, file: FileCopy, size: int, checksum: str, copied: str) -> None:
        """Ensure that a copy is right. A wrong copy is deleted.

        Raises:
            CopyAlteredError: the source does not have the size ``FileCopy.size_bytes``, or the copy has another
                checksum.
        """
        if size != file.size_bytes:
            self._target.delete_file(file.place)
            reason = f"it has {size} bytes, and {file.size_bytes} when it was listed"
            raise CopyAlteredError(file.table, file.source, file.location, reason)
        if copied != checksum:
            self._target.delete_file(file.place)
            reason = "the copy was read back with another checksum, and is deleted"
            raise CopyAlteredError(file.table, self._target_name, file.place, reason)

    def _transfer(self, source: ClusterFiles, file: FileCopy) -> tuple[int, str, str]:
        """Copy the bytes of a file. Return their number, the checksum of the source, and the checksum of the copy."""
        origin, place = source.local_path(file.location), self._target.local_path(file.place)
        is_direct = self._is_own_disk and not self._is_throttled and not file.is_read
        if origin is not None and place is not None and is_direct:
            return local_copies.copy_file(origin, place, file.size_bytes, self._count, lambda: _check(self._stop))
        digest = hashlib.sha256()
        size = 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            at_once = _THROTTLED_CHUNK_BYTES if self._is_throttled else _CHUNK_BYTES
            for chunk in _chunks(source, file.location, at_once, self._stop):
                self._throttle.take(len(chunk))
                digest.update(chunk)
                size += len(chunk)
                self._count(len(chunk))
                yield chunk

        self._target.write_chunks(file.place, hashed(), new=not file.is_read)
        return size, digest.hexdigest(), _checksum(self._target, file.place, self._stop)

    def _count(self, size: int) -> None:
        with self._lock:
            self.bytes_done += size


class _Lanes:
    """The number of threads that are allowed to copy small files between local disks at the same time.

    One thread is faster than several if the copy of a small file takes only short system calls, because several threads
    would pass Python's global lock to each other at each call. If the calls take long, as on a network disk, several
    threads are faster.
    """

    def __init__(self, threads: int) -> None:
        self._free = threading.Semaphore(1)
        self._lock = threading.Lock()
        self._others = threads - 1

    @contextmanager
    def one_for(self, files: int) -> Iterator[None]:
        """Wait until this thread is allowed to copy ``files`` files. The block after ``with`` then copies them.

        After a block that takes long for its number of files, one more thread is allowed to copy.
        """
        with self._free:
            began = time.monotonic()
            yield
            took_s = time.monotonic() - began
        with self._lock:
            if took_s > files * _SLOW_FILE_S and self._others:
                self._others -= 1
                self._free.release()


class _LocalPaths:
    """A converter of locations to paths on a local disk, which is fast if files of one folder follow each other."""

    def __init__(self, files: ClusterFiles) -> None:
        self._files = files
        self._folder = self._path = ""

    def of(self, location: str) -> str:
        """Return the path of a file."""
        folder, _, name = location.rpartition("/")
        if folder != self._folder or not self._path:
            self._folder, self._path = folder, self._files.local_path(folder) or ""
        return f"{self._path}/{name}"


def directory_checksum(checksums: dict[str, str]) -> str:
    """Return the checksum of a directory, computed from a dict of file names to checksums."""
    digest = hashlib.sha256()
    for name, checksum in sorted(checksums.items()):
        digest.update(f"{name}\0{checksum}\n".encode())
    return digest.hexdigest()


def check_whole(table: str, cluster: str, location: str, found: dict[str, int], expected: tuple[int, int]) -> None:
    """Ensure that a directory has at least the number of files and bytes that the metastore has for the directory.

    Raises:
        CopyAlteredError: files of the directory are missing or too short.
    """
    there = (len(found), sum(found.values()))
    if there[0] < expected[0] or there[1] < expected[1]:
        reason = f"it has {there[0]} files of {there[1]} bytes, and {expected[0]} of {expected[1]} are registered"
        raise CopyAlteredError(table, cluster, location, reason)
