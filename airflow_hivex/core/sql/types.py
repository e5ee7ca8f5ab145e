"""Column types as Spark's simple strings: ``decimal(10,2)``, ``array<struct<a:int>>``."""

from __future__ import annotations

import re

from airflow_hivex.core.sql.literals import read_integer
from airflow_hivex.core.sql.markers import MAX_PRECISION
from airflow_hivex.core.sql.tokens import Cursor, Token

_PRIMITIVES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "BYTE": "tinyint",
    "SMALLINT": "smallint",
    "SHORT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "LONG": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "STRING": "string",
    "BINARY": "binary",
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_CHARACTERS = {"CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar"}
_FIELD = re.compile(r"\w+")


def read_type(cursor: Cursor) -> str:
    """Return the type that must come next, in lower case with Spark's own names and lengths filled in.

    Raises:
        StatementSyntaxError: there is no such type, or its parameters are wrong.
    """
    token = cursor.next("a type")
    word = token.word
    if word in _PRIMITIVES:
        if word == "DOUBLE":
            cursor.accept("PRECISION")
        if cursor.at_symbol("("):
            raise cursor.error(f"type {token.text} takes no length")
        return _PRIMITIVES[word]
    if word in _DECIMALS:
        return _decimal(cursor)
    if word in _CHARACTERS:
        return _character(cursor, token)
    if word == "ARRAY":
        cursor.expect_symbol("<")
        element = read_type(cursor)
        _close(cursor)
        return f"array<{element}>"
    if word == "MAP":
        cursor.expect_symbol("<")
        key = read_type(cursor)
        cursor.expect_symbol(",")
        value = read_type(cursor)
        _close(cursor)
        return f"map<{key},{value}>"
    if word == "STRUCT":
        return _struct(cursor)
    if not word:
        raise cursor.error(f"expected a type, found {token.text}", token)
    raise cursor.error(f"there is no type {token.text}", token)


def _decimal(cursor: Cursor) -> str:
    precision, scale = 10, 0
    if cursor.at_symbol("("):
        first = cursor.next("'('")
        precision = read_integer(cursor, "the number of digits")
        if cursor.accept_symbol(","):
            scale = read_integer(cursor, "the number of digits behind the point")
        cursor.expect_symbol(")")
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise cursor.error(f"a decimal has 1 to {MAX_PRECISION} digits, including those after the point", first)
    return f"decimal({precision},{scale})"


def _character(cursor: Cursor, token: Token) -> str:
    if not cursor.accept_symbol("("):
        raise cursor.error(f"type {token.text} needs a length, as in {token.text}(10)", token)
    length_token = cursor.peek()
    length = read_integer(cursor, "a length")
    cursor.expect_symbol(")")
    if length < 1:
        raise cursor.error("a length is at least 1", length_token)
    return f"{_CHARACTERS[token.word]}({length})"


def _struct(cursor: Cursor) -> str:
    cursor.expect_symbol("<")
    fields: dict[str, str] = {}
    while True:
        token = cursor.peek()
        name = cursor.name("the name of a field")
        if not _FIELD.fullmatch(name):
            raise cursor.error("a field's name has letters, digits and underscores only", token)
        if name in fields:
            raise cursor.error(f"the struct has two fields {name}", token)
        cursor.accept_symbol(":")
        fields[name] = read_type(cursor)
        if cursor.at("COMMENT") or cursor.at("NOT", "NULL"):
            raise cursor.unsupported("a struct's field has a name and a type only")
        if not cursor.accept_symbol(","):
            break
    _close(cursor)
    return f"struct<{','.join(f'{name}:{field}' for name, field in fields.items())}>"


def _close(cursor: Cursor) -> None:
    cursor.expect_symbol(">")
