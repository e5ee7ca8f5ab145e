"""The division of long lists of values into batches that fit into one query of SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import BigInteger, BindParameter, Executable, bindparam

from airflow_hivex.core.store.exchange import Call, Prepared, Value

T = TypeVar("T")

# SQLite takes 32,766 bound values in a statement, PostgreSQL 65,535.
BATCH_SIZE = 10_000


def batches(items: Sequence[T], size: int = BATCH_SIZE) -> Iterator[Sequence[T]]:
    """Yield slices of ``items``, in order, of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


MOST_IDS = 16
"""The greatest number of ids in one query."""

_SIZES = (1, 2, 4, 8, MOST_IDS)


class PreparedForIds:
    """A query with ``column.in_(ids)``, prepared for 1, 2, 4, 8 and 16 ids.

    A list of another length is filled up with copies of its last id.
    """

    def __init__(
        self, statement: Callable[[Sequence[BindParameter[int]]], Executable], *, skipped_on_sqlite: bool = False
    ) -> None:
        self._names = [f"id_{number}" for number in range(MOST_IDS)]
        ids = [bindparam(name, type_=BigInteger) for name in self._names]
        self._prepared = {size: Prepared(statement(ids[:size]), skipped_on_sqlite=skipped_on_sqlite) for size in _SIZES}

    def __call__(self, ids: Sequence[int], **values: Value) -> Call:
        """Return the query for 1 to :data:`MOST_IDS` ids."""
        size = next(each for each in _SIZES if each >= len(ids))
        padded = [*ids, *[ids[-1]] * (size - len(ids))]
        return self._prepared[size](**dict(zip(self._names, padded, strict=False)), **values)

    def batched(self, ids: Sequence[int], **values: Value) -> Iterator[Call]:
        """Yield a query for each batch of at most :data:`MOST_IDS` ids."""
        return (self(batch, **values) for batch in batches(ids, MOST_IDS))
