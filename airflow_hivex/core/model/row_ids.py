"""``ROW__ID`` in a query: where it stands, whose it may be, and which stars must not show it.

Only the catalog knows which tables have row ids, so a query is read into these values first.
Source: Hive's VirtualColumn.ROWID and RecordIdentifier.
"""

from __future__ import annotations

from dataclasses import dataclass

ROW_ID = "ROW__ID"
"""Hive's name of the virtual column. Its fields are ``writeid``, ``bucketid`` and ``rowid``."""
WRITTEN_BITS = 33
"""Of a row id that a write gives. A rebalance puts the id of its transaction above them: no other row, of any version
and partition, has one of its ids, and rows that it has numbered are known by them."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The sources of a column ROW__ID in one scope. Numbers are places among the query's references.

    ``tables`` are read there themselves; of ``through`` only a column of their own can come, by the star of a
    sub-query. ``named`` counts the columns that sub-queries call so, ``others`` are the aliases of the sub-queries
    without one. ``is_open`` where something else may bring one. ``is_pivoted``: PIVOT takes the columns away.
    """

    tables: tuple[int, ...] = ()
    through: tuple[int, ...] = ()
    named: int = 0
    others: tuple[str, ...] = ()
    is_open: bool = False
    is_pivoted: bool = False


@dataclass(frozen=True, slots=True)
class RowIdUse:
    """One place that may read ROW__ID: the name stands from ``start`` to ``end``.

    ``scopes`` are those where it is looked for, from the innermost one. ``alias`` is the name of the result's
    column where nothing else names it.
    """

    start: int
    end: int
    scopes: tuple[Candidates, ...]
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnStar:
    """A star that stands for all columns of ``tables``.

    To leave columns out, their names go between ``before`` and ``after`` from ``start`` to ``end`` of the text.
    """

    start: int
    end: int
    before: str
    after: str
    tables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowIdReads:
    """The uses of ROW__ID in a query.

    ``result`` is what the query's own result brings under that name. ``is_named_otherwise``: the query calls
    something else so as well.
    """

    uses: tuple[RowIdUse, ...] = ()
    stars: tuple[ColumnStar, ...] = ()
    result: Candidates = Candidates()
    is_named_otherwise: bool = False
