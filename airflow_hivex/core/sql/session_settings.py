"""SET and RESET of the settings of a session."""

from __future__ import annotations

from airflow_hivex.core.model.statements import ResetSetting, SetSetting
from airflow_hivex.core.settings import SESSION_SETTINGS
from airflow_hivex.core.sql.clauses import unsupported_statement
from airflow_hivex.core.sql.strings import unescape
from airflow_hivex.core.sql.tokens import Cursor, Kind


def read_set(cursor: Cursor) -> SetSetting:
    """Return the statement whose word SET is read: ``SET name`` or ``SET name = value``.

    Raises:
        UnsupportedStatementError: it is not a setting of a session.
    """
    name = _read_name(cursor)
    if cursor.at_end:
        return SetSetting(name)
    cursor.expect_symbol("=")
    first = cursor.next("a value")
    others = cursor.tokens[cursor.index :]
    cursor.index = len(cursor.tokens)
    if not others and first.kind is Kind.STRING:
        return SetSetting(name, unescape(first.text))
    return SetSetting(name, cursor.text[first.start : (others or [first])[-1].end])


def read_reset(cursor: Cursor) -> ResetSetting:
    """Return the statement whose word RESET is read.

    Raises:
        UnsupportedStatementError: it is not a setting of a session.
    """
    return ResetSetting(_read_name(cursor))


def _read_name(cursor: Cursor) -> str:
    start = cursor.index
    while not cursor.at_end and not cursor.at_symbol("="):
        cursor.next("the name of a setting")
    words = cursor.tokens[start : cursor.index]
    name = "".join(token.text for token in words)
    if name not in SESSION_SETTINGS:
        raise unsupported_statement(cursor, cursor.tokens[0])
    return name
