"""CREATE FUNCTION and DROP FUNCTION: the permanent functions of a database."""

from __future__ import annotations

import re
from dataclasses import replace

from airflow_hivex.core.model.permanent_functions import FunctionResource, ResourceType, SqlFunction
from airflow_hivex.core.parser.grammar.session_objects import QUERY_WORDS, body_of_function, query_of_body
from airflow_hivex.core.parser.grammar.values import read_function_name
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.queries.reader import code_functions
from airflow_hivex.core.parser.statements import CreateFunction, Query

_NAME = re.compile(r"[a-z_]\w*", re.ASCII)


def read_create_function(cursor: Cursor, *, or_replace: bool) -> CreateFunction:
    """Return the statement whose words up to FUNCTION are read.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the function's language is not SQL, or it reads tables.
    """
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("OR REPLACE and IF NOT EXISTS do not go together")
    name = read_function_name(cursor)
    if cursor.accept("AS"):
        class_name = read_string(cursor, "a class")
        created = CreateFunction(name, class_name, _resources(cursor))
    elif cursor.at_symbol("("):
        definition, body = _read_sql(cursor)
        created = CreateFunction(name, sql=definition, body=body)
    else:
        raise cursor.expected("AS and a class, or '(' and parameters")
    return replace(created, or_replace=or_replace, if_not_exists=if_not_exists)


def _resources(cursor: Cursor) -> tuple[FunctionResource, ...]:
    if not cursor.accept("USING"):
        return ()
    found = []
    while True:
        kind = cursor.accept_one(*(each.value for each in ResourceType))
        if kind is None:
            raise cursor.expected("JAR, FILE or ARCHIVE")
        found.append(FunctionResource(ResourceType(kind), read_string(cursor, "the address of a file")))
        if not cursor.accept_symbol(","):
            return tuple(found)


def _read_sql(cursor: Cursor) -> tuple[SqlFunction, Query]:
    """Read ``(parameter type, ...) [RETURNS type] RETURN expression``."""
    start = cursor.index
    body = body_of_function(cursor)
    query = query_of_body(cursor, cursor.tokens[body:])
    if query.references:
        reason = "a function reads no tables; give it their values as arguments, or make a view"
        raise cursor.unsupported(reason, cursor.tokens[body])
    if query.parameters:
        marker = sorted(query.parameters)[0]
        reason = f"a function is kept without values for markers; write a constant for :{marker}"
        raise cursor.unsupported(reason, cursor.tokens[body])
    # Defaults of parameters may call functions, too.
    query = replace(query, code_functions=code_functions(cursor.tokens))
    cursor.index = start
    parameters = _in_parentheses(cursor)
    is_table, returns = False, ""
    if cursor.accept("RETURNS"):
        is_table = cursor.accept("TABLE")
        if is_table and cursor.at("RETURN"):
            raise cursor.unsupported("RETURNS TABLE names its columns and their types here, such as TABLE (id INT)")
        returns = _in_parentheses(cursor) if is_table else read_type(cursor)
    is_deterministic, comment = True, None
    while cursor.index < body - 1:
        if cursor.accept("NOT", "DETERMINISTIC"):
            is_deterministic = False
        elif cursor.accept("COMMENT"):
            comment = read_string(cursor, "a comment")
        elif not any(cursor.accept(*words) for words in _WITHOUT_EFFECT):
            raise cursor.expected("COMMENT, DETERMINISTIC or RETURN")
    is_query = cursor.tokens[body].word in QUERY_WORDS
    text = cursor.text[cursor.tokens[body].start : cursor.tokens[-1].end]
    cursor.index = len(cursor.tokens)
    found = SqlFunction(
        database=cursor.database or "",
        parameters=parameters,
        returns=returns,
        expression=None if is_query else text,
        query=text if is_query else None,
        is_table=is_table,
        is_deterministic=is_deterministic,
        comment=comment,
    )
    return found, query


_WITHOUT_EFFECT = (("LANGUAGE", "SQL"), ("DETERMINISTIC",), ("CONTAINS", "SQL"), ("READS", "SQL", "DATA"))


def _in_parentheses(cursor: Cursor) -> str:
    """Return the text of the list in parentheses that stands here."""
    first: Token | None = cursor.peek()
    cursor.expect_symbol("(")
    start, depth = cursor.index, 1
    while (token := cursor.peek()) is not None:
        depth += token.is_symbol("(") - token.is_symbol(")")
        cursor.index += 1
        if depth == 0:
            inside = cursor.tokens[start : cursor.index - 1]
            return cursor.text[inside[0].start : inside[-1].end] if inside else ""
    raise cursor.error("this parenthesis is not closed", first)
