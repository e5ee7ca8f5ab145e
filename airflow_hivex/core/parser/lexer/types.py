"""Column types in statements: ``DECIMAL(10, 2)``, ``ARRAY<STRUCT<a: INT>>``."""

from __future__ import annotations

import re

from airflow_hivex.core.model.column_types import (
    KINDS,
    Array,
    ColumnType,
    Field,
    Map,
    Primitive,
    Struct,
    parameters_of,
    primitive_name,
)
from airflow_hivex.core.parser.lexer.literals import read_integer
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, tokenize

_SPARK_ONLY = {
    "VARIANT": "keep the JSON in a STRING, and parse_json(c) in a query makes a variant of it",
    "GEOMETRY": "keep the WKB in a BINARY, and ST_GeomFromWKB(c) in a query makes a geometry of it",
    "GEOGRAPHY": "keep the WKB in a BINARY, and ST_GeogFromWKB(c) in a query makes a geography of it",
    "TIME": "keep the time of day in a STRING or an INT",
}
"""A dict from each Spark type that tables cannot store to the advice for the user."""
_FIELD = re.compile(r"\w+")


def type_of(text: str) -> str:
    """Return the type that a text names, in Hive's spelling with all lengths.

    Spark's name TIMESTAMP WITH LOCAL TIME ZONE is refused. Only :func:`read_type` accepts this name, in statements.

    Raises:
        StatementSyntaxError: the text is not a type.
    """
    cursor = Cursor(text, tokenize(text), Markers({}), None)
    found = str(_type(cursor))
    if not cursor.at_end:
        raise cursor.expected("the end of the type")
    return found


def read_type(cursor: Cursor) -> str:
    """Return the type that must come next, in Hive's spelling with all lengths.

    Raises:
        StatementSyntaxError: the text is not a type, or its parameters are wrong.
    """
    return str(_type(cursor, in_statement=True))


def _type(cursor: Cursor, *, in_statement: bool = False) -> ColumnType:
    token = cursor.next("a type")
    match token.word:
        case "ARRAY":
            cursor.expect_symbol("<")
            element = _type(cursor, in_statement=in_statement)
            cursor.expect_symbol(">")
            return Array(element)
        case "MAP":
            cursor.expect_symbol("<")
            key = _type(cursor, in_statement=in_statement)
            cursor.expect_symbol(",")
            value = _type(cursor, in_statement=in_statement)
            cursor.expect_symbol(">")
            return Map(key, value)
        case "STRUCT":
            return _struct(cursor, in_statement=in_statement)
        case "":
            raise cursor.error(f"expected a type, found {token.text}", token)
    name = primitive_name(token.word)
    if token.word == "UNIONTYPE":
        raise cursor.unsupported("Spark has no type UNIONTYPE; a STRUCT has a field for each of its types", token)
    if token.word in _SPARK_ONLY:
        raise cursor.unsupported(f"a column has no type {token.word}; {_SPARK_ONLY[token.word]}", token)
    if name is None or not KINDS[name].in_tables:
        raise cursor.error(f"there is no type {token.text}", token)
    if token.word == "DOUBLE":
        cursor.accept("PRECISION")
    if in_statement and token.word == "TIMESTAMP":
        # Spark's name becomes Hive's name. Tables of other programs keep their names of types.
        cursor.accept("WITH", "LOCAL", "TIME", "ZONE")
    return _primitive(cursor, name, token)


def _primitive(cursor: Cursor, name: str, token: Token) -> Primitive:
    """Return the type ``name`` with the parameters that follow in parentheses, such as the digits of a decimal."""
    given: list[int] = []
    if not KINDS[name].defaults:
        if cursor.at_symbol("("):
            raise cursor.error(f"type {token.text} takes no length")
    elif cursor.at_symbol("("):
        token = cursor.next("'('")
        if len(KINDS[name].defaults) == 1:
            token = cursor.peek() or token
        given.append(read_integer(cursor, "a length"))
        while len(given) < len(KINDS[name].defaults) and cursor.accept_symbol(","):
            given.append(read_integer(cursor, "the number of digits behind the point"))
        cursor.expect_symbol(")")
    try:
        return Primitive(name, parameters_of(name, tuple(given)))
    except ValueError as error:
        raise cursor.error(str(error), token) from error


def _struct(cursor: Cursor, *, in_statement: bool) -> Struct:
    cursor.expect_symbol("<")
    fields: dict[str, ColumnType] = {}
    while True:
        token = cursor.peek()
        name = cursor.name("the name of a field")
        if "`" in name:
            raise cursor.error(f"the name of a field has a backquote: {name!r}; ORC files lose such fields", token)
        if not (_FIELD.fullmatch(name) or (token is not None and token.kind is Kind.QUOTED)):
            raise cursor.error(
                "a field's name has letters, digits and underscores only, or backquotes around it", token
            )
        if name in fields:
            raise cursor.error(f"the struct has two fields {name}", token)
        cursor.accept_symbol(":")
        fields[name] = _type(cursor, in_statement=in_statement)
        if cursor.at("COMMENT") or cursor.at("NOT", "NULL"):
            raise cursor.unsupported("a struct's field has a name and a type only")
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(">")
    return Struct(tuple(Field(*item) for item in fields.items()))
