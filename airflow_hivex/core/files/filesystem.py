"""The file system of one cluster: listing what a copy holds, deleting what was dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fsspec


class ClusterFiles:
    """Files below the root of a cluster's file system. Locations are relative to it."""

    def __init__(self, filesystem: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(filesystem, **dict(storage_options or {}))

    def list_files(self, location: str) -> dict[str, int]:
        """All data files below a location: relative name to size. Hidden ones are left out."""
        folder = self._path(location)
        if not self._fs.exists(folder):
            return {}
        found = self._fs.find(folder, detail=True)
        files = {path[len(folder) :].lstrip("/"): int(facts["size"]) for path, facts in found.items()}
        return {name: size for name, size in files.items() if not _is_hidden(name)}

    def delete_directory(self, location: str) -> None:
        """Delete a folder and all below it; one that is not there is fine."""
        folder = self._path(location)
        if self._fs.exists(folder):
            self._fs.rm(folder, recursive=True)

    def _path(self, location: str) -> str:
        return f"{self._root.rstrip('/')}/{location}".rstrip("/")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
