"""The changes of tables in queries: CHANGES FROM ... TO ... behind their names, and ``table_changes('t', 1, 5)``.

Both are read from the tokens of a query before sqlglot sees it: the name of the table stays.
Source: Spark's grammar, changesClause; Delta's table-valued function table_changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_hivex.core.model.versions import VersionAsOf, VersionRange
from airflow_hivex.core.parser.lexer.literals import read_constant, unquote
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, syntax_error, tokenize, unsupported_error
from airflow_hivex.core.parser.queries.versions import BY_TIME, BY_WRITE_ID, at_version_value, read_time, read_write_id
from airflow_hivex.core.parser.statements import Query

_FUNCTION = "TABLE_CHANGES"


def take_changes(cursor: Cursor, tokens: Sequence[Token]) -> tuple[list[Token], dict[int, VersionRange]]:
    """Return the tokens of a query without its clauses of changes, and these by the end of the name before them.

    In place of a call of ``table_changes`` stands the name of its table, with the place of the call.

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
    """Return a query with the changes that it reads of its tables; ``end`` is that of its text with the clauses.

    Raises:
        StatementSyntaxError: a clause does not stand behind the name of a table.
        UnsupportedStatementError: it stands behind a link, a sample or a version.
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
    """Return whether a clause begins here, and not the name of a column before FROM."""
    kind = cursor.peek(2)
    is_clause = cursor.at("CHANGES", "FROM") and kind is not None and kind.word in (*BY_WRITE_ID, *BY_TIME)
    return is_clause and cursor.peek(3) is not None and at_version_value(cursor, 3)


def read_changes(cursor: Cursor) -> VersionRange:
    """Return the clause that comes next.

    Raises:
        StatementSyntaxError: it is not one, or a value is not a version.
        UnsupportedStatementError: it has options.
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
    """Return the name in a call of ``table_changes``, as tokens with the place of the call, and its versions."""
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
    # The whole call is the place of the last part of the name, and nothing that of the parts before it.
    moved = [token._replace(start=first.start, end=first.start) for token in name[:-1]]
    moved.append(name[-1]._replace(start=first.start, end=end))
    text = f"CHANGES FROM {' TO '.join(texts)}"
    return moved, VersionRange(values[0], values[1] if len(values) > 1 else None, text=text, start=end, end=end)


def _read_version(cursor: Cursor) -> tuple[str, VersionAsOf]:
    """Return the kind of a value and the version that it is: a whole number is a write id, all else a time."""
    start = cursor.index
    literal = read_constant(cursor)
    cursor.index = start
    if literal is not None and isinstance(literal.value, int | None):
        return "VERSION", read_write_id(cursor)
    return "TIMESTAMP", read_time(cursor)
