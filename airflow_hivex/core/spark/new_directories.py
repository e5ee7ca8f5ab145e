"""The base or delta directories that one write makes, and takes back when it fails."""

from __future__ import annotations

import logging

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.spark.layout import VERSION, VERSION_FILE, directory_name, partition_location
from airflow_hivex.core.spark.storage import Place, place

log = logging.getLogger(__name__)

PartitionValues = tuple[str | None, ...]


class NewDirectories:
    """One directory per partition, made when the first file for it comes."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._name = directory_name(write)
        self._places: dict[str | None, Place] = {}
        self._written: dict[str | None, WrittenDirectory] = {}

    def directory(self, partition: str | None, values: PartitionValues) -> Place:
        """The directory for a partition, which exists from now on.

        Raises:
            InvalidOperationError: it was there before: the write id is not this write's alone.
        """
        if partition not in self._places:
            target = place(partition_location(self._write, partition)) / self._name
            if target.exists():
                raise InvalidOperationError("INSERT", self._write.table, f"directory {target.path} exists already")
            self._places[partition] = target
            target.create_directory()
            (target / VERSION_FILE).write(VERSION)
            self._written[partition] = WrittenDirectory(partition, values, self._name, 0, 0, 0)
        return self._places[partition]

    def count(self, partition: str | None, rows: int, size_bytes: int) -> None:
        """Note a file that was put into a partition's directory."""
        known = self._written[partition]
        self._written[partition] = WrittenDirectory(
            partition, known.values, known.name, known.files + 1, known.rows + rows, known.size_bytes + size_bytes
        )

    @property
    def written(self) -> tuple[WrittenDirectory, ...]:
        """All directories, in the order of their partitions' names."""
        return tuple(self._written[name] for name in sorted(self._written, key=lambda name: name or ""))

    def discard(self) -> None:
        """Delete what was made; what cannot be deleted is logged, for no one will ever read it."""
        for made in self._places.values():
            try:
                made.delete()
            except OSError as error:
                log.warning("Directory %s of a failed write could not be deleted: %s", made.path, error)
