"""Several INSERTs after one FROM, and an INSERT after WITH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.parser.grammar.inserts import insert_of
from airflow_hivex.core.parser.grammar.syntax import read_parts
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, name_of
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.statements import Insert, MultiInsert, Query, source_name

_QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_AFTER_SOURCE = (
    "JOIN CROSS INNER LEFT RIGHT FULL SEMI ANTI NATURAL ON USING LATERAL TABLESAMPLE PIVOT UNPIVOT WHERE".split()  # noqa: SIM905
)


def at_multi_insert(cursor: Cursor) -> bool:
    """Return whether the statement begins with FROM or WITH, and an INSERT follows."""
    return (cursor.at("FROM") or cursor.at("WITH")) and next(_inserts(cursor), None) is not None


def read_multi_insert(cursor: Cursor) -> MultiInsert | Insert:
    """Return the statement that begins here with FROM or WITH. ``WITH ... INSERT INTO t SELECT ...`` is one INSERT.

    The text before the first INSERT is a FROM clause, possibly with WITH before it. The query of each INSERT begins
    with this text. The sub-queries in this text become sources, which are computed once for all INSERTs.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the statement reads or writes an object that is not a table of the warehouse.
    """
    starts = [*_inserts(cursor), len(cursor.tokens)]
    beginning = cursor.tokens[cursor.index : starts[0]]
    at_from = next((index for index, token in _outer(beginning) if token.word == "FROM"), None)
    sources = [] if at_from is None else list(_sources(beginning, at_from))
    inserts = []
    for start, end in pairwise(starts):
        branch = Cursor(cursor.text, cursor.tokens[start:end], cursor.markers, cursor.database)
        ahead = 3 if branch.at("INSERT", "OVERWRITE", "DIRECTORY") else 4
        is_directory = ahead == 3 or branch.at("INSERT", "OVERWRITE", "LOCAL", "DIRECTORY")
        if is_directory and branch.at_kind(Kind.STRING, ahead=ahead):
            reason = "a multi-table INSERT writes tables; write INSERT OVERWRITE DIRECTORY as a statement of its own"
            raise branch.unsupported(reason)
        parts = read_parts(branch, MultiInsert.BRANCH)
        if at_from is not None and parts["query"][0].word != "SELECT":
            branch.index = branch.tokens.index(parts["query"][0])
            raise branch.expected("SELECT")
        text = _without(cursor, beginning, sources).copy_tokens(parts["query"])
        inserts.append(insert_of(parts, text.read()))
    cursor.index = len(cursor.tokens)
    if at_from is None:
        if len(inserts) > 1:
            raise cursor.error("several INSERTs need FROM before the first of them", cursor.tokens[starts[1]])
        return inserts[0]
    before = beginning[:at_from]
    return MultiInsert(tuple(inserts), tuple(_source_query(cursor, before, source) for source in sources))


@dataclass(frozen=True, slots=True)
class _Source:
    """A source in FROM: a sub-query in parentheses, or the common table expression ``name``."""

    tokens: Sequence[Token]
    name: str | None
    has_alias: bool


def _outer(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield (index, token) for each token outside of parentheses. Outermost opening parentheses are included."""
    depth = 0
    for index, token in enumerate(tokens):
        if depth == 0:
            yield index, token
        depth += token.is_symbol("(") - token.is_symbol(")")


def _inserts(cursor: Cursor) -> Iterator[int]:
    """Yield the index of each INSERT INTO and INSERT OVERWRITE that is outside of parentheses."""
    for index, token in _outer(cursor.tokens[cursor.index :]):
        following = cursor.peek(index + 1)
        if index and token.word == "INSERT" and following is not None and following.word in ("INTO", "OVERWRITE"):
            yield cursor.index + index


def _sources(beginning: Sequence[Token], at_from: int) -> Iterator[_Source]:
    """Yield the sources in FROM that can be computed separately, because they depend on no other source."""
    common = set(_common_names(beginning[:at_from]))
    is_next = in_view = False
    for index, token in _outer(beginning):
        if index < at_from:
            continue
        if is_next:
            found = _source_at(beginning, index, common)
            if found is not None:
                yield found
        # After LATERAL VIEW, commas stand between names of columns.
        in_view = (in_view or token.word == "VIEW") and token.word != "JOIN"
        is_next = token.word in ("FROM", "JOIN") or (token.is_symbol(",") and not in_view)


def _source_at(tokens: Sequence[Token], index: int, common: set[str]) -> _Source | None:
    end = index + 1
    following = tokens[end] if end < len(tokens) else None
    if tokens[index].is_symbol("("):
        if following is None or following.word not in _QUERY_WORDS:
            return None
        depth = 1
        while depth and end < len(tokens):
            depth += tokens[end].is_symbol("(") - tokens[end].is_symbol(")")
            end += 1
        return _Source(tokens[index:end], None, _has_alias(tokens, end))
    name = normalise(name_of(tokens[index]))
    is_plain = following is None or not following.is_symbol(".", "(", "@")
    if name in common and is_plain:
        return _Source(tokens[index:end], name, _has_alias(tokens, end))
    return None


def _has_alias(tokens: Sequence[Token], index: int) -> bool:
    if index >= len(tokens):
        return False
    token = tokens[index]
    return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.word not in _AFTER_SOURCE)


def _common_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names of common table expressions."""
    for (_, before), (_, token) in pairwise(_outer(tokens)):
        begins = before.word in ("WITH", "RECURSIVE") or before.is_symbol(",")
        if begins and token.kind in (Kind.WORD, Kind.QUOTED) and token.word != "RECURSIVE":
            yield normalise(name_of(token))


def _without(cursor: Cursor, beginning: Sequence[Token], sources: Sequence[_Source]) -> Pieces:
    """Return the beginning of a query, in which a generated name replaces each source."""
    text = Pieces(cursor)
    at = beginning[0].start
    for number, source in enumerate(sources):
        text.copy(at, source.tokens[0].start)
        text.add(f"`{source_name(number)}`")
        if source.name is not None and not source.has_alias:
            text.add(f" AS `{source.name}`")
        at = source.tokens[-1].end
    text.copy(at, beginning[-1].end)
    return text.add("\n")


def _source_query(cursor: Cursor, before: Sequence[Token], source: _Source) -> Query:
    """Return the query of one source, with the common table expressions before it."""
    text = Pieces(cursor)
    if before:
        text.copy_tokens(before)
    if source.name is not None:
        return text.add("SELECT * FROM ").copy_tokens(source.tokens).read()
    nested = before and source.tokens[1].word == "WITH"
    return text.copy_tokens(source.tokens if nested else source.tokens[1:-1]).read()
