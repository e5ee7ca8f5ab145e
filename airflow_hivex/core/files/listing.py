"""Names, types and sizes of the files and folders below a directory, on any of fsspec's file systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.local import LocalFileSystem

FILE, FOLDER = "file", "directory"


def type_of(fs: Any, path: str) -> str | None:
    """Return whether a file or a folder is there, None for neither.

    What fsspec has for this takes a store that does not answer for an empty one.
    """
    try:
        return str(fs.info(path)["type"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def entries_below(fs: Any, path: str, depth: int | None = None) -> Iterator[tuple[str, str, int]]:
    """Yield name, type and size of all that is below a directory, or of the file itself; to ``depth`` levels below.

    fsspec's own way takes directories that cannot be read for empty.
    """
    if depth is None and isinstance(fs, ArrowFSWrapper):
        yield from _selected(fs, path)
        return
    if depth is None and type(fs).find is not fsspec.AbstractFileSystem.find:
        # As there: one request for many files, whatever the number of directories.
        for name, facts in fs.find(path, detail=True).items():
            yield name, FILE, int(facts.get("size") or 0)
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
            yield name, FOLDER if is_folder else FILE, int(entry["size"] or 0)
            if is_folder and (depth is None or level < depth):
                folders.append((name, level + 1))


def _selected(wrapper: Any, path: str) -> Iterator[tuple[str, str, int]]:
    from pyarrow import fs

    if type_of(wrapper, path) == FILE:
        yield path, FILE, int(wrapper.info(path)["size"] or 0)
        return
    for each in wrapper.fs.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        yield each.path, FOLDER if each.type == fs.FileType.Directory else FILE, int(each.size or 0)


def _scanned(path: str) -> Iterator[tuple[str, str, int]]:
    """Yield all files and folders below a folder of a local disk, or the file itself, with few calls."""
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
                yield path, FILE, Path(path).stat().st_size
            continue
        for entry in entries:
            if entry.is_dir():
                yield entry.path, FOLDER, 0
                folders.append(entry.path)
                continue
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                # Gone meanwhile, or a link to nothing.
                if not entry.is_symlink():
                    continue
                size = 0
            yield entry.path, FILE, size
