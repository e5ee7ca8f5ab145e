"""The directories that a cluster should have already, compared with what lies there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from airflow_hivex.core.catalog.copies import place_in_copy
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.model.directories import UNFINISHED
from airflow_hivex.core.replication.copying import directory_checksum, hash_files
from airflow_hivex.core.replication.planning import PlannedDirectory, PlannedTable


class CopyComparison:
    """Compares copies with their sources, by the names, sizes and checksums of their files."""

    def __init__(self, files: Callable[[str], ClusterFiles], stop: threading.Event, threads: int) -> None:
        self._files = files
        self._stop = stop
        self._threads = threads

    def without_equal(
        self, planned: PlannedTable, known: Mapping[int, str], txn_id: int, unfinished: Collection[str]
    ) -> PlannedTable:
        """Return the plan with those of the present directories that are not what they should be among the lacking.

        A directory is copied again into its place. A changed partition of a plain table goes into a new folder, as
        queries may be reading the old one: into one of ``unfinished``, which earlier replications have left, if there
        is one of it. The files that have not changed are taken over. ``known`` are recorded checksums, by id.
        """
        if not planned.present:
            return planned
        changed = list(self._changed(planned, known))
        folder = f"{planned.table.storage.primary.location}_copy_{txn_id}"
        again = []
        for each, reused in changed:
            if each.registered is not None:
                again.append(replace(each, is_held=True))
                continue
            place = _place(planned, each, folder)
            ending = place.removeprefix(folder)
            left = [one for one in unfinished if _is_version(one, planned.table.storage.primary.location, ending)]
            place = max(left, default=place)
            again.append(replace(each, place=place, folder=place, reused=reused))
        lacking = (*planned.lacking, *again)
        return replace(planned, lacking=lacking, present=(), is_complete=planned.is_complete and not again)

    def _changed(
        self, planned: PlannedTable, known: Mapping[int, str]
    ) -> Iterator[tuple[PlannedDirectory, dict[str, str]]]:
        """Yield the directories that differ from their source, each with the places of its equal files."""
        target = self._files(planned.cluster)
        for each in planned.present:
            found = {name: size for name, size in target.walk(each.place) if not _is_apart(name)}
            same_size = [name for name, size in each.files.items() if found.get(name) == size]
            is_alike = found == dict(each.files)
            if each.registered is None:
                same = self._same(planned, each, same_size)
                if not is_alike or len(same) < len(each.files):
                    yield each, {name: each.place_of(name) for name in same}
            elif not is_alike or not self._is_right(planned, each, known):
                yield each, {}

    def _is_right(self, planned: PlannedTable, directory: PlannedDirectory, known: Mapping[int, str]) -> bool:
        """Return whether a registered directory has the recorded checksum, or else the files of its source."""
        assert directory.registered is not None
        expected = known.get(directory.registered.id)
        if expected is None:
            return len(self._same(planned, directory, list(directory.files))) == len(directory.files)
        copies = {name: (planned.cluster, directory.place_of(name)) for name in directory.files}
        hashed = hash_files(self._files, list(copies.values()), self._stop, threads=self._threads)
        return checksum_of({name: hashed[copy] for name, copy in copies.items()}) == expected

    def _same(self, planned: PlannedTable, directory: PlannedDirectory, names: Collection[str]) -> list[str]:
        """Return the files that have the checksum of their source."""
        pairs = {
            name: ((planned.cluster, directory.place_of(name)), (directory.source, directory.source_of(name)))
            for name in names
        }
        both = [file for pair in pairs.values() for file in pair]
        hashed = hash_files(self._files, both, self._stop, threads=self._threads)
        return [name for name, (copy, source) in pairs.items() if hashed[copy] == hashed[source]]


def checksum_of(checksums: Mapping[str, str]) -> str:
    """Return the checksum of a directory, without files that only other programs read."""
    return directory_checksum({name: each for name, each in checksums.items() if not is_hidden(name)})


def _is_apart(name: str) -> bool:
    """Return whether a file is one that neither readers nor replications look at."""
    last = name.rpartition("/")[2]
    return last.startswith(".") or last.endswith(UNFINISHED)


def _place(planned: PlannedTable, directory: PlannedDirectory, folder: str) -> str:
    locations = {each.name: each.location for each in planned.bound.partitions}
    inside = place_in_copy(planned.table, directory.partition, locations[directory.partition])
    return f"{folder}/{inside}" if inside else folder


def _is_version(place: str, location: str, ending: str) -> bool:
    """Return whether a place is that of a partition in a copy of a table, whichever transaction has made it."""
    start = f"{location}_copy_"
    inside = place.removesuffix(ending) if ending else place
    return place.startswith(start) and place.endswith(ending) and inside[len(start) :].isdecimal()
