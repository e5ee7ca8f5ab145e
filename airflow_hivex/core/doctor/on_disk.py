"""The entries of the folder of a table or partition. No database is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.directories import AcidDirectory, parse_directory

_MARKERS = frozenset({"_SUCCESS", "_metadata", "_common_metadata", "_orc_acid_version"})


@dataclass(slots=True)
class Entry:
    """A directory or file directly in the folder of a table or partition; paths are below the cluster's root.

    ``files`` and ``size_bytes`` are the data files in it, which readers look at; ``all_files`` and ``all_bytes`` count
    hidden ones, too. ``each`` has the data files one by one, by path, where their directory is not registered as a
    whole: of streaming batches, and of directories that are not ACID directories.
    """

    partition: str | None
    folder: str
    path: str
    acid: AcidDirectory | None
    files: int = 0
    size_bytes: int = 0
    all_files: int = 0
    all_bytes: int = 0
    each: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name in the folder; empty where the folder itself is the file."""
        return self.path[len(self.folder) + 1 :]

    def add(self, path: str, inside: str, size_bytes: int) -> None:
        """Count a file, ``inside`` being its path below the entry."""
        self.all_files += 1
        self.all_bytes += size_bytes
        if inside and _is_hidden(inside):
            return
        self.files += 1
        self.size_bytes += size_bytes
        if self.acid is None or self.acid.is_batch:
            self.each[path] = size_bytes


def entries(
    files: Iterable[tuple[str, int]],
    root: str,
    *,
    depth: int = 0,
    partition: str | None = None,
    elsewhere: Mapping[str, object] | None = None,
) -> dict[str, Entry]:
    """Return the entries that hold files, by path, given all files below a folder: paths below it, and sizes.

    ``depth`` is the number of partition keys, or 0 where the folder is that of ``partition``. What lies in the folders
    ``elsewhere`` is left out, and so are the markers and checksums that writers of plain files leave next to them.
    """
    found: dict[str, Entry] = {}
    folder, entry = None, None
    for path, size_bytes in files:
        above, _, last = path.rpartition("/")
        whole = f"{root}/{path}".rstrip("/")
        # Files of one directory mostly come together.
        if entry is None or above != folder or not whole.startswith(f"{entry.path}/"):
            names = path.split("/")
            if elsewhere and any(f"{root}/{'/'.join(names[:at])}" in elsewhere for at in range(1, len(names) + 1)):
                continue
            level = 0
            while level < min(depth, len(names) - 1) and "=" in names[level]:
                level += 1
            if level == len(names) - 1 and is_marker(last):
                continue
            place = "/".join((root, *names[:level]))
            entry_path = f"{place}/{names[level]}".rstrip("/")
            of = "/".join(names[:level]) if depth and level == depth else partition
            folder = above
            entry = found.get(entry_path)
            if entry is None:
                acid = parse_directory(names[level]) if level < len(names) - 1 else None
                entry = found[entry_path] = Entry(of, place, entry_path, acid)
        entry.add(whole, whole[len(entry.path) + 1 :], size_bytes)
    return found


def is_marker(name: str) -> bool:
    """Return whether a file of this name says nothing but that others are complete."""
    return name in _MARKERS or (name.startswith(".") and name.endswith(".crc"))


def _is_hidden(inside: str) -> bool:
    return inside.startswith(("_", ".")) or "/_" in inside or "/." in inside
