"""Pages of long lists: which part of a list is asked for, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_hivex.core.errors import InvalidObjectError

T = TypeVar("T")

MOST_ROWS = 500
"""The most rows of one page."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A part of a list: ``limit`` rows from ``offset`` on, sorted, and only those that contain ``search``.

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
