"""The result of an import: one entry for each database, table, view and function of the Hive metastore."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ImportOutcome(enum.Enum):
    """The result for one object.

    ``PLANNED`` is that of a dry run. ``PRESENT`` is an object that was there before and is equal; one that ``DIFFERS``
    was left as it is. ``REFUSED`` is an object that cannot be taken over.
    """

    IMPORTED = "imported"
    PLANNED = "planned"
    PRESENT = "present"
    DIFFERS = "differs"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportedObject:
    """A database, table, view or function, and its result.

    ``kind`` is ``database``, ``external table``, ``transactional table``, ``insert-only table``, ``view``,
    ``function``, or ``table`` for one that was refused. ``partitions`` counts those that were added or would be,
    ``directories`` the registered directories and original files, ``size_bytes`` the bytes that were copied or would
    be. ``notes`` say why it differs or was refused, or what is not as it is in Hive.
    """

    kind: str
    name: str
    outcome: ImportOutcome
    partitions: int = 0
    directories: int = 0
    notes: tuple[str, ...] = ()
    size_bytes: int = 0

    @property
    def has_rows(self) -> bool:
        """Return whether the object is a table, and so neither a database, a view nor a function."""
        return self.kind.endswith("table")

    @property
    def is_missing(self) -> bool:
        """Return whether the object is not here as it is in Hive."""
        return self.outcome in (ImportOutcome.DIFFERS, ImportOutcome.REFUSED)
