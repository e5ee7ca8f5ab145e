"""The reader of queries. sqlglot parses a query, so that the query's tables, columns and filters can be found.

The names ``T@Y`` of links are found before sqlglot parses the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.row_ids import ROW_ID
from airflow_hivex.core.parser.lexer.tokens import (
    Cursor,
    Kind,
    Token,
    name_of,
    syntax_error,
    tokenize,
    unsupported_error,
)
from airflow_hivex.core.parser.queries.function_calls import database_calls, function_calls
from airflow_hivex.core.parser.queries.pipes import has_pipes, without_pipes
from airflow_hivex.core.parser.queries.quantified import QUERY_WORDS, quantified_comparisons
from airflow_hivex.core.parser.queries.versions import take_changes, take_versions, with_changes, with_versions
from airflow_hivex.core.parser.statements import Query, TextEdit

if TYPE_CHECKING:
    from airflow_hivex.core.parser.queries.scopes import Links

_SET_WORDS = ("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS")
# Source: Spark's CallMethodViaReflection; each of these functions calls a static method of any class on the class path.
CODE_FUNCTIONS = frozenset({"reflect", "java_method", "try_reflect"})
# Source: the expressions of Spark that are Nondeterministic, or have a seed.
RANDOM_FUNCTIONS = frozenset(
    {
        *("input_file_block_length", "input_file_block_start", "input_file_name", "monotonically_increasing_id"),
        *("rand", "randn", "random", "randstr", "shuffle", "spark_partition_id", "uniform", "uuid"),
    }
)
_BEFORE_SUBQUERY = (*_SET_WORDS, "AS", "IN", "EXISTS", "FROM", "JOIN", "LATERAL")


def at_query(cursor: Cursor) -> bool:
    """Return whether the next tokens can begin a query."""
    token = cursor.peek()
    return token is not None and (token.word in QUERY_WORDS or token.is_symbol("("))


def read_query(cursor: Cursor) -> Query:
    """Return the rest of the statement as a query.

    Raises:
        StatementSyntaxError: the text is not a query, or two tables of the query have the same name.
        UnsupportedStatementError: the query writes, or reads an object that is not a table of the warehouse.
    """
    # These modules load sqlglot, which takes longer than most statements without a query.
    from airflow_hivex.core.parser.queries.parsing import parse, refuse_foreign_parts
    from airflow_hivex.core.parser.queries.references import QueryReader
    from airflow_hivex.core.parser.queries.results import lists_columns, text_columns, value_list

    text, tokens = cursor.text, cursor.tokens[cursor.index :]
    if not tokens:
        raise cursor.expected("a query")
    cursor.index = len(cursor.tokens)
    end = tokens[-1].end
    tokens, versions = take_versions(cursor, tokens)
    tokens, changes = take_changes(cursor, tokens)
    _refuse_tokens(text, tokens)
    links = _find_links(tokens)
    table_statements = _table_statements(tokens)
    edits: list[TextEdit] = []
    if has_pipes(tokens):
        _refuse_with_pipes(text, tokens)
        for clause in changes.values():
            reason = "the pipe syntax |> does not support CHANGES FROM; write the query without it"
            raise unsupported_error(text, clause.start, reason)
        unpiped = without_pipes(text, tokens)
        tree = parse(text, unpiped, links, _table_statements(unpiped))
        # After a pipe the name of the table qualifies columns; only FROM gives it to the files that Spark reads.
        piped = [index for index in table_statements if _is_piped(tokens, index)]
        table_statements = [index for index in table_statements if index not in piped]
        edits = [TextEdit(tokens[index].start, tokens[index].end, "FROM") for index in piped]
    else:
        tree = parse(text, tokens, links, table_statements)
    refuse_foreign_parts(text, tokens[0], tree)
    query = QueryReader(text, tokens, links, cursor.markers, cursor.database).read(tree, table_statements)
    query = replace(query, qualifiers=tuple(sorted((*query.qualifiers, *edits), key=lambda edit: edit.start)))
    query = with_changes(with_versions(query, versions, end), changes, end)
    query = replace(query, code_functions=code_functions(tokens), functions=function_calls(tokens))
    query = replace(query, database_calls=database_calls(tokens), texts=text_columns(tree, cursor.markers))
    query = replace(query, lists_columns=not has_pipes(tokens) and lists_columns(tree))
    if not query.references:
        query = replace(query, values=value_list(tree, text, tokens, cursor.markers))
    # These edits come first: an edit that adds text comes before an edit of the text after it.
    query = replace(query, qualifiers=(*quantified_comparisons(text, tokens), *query.qualifiers))
    cursor.markers.use(sorted(query.parameters))
    return query


def code_functions(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names of the called functions that can run any Java method, also if they are quoted or qualified."""
    return _calls_of(CODE_FUNCTIONS, tokens)


def random_functions(text: str) -> frozenset[str]:
    """Return the names of the functions in ``text`` whose value differs from call to call, or from task to task."""
    return _calls_of(RANDOM_FUNCTIONS, tokenize(text))


def _calls_of(functions: frozenset[str], tokens: Sequence[Token]) -> frozenset[str]:
    return frozenset(
        name_of(token).lower()
        for token, following in pairwise(tokens)
        if token.kind in (Kind.WORD, Kind.QUOTED) and following.is_symbol("(") and name_of(token).lower() in functions
    )


# -- what must not be there ------------------------------------------------------------


def _refuse_tokens(text: str, tokens: Sequence[Token]) -> None:
    """Refuse tokens that sqlglot reads differently from Spark."""
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.is_symbol("?"):
            raise unsupported_error(text, token.start, "markers without a name (?) are not bound; write :name")
        if token.is_symbol(",") and (following is None or following.is_symbol(")") or following.word == "FROM"):
            raise syntax_error(text, token.start, "nothing follows this comma")
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


def _refuse_with_pipes(text: str, tokens: Sequence[Token]) -> None:
    """Refuse a query with pipes that names ROW__ID."""
    for token in tokens:
        if token.kind in (Kind.WORD, Kind.QUOTED) and normalise(name_of(token)) == normalise(ROW_ID):
            reason = f"{ROW_ID} and the pipe syntax |> do not go together; read it in a sub-query of SELECT"
            raise unsupported_error(text, token.start, reason)


def _is_table_argument(tokens: Sequence[Token], index: int) -> bool:
    before = tokens[index - 1] if index else None
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if before is None or following is None or not before.is_symbol("(", ",", "=>"):
        return False
    named = following.kind in (Kind.WORD, Kind.QUOTED)
    return following.is_symbol("(") or (named and index not in _table_statements(tokens))


def _table_statements(tokens: Sequence[Token]) -> list[int]:
    """Return the index of each word TABLE that begins a query ``TABLE name``, short for SELECT * FROM name."""
    return [
        index
        for index, token in enumerate(tokens)
        if token.word == "TABLE"
        and index + 1 < len(tokens)
        and tokens[index + 1].kind in (Kind.WORD, Kind.QUOTED)
        and _begins_query(tokens, index)
    ]


def _is_piped(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a pipe operator (``|>``) directly follows the query ``TABLE name`` at an index."""
    if index and tokens[index - 1].word in _SET_WORDS:
        return False
    behind = (token for token in tokens[index + 1 :] if token.kind is Kind.SYMBOL and not token.is_symbol(".", "@"))
    following = next(behind, None)
    return following is not None and following.is_symbol("|>")


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
    """Return a dict from the start of each link ``T@Y`` in the text to (end, T, Y)."""
    found: dict[int, tuple[int, str, str]] = {}
    names = (Kind.WORD, Kind.QUOTED)
    for table, at, namespace in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if at.is_symbol("@") and table.kind in names and namespace.kind in names:
            found[table.start] = (namespace.end, normalise(name_of(table)), normalise(name_of(namespace)))
    return found
