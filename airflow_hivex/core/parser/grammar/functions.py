"""CREATE FUNCTION and CREATE TEMPORARY FUNCTION: functions in SQL, macros, and functions of Java classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_hivex.core.model.permanent_functions import FunctionResource, ResourceType, SqlFunction
from airflow_hivex.core.parser.grammar.clauses import Parts, read_parentheses
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.queries.reader import code_functions
from airflow_hivex.core.parser.statements import CreateFunction, CreateTemporaryFunction, Query

_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


class Body(NamedTuple):
    """The body of a function: the tokens of its expression or query, and a query that returns its value."""

    tokens: Sequence[Token]
    query: Query

    @property
    def is_query(self) -> bool:
        """Return whether the body is a query rather than an expression."""
        return self.tokens[0].word in _QUERY_WORDS


def read_body(cursor: Cursor) -> Body:
    """Return the body of a function, up to the end of the statement.

    Raises:
        StatementSyntaxError: there is no body, or it is not SQL.
    """
    tokens, cursor.index = cursor.tokens[cursor.index :], len(cursor.tokens)
    if not tokens:
        raise cursor.expected("an expression")
    pieces = Pieces(cursor)
    if tokens[0].word not in _QUERY_WORDS:
        pieces.add("SELECT ")
    query = pieces.copy_tokens(tokens).read()
    # Defaults of parameters may call functions, too.
    return Body(tokens, replace(query, code_functions=code_functions(cursor.tokens)))


def read_signature(cursor: Cursor) -> Sequence[Token]:
    """Return the tokens before RETURN: the parameters of the function, and the clauses that Spark reads.

    Raises:
        UnsupportedStatementError: the language of the function is not SQL.
        StatementSyntaxError: the function has no body.
    """
    start = cursor.index
    read_parentheses(cursor)
    while not cursor.at_end and not cursor.at("RETURN"):
        if cursor.accept("LANGUAGE"):
            read_language(cursor)
        elif cursor.at_symbol("("):
            read_parentheses(cursor)
        elif cursor.at_symbol(")"):
            raise cursor.error("this parenthesis was not opened")
        else:
            cursor.index += 1
    if cursor.at_end:
        raise cursor.expected("RETURN and an expression")
    return cursor.tokens[start : cursor.index]


def read_language(cursor: Cursor) -> str:
    """Return the language of a function, which must come next.

    Raises:
        UnsupportedStatementError: the language is not SQL.
    """
    token = cursor.next("SQL")
    if token.word != "SQL":
        raise cursor.unsupported(f"the language of a function is SQL; {token.text} is not supported", token)
    return token.word


def read_session_function(cursor: Cursor) -> str:
    """Return the name of a temporary function, which must come next."""
    skip_session(cursor)
    token = cursor.peek()
    name = cursor.name("the name of a function")
    if not _NAME.fullmatch(name):
        raise cursor.error(f"`{name}` is not a valid name of a function; it has letters, digits and _", token)
    if cursor.at_symbol("."):
        raise cursor.error(f"the temporary function {name} belongs to the session; give it a name of one part")
    return name


def skip_session(cursor: Cursor) -> None:
    """Skip ``session.`` or ``system.session.``, the schema of a session's objects, if it comes next."""
    for schema in ("SYSTEM", "SESSION"):
        if cursor.at(schema) and cursor.at_symbol(".", ahead=1):
            cursor.index += 2


def read_resources(cursor: Cursor) -> tuple[FunctionResource, ...]:
    """Return the files of a Java function, in a list such as ``JAR 'address', ...``."""
    found = []
    while True:
        kind = cursor.accept_one(*(each.value for each in ResourceType))
        if kind is None:
            raise cursor.expected("JAR, FILE or ARCHIVE")
        found.append(FunctionResource(ResourceType(kind), read_string(cursor, "the address of a file")))
        if not cursor.accept_symbol(","):
            return tuple(found)


def make_function(parts: Parts) -> CreateFunction:
    """Return the statement CREATE FUNCTION.

    Raises:
        StatementSyntaxError: the statement has OR REPLACE and IF NOT EXISTS.
        UnsupportedStatementError: the function reads tables or markers.
    """
    _refuse_both(parts)
    modes = "or_replace" in parts, "if_not_exists" in parts
    if "class_name" in parts:
        return CreateFunction(parts["name"], parts["class_name"], parts["resources"] or (), None, None, *modes)
    body, text = parts["body"], _text(parts.cursor, parts["body"].tokens)
    _check_body(parts, "a function reads no tables; give it their values as arguments, or make a view")
    definition = SqlFunction(
        database=parts.cursor.database or "",
        parameters=_text(parts.cursor, parts["parameters"][1:-1]),
        returns=_text(parts.cursor, parts["columns"][1:-1]) if "columns" in parts else parts["type"] or "",
        expression=None if body.is_query else text,
        query=text if body.is_query else None,
        is_table="is_table" in parts,
        is_deterministic="is_random" not in parts,
        comment=parts["comment"],
    )
    return CreateFunction(parts["name"], None, (), definition, body.query, *modes)


def make_temporary_function(parts: Parts) -> CreateTemporaryFunction:
    """Return the statement CREATE TEMPORARY FUNCTION. CREATE TEMPORARY MACRO becomes a statement with OR REPLACE.

    Raises:
        StatementSyntaxError: the statement has OR REPLACE and IF NOT EXISTS.
        UnsupportedStatementError: the function reads tables or markers.
    """
    _refuse_both(parts)
    reason = "a temporary function reads no tables; give it their values as arguments, or use a temporary view"
    _check_body(parts, reason)
    is_macro, body = "signature" not in parts, parts["body"]
    before = parts["parameters"] if is_macro else parts["signature"]
    text = f"{_text(parts.cursor, before)} RETURN {_text(parts.cursor, body.tokens)}"
    if not is_macro:
        text = parts.cursor.text[before[0].start : body.tokens[-1].end]
    or_replace = is_macro or "or_replace" in parts
    return CreateTemporaryFunction(parts["name"], text, body.query, or_replace, "if_not_exists" in parts)


def _check_body(parts: Parts, reads_tables: str) -> None:
    body: Body = parts["body"]
    if body.query.references:
        raise parts.cursor.unsupported(reads_tables, body.tokens[0])
    if body.query.parameters:
        marker = sorted(body.query.parameters)[0]
        reason = f"a function is kept without values for markers; write a constant for :{marker}"
        raise parts.cursor.unsupported(reason, body.tokens[0])


def _refuse_both(parts: Parts) -> None:
    if "or_replace" in parts and "if_not_exists" in parts:
        reason = "OR REPLACE and IF NOT EXISTS do not go together"
        raise parts.cursor.error(reason, parts.token("if_not_exists"))


def _text(cursor: Cursor, tokens: Sequence[Token]) -> str:
    return cursor.text[tokens[0].start : tokens[-1].end] if tokens else ""
