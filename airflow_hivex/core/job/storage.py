"""Files by URI, in the process of the job: renames, deletes and small writes through pyarrow.

As in Hadoop, a URI is not decoded: ``%2F`` in a partition's name is three characters.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from airflow_hivex.core.job.mounts import is_own_disk

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?")
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a pyarrow file system. ``endpoint`` is the address of its object store, empty if it is unknown."""

    filesystem: Any
    path: str
    endpoint: str = ""

    def __truediv__(self, name: str) -> Place:
        return replace(self, path=f"{self.path.rstrip('/')}/{name}")

    def describe(self, error: Exception, began: float) -> str:
        """Return why a call for this place has failed. ``began`` is the start of the call by the monotonic clock."""
        # A server of Spark Connect gets this module without the others.
        from airflow_hivex.core.errors.clusters import describe_failure

        return describe_failure(error, self.endpoint, time.monotonic() - began)

    @property
    def is_own_disk(self) -> bool:
        """Return whether the place is on a disk that only this host writes to."""
        return isinstance(self.filesystem, pafs.LocalFileSystem) and is_own_disk(self.path)

    @property
    def copies_to_rename(self) -> bool:
        """Return whether the file system renames a file by a copy, as S3 does."""
        return isinstance(self.filesystem, pafs.S3FileSystem)

    def create_directory(self) -> None:
        """Create the directory and its parents, if they do not exist."""
        self.filesystem.create_dir(self.path, recursive=True)

    def exists(self) -> bool:
        """Return whether a file or directory exists at this place."""
        return bool(self.filesystem.get_file_info(self.path).type != pafs.FileType.NotFound)

    def is_file(self) -> bool:
        """Return whether the place is a file rather than a directory."""
        return bool(self.filesystem.get_file_info(self.path).type == pafs.FileType.File)

    def stamp(self) -> tuple[int | None, object]:
        """Return the size of the file in bytes, and the time of its last change. Without a file, the size is None."""
        info = self.filesystem.get_file_info(self.path)
        return info.size, info.mtime_ns

    def files(self) -> list[tuple[str, int]]:
        """Return (path, size) of every file below this directory, at any depth. A missing directory has no files."""
        selector = pafs.FileSelector(self.path, recursive=True, allow_not_found=True)
        start = len(self.path.rstrip("/")) + 1
        return sorted(
            (info.path[start:], int(info.size))
            for info in self.filesystem.get_file_info(selector)
            if info.type == pafs.FileType.File
        )

    def move(self, target: Place) -> None:
        """Rename the file within its file system."""
        self.filesystem.move(self.path, target.path)

    def open(self) -> Any:
        """Return the file for reading, with random access."""
        return self.filesystem.open_input_file(self.path)

    def write(self, data: bytes | memoryview | Any) -> int:
        """Create or replace the file; return the number of written bytes."""
        with self.filesystem.open_output_stream(self.path) as stream:
            stream.write(data)
        return len(data)

    def delete_file(self) -> None:
        """Remove a file."""
        self.filesystem.delete_file(self.path)

    def delete(self) -> None:
        """Remove the directory with all its files, if it exists."""
        if self.exists():
            self.filesystem.delete_dir(self.path)


class _Roots:
    """A dict from root (a URI without a slash at its end) to the function that opens its file system.

    The functions can contain secret keys, so the dict is not sent to the tasks of Spark with the code of this module. A
    task fills it with the file systems of its files (:func:`use_opened`).
    """

    def __init__(self) -> None:
        self._opens: dict[str, tuple[Callable[[], Any], str]] = {}

    def __reduce__(self) -> tuple[type[_Roots], tuple[()]]:
        return _Roots, ()

    def add(self, root: str, opens: Callable[[], Any], endpoint: str) -> None:
        self._opens[root.rstrip("/")] = cache(opens), endpoint

    def add_opened(self, root: str, filesystem: Any) -> None:
        self._opens[root] = lambda: filesystem, ""

    def place(self, location: str) -> Place | None:
        """Return the place of a URI that is or lies below one of the roots, or None for any other URI."""
        for root, (opens, endpoint) in self._opens.items():
            if location == root or location.startswith(f"{root}/"):
                return Place(opens(), location.partition("://")[2], endpoint)
        return None

    def opened_in(self, text: str) -> dict[str, Any]:
        """Return a dict from root to opened file system, for the roots whose URIs occur in a text."""
        return {root: opens() for root, (opens, _) in self._opens.items() if root in text}


_roots = _Roots()


def use_for(root: str, opens: Callable[[], Any], endpoint: str = "") -> None:
    """Register the function that opens the file system of all URIs below ``root``, for example with a cluster's keys.

    Errors name ``endpoint``, the address of an object store. The registration is for this process; a task of Spark gets
    what it needs by :func:`use_opened`.
    """
    _roots.add(root, opens, endpoint)


def opened_in(text: str) -> dict[str, Any]:
    """Return a dict from root to pyarrow's file system, for the roots whose URIs occur in a text.

    Each file system uses the keys of its cluster. A task of Spark passes the dict to :func:`use_opened`.
    """
    return _roots.opened_in(text)


def use_opened(filesystems: Mapping[str, Any]) -> None:
    """Use file systems that another process has opened, in a dict from root to file system."""
    for root, filesystem in filesystems.items():
        _roots.add_opened(root, filesystem)


def place(location: str) -> Place:
    """Return the :class:`Place` of a URI or local path: the file system, and the path in it."""
    known = _roots.place(location)
    if known is not None:
        return known
    found = _URI.fullmatch(location)
    if found is None:
        return Place(pafs.LocalFileSystem(), str(Path(location).absolute()))
    scheme, authority, path = found[1].lower(), found[2] or "", found[3] or "/"
    if scheme == "file":
        return Place(pafs.LocalFileSystem(), path)
    filesystem, root = pafs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{authority}/")
    return Place(filesystem, f"{root.rstrip('/')}{path}")
