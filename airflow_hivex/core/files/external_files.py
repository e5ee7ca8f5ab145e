"""The files of a write to an external table: their publication, their withdrawal, and the end of the write.

A write moves its files into the folders of the table, under names that contain the token of the write. Files that the
write replaces get hidden names with this token, until the commit is certain.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from airflow_hivex.core.files.filesystem import ClusterFiles

log = logging.getLogger(__name__)

_SUFFIXES = {"avro": ".avro", "csv": ".csv", "json": ".json", "orc": ".orc", "parquet": ".parquet", "text": ".txt"}
_STAGED = re.compile(r"(\d+)_0(.*)")


@dataclass(frozen=True, slots=True)
class NewFiles:
    """The files that a write moves into the folder ``location``.

    ``staged`` is the hidden folder with these files, or None if there are no files. With ``overwrite`` the files
    replace all visible files of ``location``.
    """

    location: str
    staged: str | None
    overwrite: bool


def publish(files: ClusterFiles, new: Iterable[NewFiles], token: str, format: str, check: Callable[[], None]) -> None:
    """Move the files of a write into their folders. Each file becomes visible when it is moved.

    ``check`` is called before each folder. An error of ``check`` ends the publication.

    Raises:
        StorageError: a file could not be moved, or another program has removed it. The caller must call
            :func:`take_back`.
    """
    for each in new:
        check()
        files.make_directory(each.location)
        if each.overwrite:
            for name in files.list_data_files(each.location):
                files.move_file(f"{each.location}/{name}", f"{each.location}/{_hidden(name, token)}")
        staged = [] if each.staged is None else files.list_data_files(each.staged)
        for name in staged:
            files.move_file(f"{each.staged}/{name}", f"{each.location}/{_visible(name, token, format)}")


def take_back(files: ClusterFiles, locations: Sequence[str], token: str, depth: int) -> None:
    """Remove the files of a write from its folders, and restore the files that it has hidden. Safe to repeat.

    Folders of partitions that have become empty are deleted, too, up to ``depth`` levels.

    Raises:
        StorageError: some files could not be removed or restored.
    """
    for location in locations:
        hidden = []
        for entry in files.list_entries(location):
            if entry.startswith("part-") and f"-{token}." in f"{entry}.":
                files.delete_file(f"{location}/{entry}")
            elif entry.startswith(".") and entry.endswith(f".{token}"):
                hidden.append(entry)
        for entry in hidden:
            name = entry[1 : -len(token) - 1]
            if files.is_file(f"{location}/{name}"):
                log.warning(
                    "File %s of %s was replaced by another program; the earlier one is %s", name, location, entry
                )
                continue
            files.move_file(f"{location}/{entry}", f"{location}/{name}")
        files.delete_empty_directories(location, depth)


def settle(files: ClusterFiles, locations: Sequence[str], token: str) -> None:
    """Delete the files that a committed write has replaced. Safe to repeat.

    Raises:
        StorageError: some files could not be deleted.
    """
    for location in locations:
        for entry in files.list_entries(location):
            if entry.startswith(".") and entry.endswith(f".{token}"):
                files.delete_file(f"{location}/{entry}")
                # Hadoop's checksums of the earlier file.
                files.delete_file(f"{location}/{entry.removesuffix(f'.{token}')}.crc")


def _visible(name: str, token: str, format: str) -> str:
    staged = _STAGED.fullmatch(name)
    number, ending = (staged[1], staged[2]) if staged is not None else (name, "")
    # The last part of a name is the compression of the file, if the file itself does not record it.
    return f"part-{number}-{token}{_SUFFIXES.get(format, '')}{ending}"


def _hidden(name: str, token: str) -> str:
    return f".{name}.{token}"
