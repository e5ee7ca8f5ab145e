"""The file system of one cluster: listings, small reads and writes, moves, copies and deletes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.local import LocalFileSystem

from airflow_hivex.core.errors import FolderExpectedError, InvalidOperationError, StorageError
from airflow_hivex.core.errors.clusters import describe_failure
from airflow_hivex.core.files.object_stores import endpoint_of, is_object_store, open_object_store
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import UNFINISHED

_MOST_TRIES = 10
_DELETED_AT_ONCE = 8
_LINKS_OF_LEAF = 2
_TIMES_OF_CHANGE = ("mtime", "LastModified", "last_modified", "modificationTime", "updated")
"""The names by which the file systems of fsspec give the time of a file's last change."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The size of a file in bytes, and the time of its last change, in the form that the file system uses."""

    size_bytes: int
    changed: str


class ClusterFiles:
    """The files and directories of a cluster, each named by its location relative to the root of the file system.

    ``filesystem`` is the root's URI. ``storage_options`` are passed to fsspec or, for S3, converted for pyarrow.

    Raises:
        StorageError: the file system is unknown, or a package that it needs is not installed.
    """

    def __init__(self, filesystem: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self._filesystem = filesystem
        self._endpoint = endpoint_of(storage_options or {}) if is_object_store(filesystem) else ""
        with self._storage(filesystem):
            if is_object_store(filesystem):
                self._fs: Any = ArrowFSWrapper(open_object_store(filesystem, storage_options or {}))
                root = filesystem.partition("://")[2]
            else:
                self._fs, root = fsspec.core.url_to_fs(filesystem, **dict(storage_options or {}))
        self._root = root.rstrip("/")

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Return the file system of a cluster."""
        return cls(cluster.filesystem, cluster.storage_options)

    @contextmanager
    def _storage(self, location: str) -> Iterator[None]:
        """Raise errors of the file system as a StorageError."""
        began = time.monotonic()
        try:
            yield
        except (OSError, ImportError, ValueError) as error:
            raise StorageError(location, describe_failure(error, self._endpoint, time.monotonic() - began)) from error

    @contextmanager
    def _writing(self, location: str) -> Iterator[None]:
        """Raise errors of a written file as a StorageError. HivexErrors pass unchanged."""
        began = time.monotonic()
        try:
            yield
        except OSError as error:
            reason = describe_failure(error, self._endpoint, time.monotonic() - began)
            raise StorageError(location, f"it could not be written: {reason}") from error

    def exists(self, location: str) -> bool:
        """Return whether a file or directory exists."""
        path = self._path(location)
        with self._storage(path):
            return type_of(self._fs, path) is not None

    def check_access(self) -> bool:
        """Return whether the root exists. If the root exists, write and delete a file in it as a trial.

        If the file system has folders, a missing root must have a parent folder in which the root can be created.

        Raises:
            StorageError: the file system cannot be reached or written.
        """
        path = self._root or "/"
        with self._storage(self._filesystem):
            self._fs.invalidate_cache()
            found = type_of(self._fs, path)
            if found is not None:
                if found != FOLDER:
                    raise StorageError(self._filesystem, "it is a file, not a folder")
                probe = f"{self._root}/_hivex_check_{uuid.uuid4().hex}"
                self._fs.pipe_file(probe, b"")
                self._fs.rm_file(probe)
                return True
            if is_object_store(self._filesystem) and type_of(self._fs, path.partition("/")[0]) is None:
                raise StorageError(self._filesystem, "there is no such bucket; create it")
            above = path
            while type_of(self._fs, above) is None and "/" in above.strip("/"):
                above = above.rstrip("/").rpartition("/")[0] or "/"
            if isinstance(self._fs, LocalFileSystem) and not os.access(above, os.W_OK | os.X_OK):
                raise StorageError(self._filesystem, f"it is not there, and {above} may not be written to")
            return False

    def free_bytes(self) -> int | None:
        """Return the free space in bytes, or None if the file system, such as an object store, does not report it.

        For a missing root, the result is the free space of the folder in which the root would be created.

        Raises:
            StorageError: the file system cannot be read.
        """
        if not isinstance(self._fs, LocalFileSystem):
            return None
        with self._storage(self._filesystem):
            folder = Path(self._root or "/")
            while not folder.exists() and folder != folder.parent:
                folder = folder.parent
            return shutil.disk_usage(folder).free

    def is_file(self, location: str) -> bool:
        """Return whether a location is a file rather than a directory.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            return type_of(self._fs, path) == FILE

    def link_target(self, location: str) -> str | None:
        """Return the target of a location's symbolic links if it is outside of the root, otherwise None.

        Only local file systems have symbolic links.
        """
        if not isinstance(self._fs, LocalFileSystem):
            return None
        root, place = Path(self._root or "/").resolve(), Path(self._path(location)).resolve()
        return None if place.is_relative_to(root) else str(place)

    def list_files(self, location: str) -> dict[str, int]:
        """Return the data files below a location, at any depth, as a dict from relative name to size in bytes.

        Hidden files are skipped, as in Spark and Hive. A missing location has no files.

        Raises:
            FolderExpectedError: the location is a file.
            StorageError: the file system cannot be read.
        """
        if self.is_file(location):
            raise FolderExpectedError(self._path(location))
        return {name: size for name, size in sorted(self.walk(location)) if not is_hidden(name)}

    def walk(self, location: str) -> Iterator[tuple[str, int]]:
        """Yield (relative name, size in bytes) for each file below a location, in any order. Hidden files are included.

        If the location is a file, its name is empty. Files that are deleted meanwhile are skipped.

        Raises:
            StorageError: a directory cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache()
            for name, kind, size, _ in entries_below(self._fs, path):
                if kind != FOLDER:
                    yield name[len(path) :].strip("/"), size

    def list_loose_files(self, location: str) -> list[str]:
        """Return the sorted relative paths of the data files below a directory. A file has the relative path ``""``.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path)
            if type_of(self._fs, path) == FILE:
                return [""]
        return list(self.list_files(location))

    def list_stamps(self, location: str) -> dict[str, FileStamp]:
        """Return the stamps of the data files below a directory, at any depth, sorted by relative path.

        Hidden files are skipped. If the location is a file, its relative path is ``""``. A missing location has no
        files. An object store sends the stamps of many files in one answer.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache()
            found = {
                name[len(path) :].strip("/"): FileStamp(size, changed)
                for name, kind, size, changed in entries_below(self._fs, path)
                if kind != FOLDER
            }
        return {name: found[name] for name in sorted(found) if not is_hidden(name)}

    def list_entries(self, location: str, depth: int = 0) -> list[str]:
        """Return the sorted paths of all entries, including hidden entries, ``depth`` levels below a directory.

        Paths are relative to the directory. A missing directory has no entries. For depth 0 the call lists one
        directory.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path)
            inside = {name[len(path) :].strip("/") for name, *_ in entries_below(self._fs, path, depth)}
        return sorted(each for each in inside if each and each.count("/") == depth)

    def list_folders(self, location: str) -> list[str]:
        """Return the names of the folders in a directory, except hidden folders. A missing directory has no folders.

        Raises:
            FolderExpectedError: the location is a file.
            StorageError: the directory cannot be listed.
        """
        return sorted(name for name in self._names(location, FOLDER) if not name.startswith((".", "_")))

    def list_data_files(self, location: str) -> list[str]:
        """Return the names of the files in a directory, except hidden files. A missing directory has no files.

        Raises:
            FolderExpectedError: the location is a file.
            StorageError: the directory cannot be listed.
        """
        return sorted(name for name in self._names(location, FILE) if not is_hidden(name))

    def _names(self, location: str, wanted: str) -> list[str]:
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path)
            entries = list(entries_below(self._fs, path, 0))
        if any(kind == FILE and name == path for name, kind, *_ in entries):
            raise FolderExpectedError(path)
        return [name.rpartition("/")[2] for name, kind, *_ in entries if kind == wanted]

    def move_file(self, location: str, target: str) -> None:
        """Move a file to another location in the same file system.

        Raises:
            StorageError: the file is missing, ``target`` exists already, or the file cannot be moved.
        """
        path, place = self._path(location), self._path(target)
        with self._storage(path):
            self._fs.invalidate_cache(place.rpartition("/")[0])
            if type_of(self._fs, place) is not None:
                raise StorageError(place, "there is a file of that name already")
            self._fs.mv(path, place)

    def find_directories(self, location: str, name: str, depth: int) -> list[str]:
        """Return the relative paths of the folders ``depth`` levels below a location that have a subdirectory ``name``.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path)
            entries = [each for each, *_ in entries_below(self._fs, path, depth)]
            inside = [each[len(path) :].strip("/") for each in entries if each.endswith(f"/{name}")]
        return sorted(each.rpartition("/")[0] for each in inside if each.count("/") == depth)

    def read_text(self, location: str) -> str | None:
        """Return the text of a small file, or None if the file is missing. Bytes that are not UTF-8 are replaced.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path)
            try:
                content: bytes = self._fs.cat_file(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return content.decode(errors="replace")

    def write_text(self, location: str, text: str) -> None:
        """Write a small file, or replace it. A reader finds the old or the new file, never a part of a file.

        Raises:
            StorageError: the file could not be written.
        """
        path = self._path(location)
        with self._storage(path):
            if not isinstance(self._fs, LocalFileSystem):
                # Object stores show a file only once it is complete.
                self._fs.pipe_file(path, text.encode())
                return
            temporary = f"{path}.{uuid.uuid4().hex}"
            try:
                self._fs.pipe_file(temporary, text.encode())
                Path(temporary).replace(path)
            finally:
                Path(temporary).unlink(missing_ok=True)

    def size(self, location: str) -> int | None:
        """Return the size of a file in bytes, or None if the file is missing.

        Raises:
            StorageError: the file system cannot be read.
        """
        found = self.stamp(location)
        return None if found is None else found.size_bytes

    def stamp(self, location: str) -> FileStamp | None:
        """Return the size and the time of the last change of a file, or None if the file is missing.

        Raises:
            StorageError: the file system cannot be read.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.invalidate_cache(path.rpartition("/")[0])
            try:
                facts = self._fs.info(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if facts["type"] != FILE:
                return None
            return FileStamp(int(facts["size"] or 0), _time_of_change(facts))

    def read_chunks(self, location: str, size: int) -> Iterator[bytes]:
        """Yield the content of a file in pieces of at most ``size`` bytes.

        Raises:
            StorageError: the file is missing or cannot be read.
        """
        path = self._path(location)
        with self._storage(path), self._fs.open(path, "rb") as file:
            while chunk := file.read(size):
                yield chunk

    def local_path(self, location: str) -> str | None:
        """Return the path of a location for functions of the operating system, or None for a remote file system."""
        return self._path(location) if isinstance(self._fs, LocalFileSystem) else None

    def is_same_file(self, location: str, other: ClusterFiles, other_location: str) -> bool:
        """Return whether two locations are the same file, because of links or a folder that two file systems share.

        Only local file systems can decide this. For other file systems the result is False.
        """
        here, there = self.local_path(location), other.local_path(other_location)
        if here is None or there is None:
            return False
        try:
            return Path(here).samefile(there)
        except OSError:
            return False

    def link(self, location: str, target: str) -> bool:
        """Give a file the second name ``target``, by a hard link; return False if the file system has no hard links.

        Raises:
            StorageError: another file has the name ``target``, or the file cannot be linked.
        """
        source, place = self.local_path(location), self.local_path(target)
        if source is None or place is None:
            return False
        with self._storage(place):
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            try:
                os.link(source, place)
            except OSError as error:
                if error.errno in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    return False
                raise
        return True

    def write_chunks(self, location: str, chunks: Iterable[bytes], *, new: bool = False) -> None:
        """Write or replace a file from pieces, and create the folders above it.

        On a local disk a reader finds the old file or the new file, and an error leaves no part of a file. A killed
        writer can leave a hidden file with the ending ``.copying``. On other file systems a reader can find a part of
        the file. With ``new`` the file must not exist, and a killed writer can leave a part of the file.

        Raises:
            StorageError: the file could not be written, or it exists already and ``new`` is set.
        """
        path = self._path(location)
        folder, _, name = path.rpartition("/")
        is_local = isinstance(self._fs, LocalFileSystem)
        is_replaced = is_local and not new
        written = f"{folder}/.{name}.{uuid.uuid4().hex}{UNFINISHED}" if is_replaced else path
        if not is_object_store(self._filesystem):
            with self._storage(path):
                self._fs.makedirs(folder, exist_ok=True)
        with self._writing(path):
            # Object stores have no such mode; for them the caller has checked the place before.
            file = self._fs.open(written, "xb" if is_local else "wb")
        try:
            with self._writing(path), file:
                for chunk in chunks:
                    file.write(chunk)
            if is_replaced:
                with self._storage(path):
                    # Hadoop compares a file with the checksums of an earlier file of the same name, if they exist.
                    Path(f"{folder}/.{name}.crc").unlink(missing_ok=True)
                    Path(written).replace(path)
        except BaseException:
            with suppress(OSError):
                self._fs.rm_file(written)
            raise

    def make_directory(self, location: str) -> None:
        """Create a directory and its parents, if they do not exist.

        Raises:
            StorageError: the directory cannot be created.
        """
        path = self._path(location)
        with self._storage(path):
            self._fs.makedirs(path, exist_ok=True)

    @property
    def renames_directories(self) -> bool:
        """Return whether the file system moves a directory in one operation. An object store has to copy each file."""
        return not is_object_store(self._filesystem)

    def move_directory(self, location: str, target: str) -> None:
        """Move a directory to another location in the same file system.

        Raises:
            StorageError: the directory is missing, ``target`` exists already, or the directory cannot be moved.
        """
        path, place = self._path(location), self._path(target)
        with self._storage(path):
            self._fs.invalidate_cache(place.rpartition("/")[0])
            if type_of(self._fs, place) is not None:
                raise StorageError(place, "there is a directory of that name already")
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            if isinstance(self._fs, LocalFileSystem):
                Path(path).rename(place)
            else:
                self._fs.mv(path, place, recursive=True)
            self._fs.invalidate_cache(path.rpartition("/")[0])

    def copy_directory(self, location: str, target: str) -> None:
        """Copy a directory with all its files to a location that does not exist yet.

        Raises:
            StorageError: the directory could not be copied completely.
        """
        source, place = self._path(location), self._path(target)
        with self._storage(source):
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._fs.copy(source, place, recursive=True)

    def delete_directory(self, location: str) -> None:
        """Delete a directory with all its files, if it exists.

        Raises:
            InvalidOperationError: the location is the root itself.
            StorageError: the directory could not be deleted completely.
        """
        path = self._path(location)
        if path.rstrip("/") == self._root:
            raise InvalidOperationError(
                "The deletion of", self._filesystem, "it is the root of a cluster's file system"
            )
        with self._storage(path):
            for _ in range(_MOST_TRIES):
                self._fs.invalidate_cache(path)
                if type_of(self._fs, path) is None:
                    return
                # Another process may be deleting the same directory.
                with suppress(FileNotFoundError):
                    if isinstance(self._fs, LocalFileSystem):
                        _delete_folders_in(path)
                    self._fs.rm(path, recursive=True)
                    return
            self._fs.rm(path, recursive=True)

    def delete_file(self, location: str) -> None:
        """Delete a file, if it exists.

        Raises:
            StorageError: the file could not be deleted.
        """
        path = self._path(location)
        with self._storage(path), suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def delete_empty_directories(self, location: str, depth: int) -> None:
        """Delete a directory if it is empty, then its parent if it is empty, and so on: at most ``depth`` directories.

        The deletion ends without an error at the first directory that is not empty, or cannot be deleted.
        """
        if isinstance(self._fs, ArrowFSWrapper):
            # With pyarrow, for HDFS and S3, this call would delete all files in the directory.
            return
        for _ in range(depth):
            try:
                self._fs.rmdir(self._path(location))
            except (OSError, ValueError, NotImplementedError):
                # The directory is not empty or already deleted, or the file system has no directories.
                return
            location = location.rpartition("/")[0]

    def _path(self, location: str) -> str:
        names = [name for name in location.split("/") if name not in ("", ".")]
        if ".." in names:
            raise InvalidOperationError("Access to", location, "a location does not lead upwards")
        return "/".join((self._root, *names))


def _delete_folders_in(path: str) -> None:
    """Delete the folders in a local directory, several at a time. If the directory has few folders, do nothing."""
    status = Path(path).lstat()
    # A directory has a link by its name, one to itself, and one from each folder in it; some file systems count no
    # links.
    if not stat.S_ISDIR(status.st_mode) or status.st_nlink == _LINKS_OF_LEAF:
        return
    with os.scandir(path) as entries:
        folders = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        if len(folders) > _DELETED_AT_ONCE:
            with ThreadPoolExecutor(_DELETED_AT_ONCE) as pool:
                for _ in pool.map(shutil.rmtree, folders):
                    pass


def is_hidden(name: str) -> bool:
    """Return whether Spark and Hive skip a file with this path relative to its table or partition."""
    # A partition's directory is never hidden, not even that of a key that starts with an underscore.
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


FILE, FOLDER = "file", "directory"


def type_of(fs: Any, path: str) -> str | None:
    """Return ``file`` or ``directory``, or None if neither exists.

    If the store does not respond, an error is raised. ``exists`` of fsspec would return False.
    """
    try:
        return str(fs.info(path)["type"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def _time_of_change(facts: Mapping[str, Any]) -> str:
    return next((str(facts[name]) for name in _TIMES_OF_CHANGE if facts.get(name)), "")


def entries_below(fs: Any, path: str, depth: int | None = None) -> Iterator[tuple[str, str, int, str]]:
    """Yield (name, type, size, time of change) for each entry, down to ``depth`` levels below a directory.

    For a file yield the file.

    If a directory cannot be read, an error is raised. ``walk`` of fsspec would regard the directory as empty.
    """
    if depth is None and isinstance(fs, ArrowFSWrapper):
        yield from _selected(fs, path)
        return
    if depth is None and type(fs).find is not fsspec.AbstractFileSystem.find:
        # As there: one request for many files, whatever the number of directories.
        for name, facts in fs.find(path, detail=True).items():
            yield name, FILE, int(facts.get("size") or 0), _time_of_change(facts)
        return
    if depth is None and isinstance(fs, LocalFileSystem):
        yield from _scanned(path)
        return
    folders = [(path, 0)]
    while folders:
        folder, level = folders.pop()
        try:
            entries = fs.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            name = entry["name"].rstrip("/")
            is_folder = entry["type"] == FOLDER or (entry.get("islink") and type_of(fs, name) == FOLDER)
            if name == folder and is_folder:
                continue
            yield name, FOLDER if is_folder else FILE, int(entry["size"] or 0), _time_of_change(entry)
            if is_folder and (depth is None or level < depth):
                folders.append((name, level + 1))


def _selected(wrapper: Any, path: str) -> Iterator[tuple[str, str, int, str]]:
    from pyarrow import fs

    if type_of(wrapper, path) == FILE:
        facts = wrapper.info(path)
        yield path, FILE, int(facts["size"] or 0), _time_of_change(facts)
        return
    for each in wrapper.fs.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        kind = FOLDER if each.type == fs.FileType.Directory else FILE
        yield each.path, kind, int(each.size or 0), _time_of_change({"mtime": each.mtime})


def _scanned(path: str) -> Iterator[tuple[str, str, int, str]]:
    """Yield the entries below a folder of a local disk, as :func:`entries_below`. For a file yield the file."""
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            if folder == path:
                found_file = Path(path).stat()
                yield path, FILE, found_file.st_size, str(found_file.st_mtime)
            continue
        for entry in entries:
            if entry.is_dir():
                yield entry.path, FOLDER, 0, ""
                folders.append(entry.path)
                continue
            try:
                facts = entry.stat()
            except FileNotFoundError:
                # The file was deleted meanwhile, or is a broken link.
                if entry.is_symlink():
                    yield entry.path, FILE, 0, ""
                continue
            yield entry.path, FILE, facts.st_size, str(facts.st_mtime)
