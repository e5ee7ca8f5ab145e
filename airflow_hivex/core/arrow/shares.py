"""The columns of a piece of a file in shares, so that few large pieces keep all threads busy.

A table of some million rows has few stripes. Read whole, the last of them would leave processors without work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pyarrow as pa

from airflow_hivex.core.arrow.files import Piece
from airflow_hivex.core.arrow.visible_rows import VisibleRows
from airflow_hivex.core.model.objects import Column

VALUES = 1_000_000
"""A share has about so many values: they take some hundredths of a second, and opening the file again much less."""


class PieceRows:
    """The visible rows of a piece while its shares are read; threads may use it at the same time."""

    def __init__(self, piece: Piece, visible: VisibleRows | None, shares: int) -> None:
        self.piece = piece
        self.columns: dict[str, pa.Array] = {}
        self._visible = visible
        self._left = shares
        self._stay: pa.Array | None = None
        self._lock = Lock()

    @property
    def metadata(self) -> tuple[str, ...]:
        """Return the metadata columns that tell the visible rows."""
        return () if self._visible is None else self._visible.metadata

    def stay(self, metadata: Mapping[str, Any]) -> pa.Array | None:
        """Return for each row whether it is visible, given the metadata columns; None where all are."""
        if self._visible is None:
            return None
        with self._lock:
            if self._stay is None:
                found = self._visible.among(metadata)
                if found is None or found.all():
                    self._visible = None
                    return None
                self._stay = pa.array(found)
            return self._stay

    def add(self, columns: Mapping[str, pa.Array]) -> bool:
        """Add the columns of a share; return whether it is the last one."""
        with self._lock:
            self.columns.update(columns)
            self._left -= 1
            return self._left == 0


@dataclass(frozen=True, slots=True)
class Share:
    """Some columns of a piece, among them some of its metadata columns."""

    rows: PieceRows
    columns: Sequence[Column]
    metadata: Sequence[str] = ()


def shares_of(piece: Piece, visible: VisibleRows | None, columns: Sequence[Column]) -> list[Share]:
    """Return the shares of a piece; the first has the metadata columns."""
    number = max(1, min(len(columns), piece.rows * len(columns) // VALUES))
    if any("." in each.in_files for each in columns):
        # The reader of nested rows would read the whole row for each share.
        number = 1
    rows = PieceRows(piece, visible, number)
    # Neighbours are often alike: texts with texts, numbers with numbers.
    return [Share(rows, columns[at::number], () if at else rows.metadata) for at in range(number)]
