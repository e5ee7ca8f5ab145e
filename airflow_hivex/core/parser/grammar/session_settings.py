"""SET and RESET: the settings of a session, the configuration of its jobs, and its variables."""

from __future__ import annotations

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.configuration import (
    HIVEVAR,
    TIME_ZONE,
    has_no_effect,
    is_own_name,
    refusal,
    stored_name,
)
from airflow_hivex.core.parser.grammar.session_objects import read_set_variables
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, unescape
from airflow_hivex.core.parser.statements import (
    ResetConfiguration,
    ResetSetting,
    SetConfiguration,
    SetSetting,
    SetVariables,
)
from airflow_hivex.core.settings import SESSION_SETTINGS

_INSTEAD = {
    "AUTOCOMMIT": "each statement commits by itself; START TRANSACTION and COMMIT join several",
    "CATALOG": "there is one catalog; namespaces are databases, and USE names one",
    "ROLE": "the metastore has no users, roles and rights; the rights of the database and of file systems count",
}


def read_set(cursor: Cursor) -> SetSetting | SetConfiguration | SetVariables:
    """Return the statement whose word SET is read: ``SET``, ``SET name``, ``SET name = value``, ``SET VARIABLE ...``.

    Raises:
        UnsupportedStatementError: a session has no such parameter.
    """
    if cursor.at_end:
        return SetConfiguration()
    if cursor.at_symbol("-") and len(cursor.tokens) == cursor.index + 2 and cursor.tokens[-1].word == "V":
        cursor.index += 2
        return SetConfiguration(shows_all=True)
    is_variable = cursor.peek(1) is not None and not cursor.at_symbol("=", ".", ahead=1)
    if is_variable and cursor.accept_one("VARIABLE", "VAR"):
        return read_set_variables(cursor)
    if cursor.accept("TIME", "ZONE"):
        return _read_time_zone(cursor)
    name = _read_name(cursor)
    if not cursor.accept_symbol("="):
        return set_statement(name, None)
    # Hive's variables are pieces of text, and quotes belong to the text. A parameter without effect may be empty, as in
    # Hive.
    is_text = name.startswith(HIVEVAR) or is_own_name(name) or (cursor.peek() is None and has_no_effect(name))
    return set_statement(name, _read_text(cursor) if is_text else _read_value(cursor))


def set_statement(name: str, value: str | None) -> SetSetting | SetConfiguration:
    """Return the statement that sets a parameter or variable, or shows it if the value is None."""
    return SetSetting(name, value) if name in SESSION_SETTINGS else SetConfiguration(name, value)


def _is_of_the_session(name: str) -> bool:
    return name in SESSION_SETTINGS or name.startswith(HIVEVAR)


def variable_statement(name: str, value: str) -> SetSetting | SetConfiguration:
    """Return the statement that sets a variable or parameter to any text.

    Raises:
        InvalidParametersError: a session has no such parameter.
    """
    name = stored_name(name)
    reason = None if _is_of_the_session(name) else refusal(name)
    if reason is not None:
        raise InvalidParametersError(f"{reason}.")
    return set_statement(name, value)


def read_reset(cursor: Cursor) -> ResetSetting | ResetConfiguration:
    """Return the statement whose word RESET is read.

    Raises:
        UnsupportedStatementError: a session has no such parameter.
    """
    if cursor.at_end:
        return ResetConfiguration()
    name = _read_name(cursor)
    return ResetSetting(name) if name in SESSION_SETTINGS else ResetConfiguration(name)


def _read_name(cursor: Cursor) -> str:
    start = cursor.index
    while not cursor.at_end and not cursor.at_symbol("="):
        cursor.next("the name of a setting")
    words = cursor.tokens[start : cursor.index]
    quoted = len(words) == 1 and words[0].kind is Kind.QUOTED
    name = words[0].text[1:-1] if quoted else cursor.text[words[0].start : words[-1].end] if words else ""
    name = stored_name(name)
    reason = _INSTEAD.get(words[0].text.upper()) if len(words) > 1 else None
    reason = reason or (None if _is_of_the_session(name) else refusal(name))
    if reason is not None:
        raise cursor.unsupported(reason, words[0] if words else None)
    return name


def _read_text(cursor: Cursor) -> str:
    start, cursor.index = cursor.index, len(cursor.tokens)
    return cursor.text[cursor.tokens[start].start : cursor.tokens[-1].end] if start < len(cursor.tokens) else ""


def _read_value(cursor: Cursor) -> str:
    first = cursor.next("a value")
    others = cursor.tokens[cursor.index :]
    cursor.index = len(cursor.tokens)
    if not others and first.kind is Kind.STRING:
        return unescape(first.text)
    return cursor.text[first.start : (others or [first])[-1].end]


def _read_time_zone(cursor: Cursor) -> SetConfiguration:
    if cursor.at("LOCAL"):
        raise cursor.unsupported(f"SET TIME ZONE LOCAL is not supported; RESET {TIME_ZONE} takes that of the cluster")
    if cursor.accept("INTERVAL"):
        return SetConfiguration(TIME_ZONE, _read_offset(cursor))
    if not cursor.at_kind(Kind.STRING):
        reason = "SET TIME ZONE takes the name of a zone as a string, such as 'UTC', or an INTERVAL"
        raise cursor.unsupported(reason, cursor.peek())
    return SetConfiguration(TIME_ZONE, _read_value(cursor))


_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_MOST_SECONDS = 18 * 3600


def _read_offset(cursor: Cursor) -> str:
    """Return the offset from UTC in an interval: ``1 HOUR 30 MINUTES``, ``'08:30' HOUR TO MINUTE``."""
    first = cursor.peek()
    total = 0
    while True:
        sign = -1 if cursor.accept_symbol("-") else 1
        if cursor.at_kind(Kind.STRING):
            text = unescape(cursor.next("a number").text).strip()
        else:
            text = cursor.next("a number").text
        sign = -sign if text.startswith("-") else sign
        numbers = text.lstrip("+-").split(":")
        unit = _unit(cursor)
        units = list(_SECONDS)[list(_SECONDS).index(unit) :]
        last = _unit(cursor) if cursor.accept("TO") else unit
        units = units[: units.index(last) + 1] if last in units else []
        if len(numbers) != len(units) or not all(each.isascii() and each.isdigit() for each in numbers):
            raise cursor.error("the time zone is not a valid interval of hours, minutes and seconds", first)
        total += sign * sum(int(number) * _SECONDS[each] for number, each in zip(numbers, units, strict=True))
        if cursor.at_end:
            break
    if abs(total) > _MOST_SECONDS:
        raise cursor.error("a time zone is at most 18 hours before or behind UTC", first)
    minutes, seconds = divmod(abs(total), 60)
    offset = f"{'-' if total < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{offset}:{seconds:02d}" if seconds else offset


def _unit(cursor: Cursor) -> str:
    word = cursor.next("HOUR, MINUTE or SECOND").word.removesuffix("S")
    if word not in _SECONDS:
        cursor.index -= 1
        raise cursor.expected("HOUR, MINUTE or SECOND")
    return word
