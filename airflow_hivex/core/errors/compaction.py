"""Errors of compactions and of the cleaner."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError


class CompactionError(HivexError, pep249.OperationalError):
    """A compaction is not in the state that the call needs."""

    code = "COMPACTION"


class NoSuchCompactionError(CompactionError):
    """No compaction has this id, in the queue or in the history."""

    code = "NO_SUCH_COMPACTION"
    sentence = "There is no compaction {compaction_id}; SHOW COMPACTIONS lists those that are known."
    compaction_id: int


class CompactionNotDoneError(CompactionError):
    """A compaction has ended without success."""

    code = "COMPACTION_NOT_DONE"
    compaction_id: int
    name: str
    state: str
    reason: str | None = None

    def _describe(self) -> str:
        state = f"{self.state}: {self.reason}" if self.reason else self.state
        return (
            f"Compaction {self.compaction_id} of {self.name} is {state}. The table reads as before; ask for it again."
        )


class CompactionLostError(CompactionError):
    """A worker or cleaner continues a compaction that it has lost, because it took too long."""

    code = "COMPACTION_LOST"
    sentence = (
        "Compaction {compaction_id} of {name} is not with {owner} any more: it was given back after its time-out, or "
        "has ended. Undo its work; nothing of it counts."
    )
    compaction_id: int
    name: str
    owner: str


class ReplacementMissingError(CompactionError):
    """The cleaner does not find, or not whole, the directory that has the rows of those that it is to delete.

    ``found`` and ``registered`` are numbers of files and of bytes.
    """

    code = "REPLACEMENT_MISSING"
    sentence = (
        "{uri} has {found[0]} files of {found[1]} bytes, and registered are {registered[0]} files of {registered[1]} "
        "bytes. The directories that it replaces may hold the last copy of their rows, and were not deleted: bring it "
        "back from a backup, and keep them until then."
    )
    uri: str
    found: tuple[int, int]
    registered: tuple[int, int]
