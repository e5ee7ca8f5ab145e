"""The reader of constants in the text. A string, number or date becomes a Python value with its Spark type.

If it is not certain how Spark reads a constant, the result is None. Then Spark reads the constant itself.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from airflow_hivex.core.parser.lexer.markers import decimal_type
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, unescape
from airflow_hivex.core.parser.statements import Literal

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?([LlSsYyDdFf]|[bB][dD])?")
_INTEGER_BITS = {"Y": ("tinyint", 7), "S": ("smallint", 15), "L": ("bigint", 63)}
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(\.\d{1,6})?)?")


def unquote(token: Token) -> str:
    """Return the value of a string token."""
    return unescape(token.text)


def number(text: str, negative: bool = False) -> Literal | None:
    """Return the constant of a number, or None for a number with the suffix F or outside of its type's range.

    ``1`` is an int; a larger whole number is a bigint or a decimal. ``1.5`` is a decimal, and ``1e3`` is a double.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    digits, exponent, suffix = found.group(1), found.group(2) or "", (found.group(3) or "").upper()
    signed = f"-{digits}{exponent}" if negative else f"{digits}{exponent}"
    if suffix == "D" or (exponent and not suffix):
        value = float(signed)
        return Literal(value, "double") if abs(value) != float("inf") else None
    if suffix == "F":
        return None
    if suffix in _INTEGER_BITS:
        return _sized_integer(signed, *_INTEGER_BITS[suffix])
    if suffix == "BD" or "." in digits:
        return _decimal(Decimal(signed))
    return _sized_integer(signed, "int", 31) or _sized_integer(signed, "bigint", 63) or _decimal(Decimal(signed))


def _sized_integer(text: str, type: str, bits: int) -> Literal | None:
    if not text.lstrip("-").isdigit():
        return None
    value = int(text)
    return Literal(value, type) if -(1 << bits) <= value < (1 << bits) else None


def _decimal(value: Decimal) -> Literal | None:
    decimal = decimal_type(value)
    return Literal(value, decimal) if decimal is not None else None


def date_value(text: str) -> date | None:
    """Return the date in a text such as ``2013-01-31`` or ``2013-1-31``, or None for any other form."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        return None


def timestamp_value(text: str) -> datetime | None:
    """Return the time without a zone in a text ``2013-01-31[ 12:30:00[.123456]]``, or None for any other form."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    day, time, fraction = found.groups()
    try:
        return datetime.fromisoformat(f"{day} {time or '00:00:00'}{(fraction or '.').ljust(7, '0')}")
    except ValueError:
        return None


def _typed_string(word: str, text: str) -> Literal | None:
    if word == "DATE":
        day = date_value(text)
        return Literal(day, "date") if day is not None else None
    if word in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        moment = timestamp_value(text)
        name = "timestamp_ntz" if word == "TIMESTAMP_NTZ" else "timestamp"
        return Literal(moment, name) if moment is not None else None
    if word == "X" and len(text) % 2 == 0 and re.fullmatch(r"[0-9a-fA-F]*", text):
        return Literal(bytes.fromhex(text), "binary")
    return None


def read_constant(cursor: Cursor) -> Literal | None:
    """Return the constant that comes next. If no constant comes next, return None and do not move the cursor.

    For a marker, return the value that the parameters have for it.
    """
    start = cursor.index
    literal = _constant(cursor)
    if literal is None:
        cursor.index = start
    return literal


def _constant(cursor: Cursor) -> Literal | None:
    token = cursor.peek()
    if token is None:
        return None
    cursor.index += 1
    if token.kind is Kind.STRING:
        return Literal(unquote(token) + _more_strings(cursor), "string")
    if token.kind is Kind.NUMBER:
        return number(token.text)
    if token.is_symbol("-") and cursor.at_kind(Kind.NUMBER):
        return number(cursor.next("a number").text, negative=True)
    if token.is_symbol(":") and cursor.at_kind(Kind.WORD):
        return cursor.markers.literal(cursor.next("a name").text) or Literal(None, "void")
    if token.word in ("TRUE", "FALSE"):
        return Literal(token.word == "TRUE", "boolean")
    if token.word == "NULL":
        return Literal(None, "void")
    if token.word and cursor.at_kind(Kind.STRING):
        return _typed_string(token.word, unquote(cursor.next("a string")) + _more_strings(cursor))
    return None


def _more_strings(cursor: Cursor) -> str:
    # Adjacent strings are one string.
    parts = []
    while cursor.at_kind(Kind.STRING):
        parts.append(unquote(cursor.next("a string")))
    return "".join(parts)


def read_string(cursor: Cursor, what: str) -> str:
    """Return the string that must come next."""
    if not cursor.at_kind(Kind.STRING):
        raise cursor.expected(what)
    return _more_strings(cursor)


def read_integer(cursor: Cursor, what: str) -> int:
    """Return the whole number that must come next."""
    token = cursor.peek()
    if token is None or not (token.kind is Kind.NUMBER and token.text.isdigit()):
        raise cursor.expected(what)
    return int(cursor.next(what).text)
