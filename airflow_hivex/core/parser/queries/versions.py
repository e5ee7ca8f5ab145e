"""VERSION AS OF and TIMESTAMP AS OF behind the names of tables, and in RESTORE TABLE.

The clauses are read from the tokens of a query before sqlglot sees it.
Source: Spark's grammar, temporalClause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.versions import VersionAsOf
from airflow_hivex.core.model.write_ids import MAX_ID
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, syntax_error
from airflow_hivex.core.parser.statements import Query, RestoreTable

BY_WRITE_ID = ("VERSION", "SYSTEM_VERSION")
BY_TIME = ("TIMESTAMP", "SYSTEM_TIME")
_NOW = ("CURRENT_TIMESTAMP", "NOW", "CURRENT_DATE")
_BEFORE_VALUE = (*_NOW, "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE", "CAST")
_TIME_TYPES = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE")
_UNITS = {
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_LONGEST = timedelta(days=365_250)


def take_versions(cursor: Cursor, tokens: Sequence[Token]) -> tuple[list[Token], dict[int, VersionAsOf]]:
    """Return the tokens of a query without its clauses of versions, and these by the end of the name before them.

    Raises:
        StatementSyntaxError: the value of a clause is not a version.
    """
    kept: list[Token] = []
    found: dict[int, VersionAsOf] = {}
    reading = Cursor(cursor.text, list(tokens), cursor.markers, cursor.database)
    while (token := reading.peek()) is not None:
        if kept and at_version(reading):
            if kept[-1].kind not in (Kind.WORD, Kind.QUOTED):
                raise _not_behind_table(cursor.text, token)
            found[kept[-1].end] = read_version(reading)
        else:
            reading.index += 1
            kept.append(token)
    return kept, found


def with_versions(query: Query, found: dict[int, VersionAsOf], end: int) -> Query:
    """Return a query with the versions of its tables; ``end`` is that of its text with the clauses.

    Raises:
        StatementSyntaxError: a clause does not stand behind the name of a table.
    """
    if not found:
        return query
    left = dict(found)
    references = tuple(replace(each, version=left.pop(each.end, None)) for each in query.references)
    for clause in left.values():
        raise syntax_error(query.text, clause.start, _NOT_BEHIND_TABLE)
    return replace(query, references=references, end=end)


_NOT_BEHIND_TABLE = "VERSION AS OF and TIMESTAMP AS OF stand behind the name of a table, before its alias"


def _not_behind_table(text: str, token: Token) -> Exception:
    return syntax_error(text, token.start, _NOT_BEHIND_TABLE)


def at_version(cursor: Cursor) -> bool:
    """Return whether a clause begins here, and not a column of that name with the alias OF."""
    ahead = 1 if cursor.at("FOR") else 0
    words = [token.word for place in range(3) if (token := cursor.peek(ahead + place)) is not None]
    if len(words) < 3 or words[0] not in (*BY_WRITE_ID, *BY_TIME) or words[1:] != ["AS", "OF"]:
        return False
    return at_version_value(cursor, ahead + 3)


def at_version_value(cursor: Cursor, ahead: int) -> bool:
    """Return whether the value of a version, or the end of the text, comes behind ``ahead`` tokens."""
    value = cursor.peek(ahead)
    if value is None:
        return True
    is_value = value.kind in (Kind.NUMBER, Kind.STRING) or value.is_symbol(":", "-")
    return is_value or value.word in _BEFORE_VALUE


def read_version(cursor: Cursor) -> VersionAsOf:
    """Return the clause that comes next.

    Raises:
        StatementSyntaxError: it is not one, or its value is not a version.
    """
    first = cursor.peek()
    cursor.accept("FOR")
    kind = cursor.accept_one(*BY_WRITE_ID, *BY_TIME)
    if first is None or kind is None:
        raise cursor.expected("VERSION AS OF or TIMESTAMP AS OF")
    cursor.expect("AS", "OF")
    marker = cursor.peek(1) if cursor.at_symbol(":") else None
    found = read_write_id(cursor) if kind in BY_WRITE_ID else read_time(cursor)
    end = cursor.tokens[cursor.index - 1].end
    return replace(found, marker=None if marker is None else marker.text, start=first.start, end=end)


def read_restore(cursor: Cursor) -> RestoreTable:
    """Return the statement whose word RESTORE is read.

    Raises:
        StatementSyntaxError: it does not name a table and a version.
    """
    if cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1) and not cursor.at_symbol(".", ahead=1):
        cursor.accept("TABLE")
    table = cursor.table_name()
    cursor.accept("TO")
    return RestoreTable(table, read_version(cursor))


def read_write_id(cursor: Cursor) -> VersionAsOf:
    """Return the write id that comes next.

    Raises:
        StatementSyntaxError: it is not a whole number.
    """
    token = cursor.peek()
    literal = read_constant(cursor)
    value = None if literal is None else literal.value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ID:
        raise cursor.error("a version is the write id of a commit, a whole number", token)
    return VersionAsOf(write_id=value)


def read_time(cursor: Cursor) -> VersionAsOf:
    """Return the time that comes next.

    Raises:
        StatementSyntaxError: it is not a time.
    """
    token = cursor.peek()
    word = cursor.accept_one(*_NOW)
    if word is not None:
        if cursor.accept_symbol("("):
            cursor.expect_symbol(")")
        before = _interval(cursor) if cursor.accept_symbol("-") else timedelta()
        return VersionAsOf(before_now_ms=before // timedelta(milliseconds=1), is_of_day=word == "CURRENT_DATE")
    if cursor.accept("CAST"):
        cursor.expect_symbol("(")
        literal = read_constant(cursor)
        cursor.expect("AS")
        if cursor.accept_one(*_TIME_TYPES) is None:
            raise cursor.expected("TIMESTAMP or DATE")
        cursor.expect_symbol(")")
    else:
        literal = _typed(cursor)
    if cursor.markers.is_stand_in(literal):
        return VersionAsOf(before_now_ms=0)
    found = None if literal is None else moment(literal.value)
    if found is None:
        raise cursor.error("a time is a text such as '2026-01-31 12:30:00', in UTC or with a zone", token)
    return VersionAsOf(time=found)


def _typed(cursor: Cursor) -> Literal | None:
    """Return a constant; of a typed string its text, which may have a zone."""
    if cursor.peek(1) is not None and cursor.at_kind(Kind.STRING, ahead=1):
        cursor.accept_one(*_TIME_TYPES)
    return read_constant(cursor)


def moment(value: object) -> datetime | None:
    """Return a text, date or time as a time of UTC, which is its zone by default; None for any other value.

    A time that is in no year from 1 to 9999 of UTC is such a value, too.
    """
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return datetime.combine(value, time(), UTC) if isinstance(value, date) else None


def _interval(cursor: Cursor) -> timedelta:
    """Return INTERVAL 2 HOURS, or with the number or all of it in quotes."""
    cursor.expect("INTERVAL")
    token = cursor.peek()
    literal = read_constant(cursor)
    value = None if literal is None else literal.value
    unit = ""
    if isinstance(value, str):
        number, _, unit = value.strip().partition(" ")
        value = int(number) if number.isascii() and number.isdigit() else None
    if not unit.strip() and not cursor.at_end:
        unit = cursor.next("a unit of time").text
    name = unit.strip().upper().removesuffix("S")
    if not isinstance(value, int) or value < 0 or name not in _UNITS or value > _LONGEST // _UNITS[name]:
        reason = "an interval is a whole number and a unit of time, as in INTERVAL 2 HOURS, of at most 1,000 years"
        raise cursor.error(reason, token)
    return value * _UNITS[name]
