"""The files that COPY INTO has loaded into a table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file of a load: its path, size, time of change, and the checksum of a small file.

    The path of a file below the root of the table's cluster is relative to this root. So the file counts as loaded also
    if the table moves to another cluster, to which the file was copied. Any other path is a URI. ``changed`` has the
    form that the file system uses.
    """

    path: str
    size_bytes: int
    changed: str
    checksum: str | None = None

    @property
    def key(self) -> str:
        """Return the hash of the path, by which the metastore finds the file."""
        return path_key(self.path)


def path_key(path: str) -> str:
    """Return a hash of a path. Two paths never have the same hash in practice."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
