"""The normal form of names, and the places of names in the user's text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, NewType, Self

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.texts import check_length

TxnId = NewType("TxnId", int)
WriteId = NewType("WriteId", int)

DEFAULT_DATABASE = "default"

_NAME = re.compile(r"[A-Za-z0-9_]+")
MAX_NAME_LENGTH = 128


def normalise(name: str) -> str:
    """Return the normal form of a name, in which names are stored and compared.

    Names are case-insensitive, as in Hive. Blanks are a part of the name.
    """
    return name.lower()


def check_name(kind: str, name: str) -> str:
    """Return the normalised name of a database or table.

    Raises:
        InvalidObjectError: the name is empty, too long, or has a character that is not a letter, digit or underscore
            (Source: Hive MetaStoreUtils.validateName).
    """
    normalised = normalise(name)
    if not _NAME.fullmatch(normalised):
        raise InvalidObjectError(kind, repr(name), "a name has letters, digits and underscores only")
    if len(normalised) > MAX_NAME_LENGTH:
        raise InvalidObjectError(kind, repr(name), f"a name has at most {MAX_NAME_LENGTH} characters")
    return normalised


def check_owner(owner: str | None) -> str | None:
    """Return the owner of a database or table, after a check of its length.

    Raises:
        InvalidParametersError: the owner is too long.
    """
    return None if owner is None else check_length("The owner", owner, MAX_NAME_LENGTH)


class Span(NamedTuple):
    """A place in the user's text: the index of its first character, from 0, and the index after its last character."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as the user names it: ``table`` or ``database.table``, both normalised.

    ``namespace`` is the Y of a link's name ``T@Y``. ``span`` is the place of the name in the user's text, or None if
    the name is in no text. Two names that differ only in ``span`` are equal.
    """

    name: str
    database: str | None = None
    namespace: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        qualified = f"{self.database}.{self.name}" if self.database else self.name
        return f"{qualified}@{self.namespace}" if self.namespace else qualified


class PlacedName(str):
    """The name of a database or of a cluster, with its place in the user's text."""

    __slots__ = ("span",)

    span: Span

    def __new__(cls, name: str, span: Span) -> Self:
        """Return the name with its place."""
        placed = super().__new__(cls, name)
        placed.span = span
        return placed

    def __getnewargs__(self) -> tuple[str, Span]:  # type: ignore[override]
        return str(self), self.span


_SOURCE, _FRAME = "source ", "frame "
"""The prefixes of :func:`source_name` and :func:`frame_name`. They have a space, which no table name has."""


def source_name(number: int) -> str:
    """Return the name by which the INSERTs of a multi-table INSERT read a sub-query that they share."""
    return f"{_SOURCE}{number}"


def frame_name(number: int) -> str:
    """Return the name by which a statement reads one of the DataFrames that are passed with the statement."""
    return f"{_FRAME}{number}"


def is_source(table: TableName) -> bool:
    """Return whether :func:`source_name` has returned the name."""
    return table.database is None and table.name.startswith(_SOURCE)


def is_frame(table: TableName) -> bool:
    """Return whether :func:`frame_name` has returned the name."""
    return table.database is None and table.name.startswith(_FRAME)


def is_stored(table: TableName) -> bool:
    """Return whether a name belongs to a table, view or link, and not to a DataFrame or a shared sub-query."""
    return not is_source(table) and not is_frame(table)
