"""Names of ACID directories, and the choice of the directories that a snapshot reads.

Source: docs/reference/directories.md (Hive AcidUtils).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from airflow_hivex.core.errors import InvalidObjectError, NotEnoughHistoryError
from airflow_hivex.core.model.write_ids import RangeResponse

FIRST_COMPACTION = -(2**63)
"""The write id of the base that the first compaction makes after a table became transactional.

Every snapshot can read this base.
"""

MAX_STATEMENT_ID = 4095
"""The highest statement id that fits the bucket property (docs/reference/directories.md, "Bucket property")."""

NO_BUCKET = -1

UNFINISHED = ".copying"
"""The ending of hidden files that a killed copy leaves."""

_BASE = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?")
_DELTA = re.compile(r"(delta|delete_delta)_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")
_BUCKET_FILE = re.compile(r"bucket_([0-9]+)(?:_[0-9]+)?|([0-9]+)_[0-9]+(?:_copy_[0-9]+)?")


class DirectoryKind(enum.Enum):
    """The kind of an ACID directory."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """A base or delta directory. The write ids of a base begin at 0.

    ``visibility_txn_id`` is the transaction of the compaction that made the directory (suffix ``_v``), or 0.
    """

    name: str
    kind: DirectoryKind
    min_write_id: int
    max_write_id: int
    statement_id: int | None = None
    visibility_txn_id: int = 0

    @property
    def is_batch(self) -> bool:
        """Return whether the directory is the delta of a streaming batch. The batch's transactions add files to it."""
        is_delta = self.kind is DirectoryKind.DELTA
        return is_delta and self.min_write_id < self.max_write_id and not self.visibility_txn_id


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The names of the directories of a table or partition that a snapshot reads, and of those that it does not read.

    ``deltas`` are in reading order. ``originals`` are sorted by name, and read only if there is no base. Other
    directories have replaced the ``obsolete`` directories. ``aborted`` directories have only aborted writes.
    ``partial`` are deltas that also have write ids which the snapshot must not see; a filter must remove their rows.
    ``has_uncompacted_aborts`` is true if a delta has both aborted and other write ids.
    """

    base: str | None
    originals: tuple[str, ...]
    deltas: tuple[str, ...]
    obsolete: tuple[str, ...]
    aborted: tuple[str, ...]
    partial: tuple[str, ...] = ()
    has_uncompacted_aborts: bool = False


class VisibleIds(Protocol):
    """The common methods of transaction lists and write id lists."""

    @property
    def high_watermark(self) -> int:
        """Return the highest id that the list covers."""

    @property
    def exceptions(self) -> tuple[int, ...]:
        """Return the ids at or below the high watermark that are open or aborted."""

    def is_valid(self, id: int) -> bool:
        """Return whether the id is committed."""

    def is_aborted(self, id: int) -> bool:
        """Return whether the id is aborted."""

    def is_range_valid(self, lo: int, hi: int) -> RangeResponse:
        """Return whether all, some or none of the ids are committed."""

    def is_range_aborted(self, lo: int, hi: int) -> RangeResponse:
        """Return whether all, some or none of the ids are aborted."""

    def is_base_valid(self, id: int) -> bool:
        """Return whether a base that was compacted up to this id has only rows with valid ids."""


def base_name(write_id: int, visibility_txn_id: int = 0) -> str:
    """Return the name of a base of INSERT OVERWRITE or, if ``visibility_txn_id`` is given, of a compaction."""
    return f"base_{write_id:07d}{_visibility_suffix(visibility_txn_id)}"


def delta_name(
    min_write_id: int, max_write_id: int, statement_id: int | None = None, visibility_txn_id: int = 0
) -> str:
    """Return the name of a delta directory. Statements pass ``statement_id``; compactions pass ``visibility_txn_id``.

    Raises:
        InvalidObjectError: the write ids are in the wrong order, or the statement id is above :data:`MAX_STATEMENT_ID`.
    """
    return f"delta_{_delta_suffix(min_write_id, max_write_id, statement_id, visibility_txn_id)}"


def delete_delta_name(
    min_write_id: int, max_write_id: int, statement_id: int | None = None, visibility_txn_id: int = 0
) -> str:
    """Return the name of a delete delta directory. The arguments are those of :func:`delta_name`."""
    return f"delete_delta_{_delta_suffix(min_write_id, max_write_id, statement_id, visibility_txn_id)}"


def _delta_suffix(lo: int, hi: int, statement_id: int | None, visibility_txn_id: int) -> str:
    name = f"{lo:07d}_{hi:07d}"
    if not 0 <= lo <= hi:
        raise InvalidObjectError("delta directory", name, "its write ids do not rise from 0 or above")
    if statement_id is not None:
        if not 0 <= statement_id <= MAX_STATEMENT_ID:
            raise InvalidObjectError(
                "delta directory", name, f"statement id {statement_id} is not between 0 and {MAX_STATEMENT_ID}"
            )
        name += f"_{statement_id:04d}"
    return name + _visibility_suffix(visibility_txn_id)


def _visibility_suffix(txn_id: int) -> str:
    return f"_v{txn_id:07d}" if txn_id else ""


@lru_cache(maxsize=1 << 16)
def parse_directory(name: str) -> AcidDirectory | None:
    """Return the ACID directory with the name, or None for any other name.

    Numbers can be padded with zeros to any width, or not at all.
    """
    found = _DELTA.fullmatch(name)
    if found:
        kind, lo, hi, statement, visibility = found.groups()
        if int(lo) > int(hi):
            return None
        return AcidDirectory(
            name,
            DirectoryKind(kind),
            int(lo),
            int(hi),
            None if statement is None else int(statement),
            int(visibility or 0),
        )
    found = _BASE.fullmatch(name)
    if found:
        return AcidDirectory(name, DirectoryKind.BASE, 0, int(found[1]), None, int(found[2] or 0))
    return None


def bucket_number(file_name: str) -> int:
    """Return the bucket in the name of a bucket file or original file, or :data:`NO_BUCKET` for any other name."""
    found = _BUCKET_FILE.fullmatch(file_name)
    return int(found[1] or found[2]) if found else NO_BUCKET


def directory_state(
    names: Iterable[str | AcidDirectory],
    valid_write_ids: VisibleIds,
    valid_txns: VisibleIds,
    *,
    compacted_bases: Collection[str] = (),
) -> DirectoryState:
    """Return the directories that a snapshot reads, from the entries of a table's or partition's directory.

    An entry is a name or a parsed name. Entries that start with ``_`` or ``.`` are ignored. Any other entry that is
    neither a base nor a delta is an original file or directory.

    Args:
        names: the entries of the directory, in any order.
        valid_write_ids: the write ids of the table that the reader or compactor is allowed to see.
        valid_txns: the visible transactions. They decide whether the result of a compaction is visible.
        compacted_bases: names of bases without a visibility suffix whose ``_metadata_acid`` says that a compaction made
            them.

    Raises:
        NotEnoughHistoryError: a compaction has merged writes that the snapshot needs with writes that the snapshot must
            not see.

    Source: docs/reference/directories.md, "Directories of a snapshot".
    """
    choice = _Choice(valid_write_ids, valid_txns, frozenset(compacted_bases))
    originals: list[str] = []
    for entry in names:
        directory = parse_directory(entry) if isinstance(entry, str) else entry
        if directory is not None:
            choice.offer(directory)
        elif isinstance(entry, str) and not entry.startswith(("_", ".")):
            originals.append(entry)
    return choice.decide(originals)


class _Choice:
    """The choice of the directories that a snapshot reads: call ``offer`` for each directory, then ``decide``.

    The rule numbers in comments are those of docs/reference/directories.md.
    """

    def __init__(self, write_ids: VisibleIds, txns: VisibleIds, compacted_bases: frozenset[str]) -> None:
        self.write_ids = write_ids
        self.txns = txns
        self.compacted_bases = compacted_bases
        self.bases: list[AcidDirectory] = []
        self.deltas: list[AcidDirectory] = []
        self.aborted: list[str] = []
        self.has_uncompacted_aborts = False

    def offer(self, directory: AcidDirectory) -> None:
        # Rule 1.
        txn_id = directory.visibility_txn_id
        if txn_id and not self.txns.is_valid(txn_id):
            if self.txns.is_aborted(txn_id):
                self.aborted.append(directory.name)
        elif directory.kind is DirectoryKind.BASE:
            self._offer_base(directory)
        else:
            self._offer_delta(directory)

    def _is_compacted(self, base: AcidDirectory) -> bool:
        # Rule 2.
        return base.visibility_txn_id > 0 or base.name in self.compacted_bases

    def _offer_base(self, base: AcidDirectory) -> None:
        # Rule 3.
        if not self._is_compacted(base) and self.write_ids.is_aborted(base.max_write_id):
            self.aborted.append(base.name)
        else:
            self.bases.append(base)

    def _offer_delta(self, delta: AcidDirectory) -> None:
        # Rules 6 and 7.
        aborted = self.write_ids.is_range_aborted(delta.min_write_id, delta.max_write_id)
        if aborted is RangeResponse.ALL:
            self.aborted.append(delta.name)
            return
        if aborted is RangeResponse.SOME:
            self.has_uncompacted_aborts = True
        if self.write_ids.is_range_valid(delta.min_write_id, delta.max_write_id) is not RangeResponse.NONE:
            self.deltas.append(delta)

    def _is_usable(self, base: AcidDirectory) -> bool:
        # Rule 5. HIVE-22754 would admit an overwrite that is still open.
        if base.max_write_id == FIRST_COMPACTION:
            return True
        if self._is_compacted(base):
            return self.write_ids.is_base_valid(base.max_write_id)
        return self.write_ids.is_valid(base.max_write_id)

    def _rank(self, base: AcidDirectory) -> tuple[int, bool, int]:
        # Rule 4. The transaction makes the choice between two compactions of one write id
        # independent of the order of the listing.
        return base.max_write_id, self._is_compacted(base), base.visibility_txn_id

    def _best_base(self) -> AcidDirectory | None:
        best = max(filter(self._is_usable, self.bases), key=self._rank, default=None)
        if best is None:
            # Rule 11.
            compacted = [base for base in self.bases if self._is_compacted(base)]
            if compacted:
                oldest = min(compacted, key=self._rank)
                exceptions = self.write_ids.exceptions
                raise NotEnoughHistoryError(
                    self.write_ids.high_watermark, exceptions[0] if exceptions else None, oldest.name
                )
        return best

    def decide(self, originals: list[str]) -> DirectoryState:
        best = self._best_base()
        # A listing has no order; Hive sorts the files by their path.
        originals = sorted(originals)
        obsolete: list[str] = []
        if best is not None:
            # A base above the chosen one is not usable by this snapshot, but later ones may need it.
            rank = self._rank(best)
            obsolete += [base.name for base in self.bases if base is not best and self._rank(base) <= rank]
            # Rule 8.
            obsolete += originals
        taken = self._walk(best.max_write_id if best else 0, obsolete)
        return DirectoryState(
            base=best.name if best else None,
            originals=() if best else tuple(originals),
            deltas=tuple(delta.name for delta in taken),
            obsolete=tuple(obsolete),
            aborted=tuple(self.aborted),
            partial=tuple(
                delta.name
                for delta in taken
                if self.write_ids.is_range_valid(delta.min_write_id, delta.max_write_id) is not RangeResponse.ALL
            ),
            has_uncompacted_aborts=self.has_uncompacted_aborts,
        )

    def _walk(self, current: int, obsolete: list[str]) -> list[AcidDirectory]:
        """Return the deltas to read, by rules 9 and 10; append deltas that need not be read to ``obsolete``."""
        taken: list[AcidDirectory] = []
        several_statements = False
        for delta in sorted(self.deltas, key=_reading_order):
            if delta.max_write_id > current:
                # A delta without any newly visible row is left out, but not obsolete.
                if self.write_ids.is_range_valid(current + 1, delta.max_write_id) is not RangeResponse.NONE:
                    taken.append(delta)
                    current = delta.max_write_id
                    several_statements = delta.statement_id is not None
            elif (delta.max_write_id == current and several_statements) or (taken and _span(delta) == _span(taken[-1])):
                taken.append(delta)
            else:
                obsolete.append(delta.name)
        return taken


def _span(delta: AcidDirectory) -> tuple[int, int, int | None]:
    return delta.min_write_id, delta.max_write_id, delta.statement_id


def _reading_order(delta: AcidDirectory) -> tuple[int, int, int, str]:
    statement_id = -1 if delta.statement_id is None else delta.statement_id
    return delta.min_write_id, -delta.max_write_id, statement_id, delta.name
