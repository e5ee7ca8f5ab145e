"""The write id lists that callers of the RawStore give: which state of a table they want to read."""

from __future__ import annotations

import enum
from typing import TypeAlias

from airflow_hivex.core.errors import InvalidWriteIdListError, MissingWriteIdListError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.write_ids import MAX_ID, ValidWriteIdList


class StateOf(enum.Enum):
    """The state that a caller wants who gives no write id list."""

    NOW = "now"
    """That of now, which the database has."""


GivenList: TypeAlias = ValidWriteIdList | str | StateOf | None
"""A write id list, or its text form. None says that the caller has no list, as for a table without transactions."""


def checked_list(database: str, table: str, given: GivenList) -> ValidWriteIdList | StateOf | None:
    """Return the given list of a table as a value.

    Raises:
        InvalidWriteIdListError: the text is empty or not a list, or the list is that of another table.
    """
    if given is None or isinstance(given, StateOf):
        return given
    if isinstance(given, str):
        if not given.strip():
            raise InvalidWriteIdListError(given, "an empty text would see all write ids")
        given = ValidWriteIdList.parse(given)
    if given.high_watermark >= MAX_ID:
        raise InvalidWriteIdListError(str(given), "it would see all write ids")
    name = f"{normalise(database)}.{normalise(table)}"
    if given.table != name and (given.table is None or given.table.lower() != name):
        raise InvalidWriteIdListError(str(given), f"it is not a list of table {name}")
    return given


def check_has_list(table: Table, given: ValidWriteIdList | StateOf | None) -> None:
    """Refuse to read or change a transactional table for a caller that has no write id list.

    Raises:
        MissingWriteIdListError: the list is None.
    """
    if given is None and table.is_transactional:
        raise MissingWriteIdListError(table.full_name)


def list_or_none(given: ValidWriteIdList | StateOf | None) -> ValidWriteIdList | None:
    """Return the list of a write for its event; without one, the event gets the list of its transaction."""
    return None if isinstance(given, StateOf) else given
