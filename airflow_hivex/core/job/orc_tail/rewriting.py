"""The conditions under which pyarrow can rewrite stripes of full ACID files, and the tail of the new file.

Source: Apache ORC's C++ reader and writer as pyarrow uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from airflow_hivex.core.job.orc_tail.concatenation import Slice
from airflow_hivex.core.job.orc_tail.nesting import KEY, ROW, WRITE_ID, nested
from airflow_hivex.core.job.orc_tail.tail import Tail, as_job_error, read_tail
from airflow_hivex.core.job.orc_tail.types import (
    VALUES,
    Kind,
    Range,
    attributes,
    children,
    decimal_parameters,
    described,
    integer_range,
    kind,
    timestamp_range,
)
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import Place

_TEXTS = (Kind.STRING, Kind.VARCHAR, Kind.CHAR)
_SIMPLE = (
    *(Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE),
    *(Kind.TIMESTAMP, Kind.BINARY, *_TEXTS),
)
_DAY_MS = 86_400_000
# Writers have two forms for fractions of seconds before 1970, and pyarrow's times are nanoseconds in 64 bits.
_FIRST_MOMENT_MS = _DAY_MS
_LAST_MOMENT_MS = (1 << 63) // 1_000_000 - _DAY_MS


class Keys(NamedTuple):
    """The ranges of the three parts of row keys in a stripe, and ``written_by``, the range of the last write ids."""

    write_ids: Range
    buckets: Range
    row_ids: Range
    written_by: Range

    @property
    def lowest(self) -> tuple[int, int, int]:
        """Return a lower bound of the keys of all rows."""
        return self.write_ids.minimum, self.buckets.minimum, self.row_ids.minimum

    @property
    def highest(self) -> tuple[int, int, int]:
        """Return an upper bound of the keys of all rows."""
        return self.write_ids.maximum, self.buckets.maximum, self.row_ids.maximum


def stripe_keys(file: Place, tail: Tail) -> list[Keys]:
    """Return the ranges of row keys in each stripe, from the stripe's statistics.

    Raises:
        JobError: the statistics lack the ranges.
    """
    statistics = tail.stripe_statistics
    with as_job_error(file, "put together"):
        if len(statistics) != len(tail.stripes):
            raise ValueError("its stripes have no statistics")
        return [_keys(columns) for columns in statistics]


def known_keys(columns: Sequence[Message]) -> Keys | None:
    """Return the ranges of row keys in a stripe, or None if the statistics of its columns lack them."""
    wanted = (*KEY, WRITE_ID)
    ranges = [integer_range(columns[column]) for column in wanted if column < len(columns)]
    known = [found for found in ranges if found is not None]
    return Keys(*known) if len(known) == len(wanted) else None


def _keys(columns: Sequence[Message]) -> Keys:
    found = known_keys(columns)
    if found is None:
        raise ValueError("its statistics do not have the keys of its rows")
    return found


def is_rewritable(tail: Tail, stripes: Sequence[int], like: Tail, *, is_nested: bool) -> bool:
    """Return whether rewritten stripes can follow the stripes of ``like`` in a file, without a change for readers.

    The result is False if ``tail`` and ``like`` differ in form or types. It is also False if rows have structs, lists
    or maps, or if ``stripes`` of ``tail`` have times before 1970 or after 2262.
    """
    types = tail.types
    noted, of_like = attributes(types), attributes(like.types)
    if tail.form != like.form or described(types) != described(like.types):
        return False
    if any(noted) and any(of_like) and noted != of_like:
        return False
    structs = (0, ROW) if is_nested else (0,)
    if any(kind(type_) != Kind.STRUCT if at in structs else not _is_simple(type_) for at, type_ in enumerate(types)):
        return False
    moments = [at for at, type_ in enumerate(types) if kind(type_) == Kind.TIMESTAMP]
    if not moments:
        return True
    statistics = tail.stripe_statistics
    return all(_is_in_range(statistics[stripe][column]) for stripe in stripes for column in moments)


def _is_simple(type_: Message) -> bool:
    # Decimals of Hive 0.11 have no precision.
    return kind(type_) in _SIMPLE and (kind(type_) != Kind.DECIMAL or decimal_parameters(type_)[0] > 0)


def _is_in_range(statistics: Message) -> bool:
    found = timestamp_range(statistics)
    if found is None:
        return statistics.has(VALUES) and not statistics.number(VALUES)
    return found.minimum >= _FIRST_MOMENT_MS and found.maximum <= _LAST_MOMENT_MS


def rewritten(file: Place, sources: Sequence[Tail], *, is_nested: bool) -> Slice:
    """Return the stripes of a file that pyarrow has written, with the types and the calendar of its ``sources``.

    The columns of the file match the columns of the ``sources`` by position. If rows are structs, the file has a
    placeholder; see ``nest``.

    Raises:
        JobError: the file cannot be read, or has other columns.
    """
    tail = read_tail(file)
    if is_nested:
        tail = nested(file, tail)
    like = next((source for source in sources if any(attributes(source.types))), sources[0])
    with as_job_error(file, "put together"):
        if list(map(_stored, tail.types)) != list(map(_stored, like.types)):
            raise ValueError("its columns have other types than those that it was made of")
    return Slice(file, tail.described_as(like))


def _stored(type_: Message) -> tuple[int, list[int], tuple[int, int]]:
    """Return the type as stripes store it. Stripes store all kinds of texts in the same way."""
    of = Kind.STRING if kind(type_) in _TEXTS else kind(type_)
    return of, children(type_), decimal_parameters(type_)
