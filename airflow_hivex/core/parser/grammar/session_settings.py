"""SET and RESET of the settings of a session, the configuration of its jobs, and its variables."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.configuration import (
    HIVEVAR,
    has_no_effect,
    is_own_name,
    refusal,
    stored_name,
)
from airflow_hivex.core.model.job_configuration import TIME_ZONE
from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, unescape
from airflow_hivex.core.parser.statements import ResetConfiguration, ResetSetting, SetConfiguration, SetSetting
from airflow_hivex.core.settings import SESSION_SETTINGS

_INSTEAD = {
    "AUTOCOMMIT": "each statement commits by itself; START TRANSACTION and COMMIT join several",
    "CATALOG": "there is one catalog; namespaces are databases, and USE names one",
    "ROLE": "the metastore has no users, roles and rights; the rights of the database and of file systems count",
}


def make_set(parts: Parts) -> SetSetting | SetConfiguration:
    """Return the statement SET, which changes or shows a setting of the session or the configuration of its jobs.

    Raises:
        StatementSyntaxError: the value is missing.
    """
    if "zone" in parts:
        return SetConfiguration(TIME_ZONE, parts["zone"])
    name = parts["name"]
    tokens: Sequence[Token] = parts["value"] or ()
    if name is None:
        return SetConfiguration(shows_all="shows_all" in parts)
    if "is_set" not in parts:
        return set_statement(name, None)
    text = parts.cursor.text[tokens[0].start : tokens[-1].end] if tokens else ""
    # Hive's variables are pieces of text, and quotes belong to the text. A parameter without effect may be empty, as in
    # Hive.
    is_text = name.startswith(HIVEVAR) or is_own_name(name) or (not tokens and has_no_effect(name))
    if not tokens and not is_text:
        raise parts.cursor.expected("a value")
    is_string = len(tokens) == 1 and tokens[0].kind is Kind.STRING
    return set_statement(name, unescape(text) if is_string and not is_text else text)


def read_any_text(cursor: Cursor) -> Sequence[Token]:
    """Return the tokens up to the end of the statement."""
    tokens, cursor.index = cursor.tokens[cursor.index :], len(cursor.tokens)
    return tokens


def set_statement(name: str, value: str | None) -> SetSetting | SetConfiguration:
    """Return the statement that sets a parameter or variable, or that shows the current value if ``value`` is None."""
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


def make_reset(parts: Parts) -> ResetSetting | ResetConfiguration:
    """Return the statement RESET for one setting or for all settings of the session and its jobs."""
    name = parts["name"]
    return ResetSetting(name) if name in SESSION_SETTINGS else ResetConfiguration(name)


def read_setting(cursor: Cursor) -> str:
    """Return the name of a setting or variable, which must come next.

    Raises:
        UnsupportedStatementError: a session has no such parameter.
    """
    is_variable = cursor.at("VARIABLE") or cursor.at("VAR")
    is_variable = is_variable and cursor.peek(1) is not None and not cursor.at_symbol("=", ".", ahead=1)
    if is_variable or cursor.at("TIME", "ZONE"):
        raise cursor.expected("the name of a setting")
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


def read_time_zone(cursor: Cursor) -> str:
    """Return the zone after SET TIME ZONE: a name, or an offset from UTC.

    Raises:
        UnsupportedStatementError: the zone is not a string or an interval.
    """
    if cursor.at("LOCAL"):
        raise cursor.unsupported(f"SET TIME ZONE LOCAL is not supported; RESET {TIME_ZONE} takes that of the cluster")
    if cursor.accept("INTERVAL"):
        return _read_offset(cursor)
    if not cursor.at_kind(Kind.STRING):
        reason = "SET TIME ZONE takes the name of a zone as a string, such as 'UTC', or an INTERVAL"
        raise cursor.unsupported(reason, cursor.peek())
    return unescape(cursor.next("a zone").text)


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
