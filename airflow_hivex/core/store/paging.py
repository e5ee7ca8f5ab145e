"""Pages of long lists, which the database sorts, filters and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, func, literal_column, or_, select

from airflow_hivex.core.errors import InvalidObjectError


def read_page(
    connection: Connection,
    query: Select[Any],
    wanted: PageRequest,
    orders: Mapping[str, ColumnElement[Any]],
    key: ColumnElement[Any],
    read: Callable[[Row[Any]], T],
) -> Page[T]:
    """Return a page of a list, and the number of rows of the whole list. The call takes two queries.

    Args:
        connection: the connection that runs the queries.
        query: the query that selects the whole list.
        wanted: the page.
        orders: a dict from name to column, for the columns by which the list can be sorted. Without ``wanted.order_by``
            the list is sorted by ``key``.
        key: a unique column, which sorts rows that are equal in the other column, so that no row is on two pages.
        read: a function that returns the value of a row.

    Raises:
        InvalidObjectError: ``wanted.order_by`` is not in ``orders``.
    """
    if wanted.order_by is not None and wanted.order_by not in orders:
        raise InvalidObjectError("column to sort by", repr(wanted.order_by), f"it is one of {', '.join(orders)}")
    order = key if wanted.order_by is None else orders[wanted.order_by]
    directed = [each.desc() if wanted.descending else each.asc() for each in (order, key)]
    if getattr(order, "nullable", True):
        # Only on PostgreSQL: SQLite would use no index with it.
        directed[0] = directed[0].nulls_last()
    rows = connection.execute(query.order_by(*directed).offset(wanted.offset).limit(wanted.limit)).all()
    counted = query.with_only_columns(literal_column("1"), maintain_column_froms=True).subquery()
    total = connection.execute(select(func.count()).select_from(counted)).scalar_one()
    return Page([read(row) for row in rows], int(total))


def contains(text: str, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that at least one of the columns contains ``text``.

    Upper and lower case are equal, and ``%`` and ``_`` match only themselves.
    """
    return or_(*(column.icontains(text, autoescape=True) for column in columns))


T = TypeVar("T")

MOST_ROWS = 500
"""The greatest number of rows of a page."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A part of a sorted list: ``limit`` rows from ``offset`` on, among the rows that contain ``search``.

    Raises:
        InvalidObjectError: an offset or a limit is not valid.
    """

    offset: int = 0
    limit: int = 50
    order_by: str | None = None
    descending: bool = False
    search: str = ""

    def __post_init__(self) -> None:
        if not (0 <= self.offset < 2**31 and 1 <= self.limit <= MOST_ROWS):
            reason = f"give an offset from 0 on, and a limit from 1 to {MOST_ROWS}"
            raise InvalidObjectError("page", f"offset {self.offset}, limit {self.limit}", reason)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of a page, and the number of rows of the whole list."""

    rows: Sequence[T]
    total: int
