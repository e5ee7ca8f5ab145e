"""Queries: sqlglot parses them, so that their tables, columns and filters can be found.

sqlglot reads a masked text of the same length as the original: comments and hints are
blanks, the name ``T@Y`` of a link is one plain identifier. So the positions that it reports
are those of the user's text. Strings get the values that Spark gives them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.statements import Query
from airflow_hivex.core.sql.functions import QueryParser
from airflow_hivex.core.sql.literals import unquote
from airflow_hivex.core.sql.references import QueryReader
from airflow_hivex.core.sql.scopes import Links
from airflow_hivex.core.sql.tokens import Cursor, Kind, Token, name_of, syntax_error, unsupported_error

# sqlglot logs what it reads in another way than its dialect would. Here such a statement is
# refused, or judged by Spark, so nobody is helped by the warning.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_SET_WORDS = ("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS")
# Source: Spark's CallMethodViaReflection; each of them calls a static method of any class on the class path.
CODE_FUNCTIONS = frozenset({"reflect", "java_method", "try_reflect"})
_BEFORE_SUBQUERY = (*_SET_WORDS, "AS", "IN", "EXISTS", "FROM", "JOIN", "LATERAL")
_NO_PART_OF_A_QUERY = (exp.DDL, exp.DML, exp.Command, exp.Into, exp.QueryTransform, exp.Lock)
_MISSING_PART = re.compile(r"Required keyword: '\w+' missing for <class '(?:\w+\.)*(\w+)'>\.?")
_TOKEN_IN_MESSAGE = re.compile(r"<Token token_type: \S+ text: (.*?), line: .*?>", re.DOTALL)


def at_query(cursor: Cursor) -> bool:
    """Whether a query may begin here."""
    token = cursor.peek()
    return token is not None and (token.word in _QUERY_WORDS or token.is_symbol("("))


def read_query(cursor: Cursor) -> Query:
    """The query that the rest of the statement is.

    Raises:
        StatementSyntaxError: it is no query, or it calls two tables by one name.
        UnsupportedStatementError: it reads what is not a table of the warehouse, or writes.
    """
    text, tokens = cursor.text, cursor.tokens[cursor.index :]
    if not tokens:
        raise cursor.expected("a query")
    cursor.index = len(cursor.tokens)
    _refuse_tokens(text, tokens)
    links = _find_links(tokens)
    masked = _mask(text, tokens, links)
    table_statements = _table_statements(tokens)
    tree = _parse(text, masked, list(_sqlglot_tokens(text, masked, tokens, table_statements)), tokens[0])
    query = QueryReader(text, tokens, links, cursor.markers, cursor.database).read(tree, table_statements)
    query = replace(query, code_functions=_code_functions(tokens))
    cursor.markers.use(sorted(query.parameters))
    return query


def _code_functions(tokens: Sequence[Token]) -> frozenset[str]:
    """The functions among the tokens that call any method of Java, however they are quoted or qualified."""
    return frozenset(
        name_of(token).lower()
        for token, following in pairwise(tokens)
        if token.kind in (Kind.WORD, Kind.QUOTED)
        and following.is_symbol("(")
        and name_of(token).lower() in CODE_FUNCTIONS
    )


# -- what must not be there ------------------------------------------------------------


def _refuse_tokens(text: str, tokens: Sequence[Token]) -> None:
    """Refuse what sqlglot would read as something else than Spark does."""
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.is_symbol("?"):
            raise unsupported_error(text, token.start, "markers without a name (?) are not bound; write :name")
        if token.is_symbol("|>"):
            raise unsupported_error(text, token.start, "the pipe syntax |> is not of this release")
        if token.is_symbol(",") and (following is None or following.is_symbol(")") or following.word == "FROM"):
            raise syntax_error(text, token.start, "nothing follows this comma")
        if token.word == "IDENTIFIER" and following is not None and following.is_symbol("("):
            raise unsupported_error(text, token.start, "IDENTIFIER(...) hides what is read; write the name itself")
        if token.word == "BUCKET" and index > 1 and tokens[index - 2].word == "TABLESAMPLE":
            reason = (
                "TABLESAMPLE (BUCKET ...) is not supported: Hive reads whole buckets, Spark would take rows at random; "
                "compare a hash of a column, such as pmod(hash(id), 16) = 0"
            )
            raise unsupported_error(text, token.start, reason)
        if token.word == "INSERT" and following is not None and following.word in ("INTO", "OVERWRITE"):
            raise unsupported_error(text, token.start, "a query reads only; INSERT is not a part of one")
        if token.word == "TABLE" and _is_table_argument(tokens, index):
            raise unsupported_error(text, token.start, "a table as a function's argument is not of this release")


def _is_table_argument(tokens: Sequence[Token], index: int) -> bool:
    before = tokens[index - 1] if index else None
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if before is None or following is None or not before.is_symbol("(", ",", "=>"):
        return False
    named = following.kind in (Kind.WORD, Kind.QUOTED)
    return following.is_symbol("(") or (named and index not in _table_statements(tokens))


def _table_statements(tokens: Sequence[Token]) -> list[int]:
    """The indexes of TABLE where ``TABLE name`` stands for SELECT * FROM name."""
    return [
        index
        for index, token in enumerate(tokens)
        if token.word == "TABLE"
        and index + 1 < len(tokens)
        and tokens[index + 1].kind in (Kind.WORD, Kind.QUOTED)
        and _begins_query(tokens, index)
    ]


def _begins_query(tokens: Sequence[Token], index: int) -> bool:
    if index == 0:
        return True
    before = tokens[index - 1]
    if before.is_symbol("("):
        opener = tokens[index - 2] if index > 1 else None
        return opener is None or opener.kind is Kind.SYMBOL or opener.word in _BEFORE_SUBQUERY
    if before.is_symbol(")"):
        return True
    return before.word in _SET_WORDS and (index < 2 or tokens[index - 2].word != "SELECT")


# -- handing it to sqlglot --------------------------------------------------------------


def _find_links(tokens: Sequence[Token]) -> Links:
    """The names ``T@Y``."""
    found: dict[int, tuple[int, str, str]] = {}
    names = (Kind.WORD, Kind.QUOTED)
    for table, at, namespace in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if at.is_symbol("@") and table.kind in names and namespace.kind in names:
            found[table.start] = (namespace.end, normalise(name_of(table)), normalise(name_of(namespace)))
    return found


def _mask(text: str, tokens: Sequence[Token], links: Links) -> str:
    masked = [" "] * tokens[-1].end
    link_end = 0
    for token in tokens:
        if token.start in links:
            link_end = links[token.start][0]
            masked[token.start : link_end] = "l".ljust(link_end - token.start, "_")
        elif token.start < link_end:
            continue
        elif token.is_symbol("@"):
            raise syntax_error(text, token.start, "@ stands between a table and the namespace of its link only")
        else:
            masked[token.start : token.end] = token.text
    return "".join(masked)


def _sqlglot_tokens(
    text: str, masked: str, tokens: Sequence[Token], table_statements: Collection[int]
) -> Iterator[SqlglotToken]:
    """Sqlglot's tokens of ``masked``, with our values of strings, and ``TABLE t`` written out."""
    ours: Mapping[int, tuple[int, Token]] = {token.start: (index, token) for index, token in enumerate(tokens)}
    string_end = 0
    try:
        found = Spark().tokenize(masked)
    except SqlglotError as error:
        raise syntax_error(text, tokens[0].start, "the statement cannot be split into words") from error
    for token in found:
        if token.start < string_end:
            continue
        index, own = ours.get(token.start, (-1, None))
        if own is None:
            raise syntax_error(text, token.start, f"unexpected {token.text}")
        if own.kind is Kind.STRING:
            string_end = own.end
            yield SqlglotToken(
                TokenType.STRING, unquote(own), token.line, token.col, own.start, own.end - 1, comments=[]
            )
        elif index in table_statements:
            for kind, word in ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM")):
                yield SqlglotToken(kind, word, token.line, token.col, token.start, token.end, comments=[])
        else:
            yield token


def _parse(text: str, masked: str, tokens: list[SqlglotToken], first: Token) -> exp.Expr:
    # The parser quotes the text before its error; quoting all of it tells where the error is.
    parser = QueryParser(error_level=ErrorLevel.IMMEDIATE, error_message_context=len(masked) + 1, dialect=Spark())
    try:
        trees = parser.parse(tokens, masked)
    except ParseError as error:
        problem = error.errors[0] if error.errors else {}
        reason = _readable(str(problem.get("description") or "the query cannot be read"))
        offset = len(str(problem.get("start_context") or ""))
        raise syntax_error(text, max(offset, first.start), reason) from error
    except SqlglotError as error:
        raise syntax_error(text, first.start, "the query cannot be read") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)):
        raise syntax_error(text, first.start, f"{first.text} does not begin a query that can be read")
    foreign = tree.find(*_NO_PART_OF_A_QUERY)
    if foreign is not None:
        raise unsupported_error(
            text, first.start, f"a query reads only; {foreign.key.upper()} is not a part of one in this release"
        )
    return tree


def _readable(description: str) -> str:
    """The parser's message without the names of its classes."""
    missing = _MISSING_PART.fullmatch(description)
    if missing is not None:
        return f"{missing.group(1).upper()} is not complete"
    reason = _TOKEN_IN_MESSAGE.sub(r"\1", description)
    return reason.replace("but got SENTINEL", "but the statement ends here").rstrip(".")
