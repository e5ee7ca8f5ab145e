"""The clauses after the names of tables: VERSION AS OF, TIMESTAMP AS OF, and CHANGES FROM ... TO.

The clauses, and calls of ``table_changes('t', 1, 5)``, are read from the tokens of a query before sqlglot sees the
query. Source: Spark's grammar, temporalClause and changesClause; Delta's table-valued function table_changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.versions import VersionAsOf, VersionRange
from airflow_hivex.core.model.write_ids import MAX_ID
from airflow_hivex.core.parser.lexer.literals import read_constant, unquote
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, syntax_error, tokenize, unsupported_error
from airflow_hivex.core.parser.statements import Query

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
    """Return a query's tokens without version clauses, and a dict from the end of a table's name to the version.

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
    """Return the query with the versions ``found`` in its references.

    ``end`` is the end of the query's text, including the clauses.

    Raises:
        StatementSyntaxError: a clause does not follow the name of a table.
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
    """Return whether VERSION AS OF or TIMESTAMP AS OF comes next, and not a column of such a name with the alias OF."""
    ahead = 1 if cursor.at("FOR") else 0
    words = [token.word for place in range(3) if (token := cursor.peek(ahead + place)) is not None]
    if len(words) < 3 or words[0] not in (*BY_WRITE_ID, *BY_TIME) or words[1:] != ["AS", "OF"]:
        return False
    return at_version_value(cursor, ahead + 3)


def at_version_value(cursor: Cursor, ahead: int) -> bool:
    """Return whether a version's value, or the end of the text, comes after the next ``ahead`` tokens."""
    value = cursor.peek(ahead)
    if value is None:
        return True
    is_value = value.kind in (Kind.NUMBER, Kind.STRING) or value.is_symbol(":", "-")
    return is_value or value.word in _BEFORE_VALUE


def read_version(cursor: Cursor) -> VersionAsOf:
    """Return the version of the clause VERSION AS OF or TIMESTAMP AS OF that comes next.

    Raises:
        StatementSyntaxError: the text is not such a clause, or its value is not a version.
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


def read_write_id(cursor: Cursor) -> VersionAsOf:
    """Return the version whose write id comes next.

    Raises:
        StatementSyntaxError: the text is not a whole number.
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
    """Return the version at the time that comes next.

    Raises:
        StatementSyntaxError: the text is not a time.
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
    """Return a constant. ``TIMESTAMP '...'`` is returned as a string, because its text can have a time zone."""
    if cursor.peek(1) is not None and cursor.at_kind(Kind.STRING, ahead=1):
        cursor.accept_one(*_TIME_TYPES)
    return read_constant(cursor)


def moment(value: object) -> datetime | None:
    """Return a text, date or time as a time in UTC, or None for any other value or a year out of range.

    A value without a zone is in UTC. The range of years is 1 to 9999 in UTC.
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
    """Return the length of an interval such as INTERVAL 2 HOURS, INTERVAL '2' HOURS or INTERVAL '2 HOURS'."""
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


_FUNCTION = "TABLE_CHANGES"


def take_changes(cursor: Cursor, tokens: Sequence[Token]) -> tuple[list[Token], dict[int, VersionRange]]:
    """Return a query's tokens without CHANGES clauses, and a dict from the end of a table's name to the changes.

    A call of ``table_changes`` is replaced by the name of its table, with the place of the call.

    Raises:
        StatementSyntaxError: a clause or a call is not complete, or its values are not versions.
        UnsupportedStatementError: a clause has options.
    """
    kept: list[Token] = []
    found: dict[int, VersionRange] = {}
    reading = Cursor(cursor.text, list(tokens), cursor.markers, cursor.database)
    while (token := reading.peek()) is not None:
        if kept and kept[-1].kind in (Kind.WORD, Kind.QUOTED) and at_changes(reading):
            found[kept[-1].end] = read_changes(reading)
        elif token.word == _FUNCTION and reading.at_symbol("(", ahead=1):
            name, changes = _read_call(reading)
            kept += name
            found[changes.end] = changes
        else:
            reading.index += 1
            kept.append(token)
    return kept, found


def with_changes(query: Query, found: dict[int, VersionRange], end: int) -> Query:
    """Return the query with the changes ``found`` in its references.

    ``end`` is the end of the query's text, including the clauses.

    Raises:
        StatementSyntaxError: a clause does not follow the name of a table.
        UnsupportedStatementError: a clause follows a link, a sample or a version.
    """
    if not found:
        return query
    left = dict(found)
    references = tuple(replace(each, changes=left.pop(each.end, None)) for each in query.references)
    for clause in left.values():
        raise syntax_error(query.text, clause.start, "CHANGES FROM stands behind the name of a table, before its alias")
    for each in references:
        if each.changes is not None and (each.table.namespace or each.version or each.alias_position):
            reason = "changes are read of whole tables, not of links, samples and earlier versions"
            raise unsupported_error(query.text, each.start, reason)
    return replace(query, references=references, end=end)


def at_changes(cursor: Cursor) -> bool:
    """Return whether a clause CHANGES FROM comes next, and not a column with the name ``changes`` before FROM."""
    kind = cursor.peek(2)
    is_clause = cursor.at("CHANGES", "FROM") and kind is not None and kind.word in (*BY_WRITE_ID, *BY_TIME)
    return is_clause and cursor.peek(3) is not None and at_version_value(cursor, 3)


def read_changes(cursor: Cursor) -> VersionRange:
    """Return the version range of the clause CHANGES FROM that comes next.

    Raises:
        StatementSyntaxError: the text is not such a clause, or a value is not a version.
        UnsupportedStatementError: the clause has options.
    """
    first = cursor.peek()
    assert first is not None
    cursor.expect("CHANGES", "FROM")
    reader = read_write_id if cursor.accept_one(*BY_WRITE_ID) else read_time
    if reader is read_time:
        cursor.accept_one(*BY_TIME)
    since = reader(cursor)
    without_first = cursor.accept_one("EXCLUSIVE", "INCLUSIVE") == "EXCLUSIVE"
    until: VersionAsOf | None = None
    without_last = False
    if cursor.accept("TO"):
        kind = cursor.accept_one(*BY_WRITE_ID, *BY_TIME)
        if kind is not None:
            reader = read_write_id if kind in BY_WRITE_ID else read_time
        until = reader(cursor)
        without_last = cursor.accept_one("EXCLUSIVE", "INCLUSIVE") == "EXCLUSIVE"
    if cursor.at("WITH") and cursor.at_symbol("(", ahead=1):
        raise cursor.unsupported("the changes of a table have no options here; leave WITH (...) out")
    end = cursor.tokens[cursor.index - 1].end
    return VersionRange(since, until, without_first, without_last, cursor.text[first.start : end], first.start, end)


def _read_call(cursor: Cursor) -> tuple[list[Token], VersionRange]:
    """Return a pair: the table name in a call of ``table_changes``, at the place of the call, and the versions."""
    first = cursor.next("table_changes")
    cursor.expect_symbol("(")
    given = cursor.peek()
    if given is None or given.kind is not Kind.STRING:
        raise cursor.expected("the name of a table in quotes")
    cursor.index += 1
    name = tokenize(unquote(given))
    if not name or any(token.is_symbol(".") is (place % 2 == 0) for place, token in enumerate(name)):
        raise syntax_error(cursor.text, given.start, f"{given.text} is not the name of a table")
    cursor.expect_symbol(",")
    texts, values = [], []
    while True:
        start = cursor.offset()
        kind, value = _read_version(cursor)
        values.append(value)
        texts.append(f"{kind} {cursor.text[start : cursor.tokens[cursor.index - 1].end]}")
        if len(values) == 2 or not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    end = cursor.tokens[cursor.index - 1].end
    # The last part of the name gets the place of the whole call, and the parts before it get an empty place.
    moved = [token._replace(start=first.start, end=first.start) for token in name[:-1]]
    moved.append(name[-1]._replace(start=first.start, end=end))
    text = f"CHANGES FROM {' TO '.join(texts)}"
    return moved, VersionRange(values[0], values[1] if len(values) > 1 else None, text=text, start=end, end=end)


def _read_version(cursor: Cursor) -> tuple[str, VersionAsOf]:
    """Return a pair: "VERSION" and a write id for a whole number, or "TIMESTAMP" and a time for another value."""
    start = cursor.index
    literal = read_constant(cursor)
    cursor.index = start
    if literal is not None and isinstance(literal.value, int | None):
        return "VERSION", read_write_id(cursor)
    return "TIMESTAMP", read_time(cursor)
