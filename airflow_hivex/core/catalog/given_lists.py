"""The write id lists that callers pass to the catalog. Such a list says which commits to a table the caller sees."""

from __future__ import annotations

import enum
from typing import TypeAlias

from sqlalchemy import Connection

from airflow_hivex.core.errors import InvalidWriteIdListError, MissingWriteIdListError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.write_ids import MAX_ID, ValidWriteIdList
from airflow_hivex.core.transactions.table_names import next_of


class StateOf(enum.Enum):
    """The state of a table that a caller sees if it passes no write id list."""

    NOW = "now"
    """The current state in the metastore database."""
    OF_TXN = "of its transaction"
    """The state that the transaction of a change sees. This transaction has locked the table."""


GivenList: TypeAlias = ValidWriteIdList | str | StateOf | None
"""A write id list or its text form, or the current state. None means that the caller has no list."""


def checked_list(database: str, table: str, given: GivenList) -> ValidWriteIdList | StateOf | None:
    """Return the write id list that a caller has given for a table. A text is parsed.

    Raises:
        InvalidWriteIdListError: the text is empty or not a valid list, or the list belongs to another table.
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
    """Refuse a transactional table if the caller has no write id list.

    Raises:
        MissingWriteIdListError: the list is None.
    """
    if given is None and table.is_transactional:
        raise MissingWriteIdListError(table.full_name)


def check_writer(connection: Connection, table: StoredTable, given: ValidWriteIdList | StateOf | None) -> None:
    """Refuse a change of a table if the caller's write id list belongs to an earlier table of the same name.

    A new table continues with higher write ids than earlier tables of its name. So a list whose high watermark is below
    the first write id of the table belongs to an earlier table. A list without a table id takes one round trip.

    Raises:
        MissingWriteIdListError: the list is None, and the table is transactional.
        InvalidWriteIdListError: the list belongs to an earlier table of this name.
    """
    check_has_list(table, given)
    if not isinstance(given, ValidWriteIdList):
        return
    if given.mark is not None:
        is_of_this_table = given.mark.id == table.id
    else:
        # The creation of a managed table takes the first write id; the creation of an external table takes none.
        first = next_of(connection, (table.database, table.name)) - (not table.is_transactional)
        is_of_this_table = given.high_watermark >= first
    if not is_of_this_table:
        reason = f"it is the list of an earlier table {table.full_name}; read the present table and repeat the change"
        raise InvalidWriteIdListError(str(given), reason)


def list_or_none(given: ValidWriteIdList | StateOf | None) -> ValidWriteIdList | None:
    """Return the write id list that a writer has passed for its event, or None if it has passed no list.

    Without a list the event gets the list of its transaction.
    """
    return None if isinstance(given, StateOf) else given
