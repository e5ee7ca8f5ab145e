"""Strings of a statement: the text that a string token stands for."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|(''|\"\")", re.DOTALL)
_CONTROL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_LAST_CHARACTER = 0x10FFFF


def unescape(token: str) -> str:
    r"""Return the value of a string as it is written, quotes included.

    A backslash escapes, ``\%`` and ``\_`` stay as they are for LIKE, a doubled quote is one
    quote, and r'...' is taken as written. Source: Spark's SparkParserUtils.unescapeSQLString.

    Raises:
        ValueError: an escape names no character: half of a surrogate pair, or a number above the last character.
    """
    if token[0] in "rR":
        return token[2:-1]
    quote, body = token[0], token[1:-1]
    if "\\" not in body and quote not in body:
        return body

    def replaced(found: re.Match[str]) -> str:
        short, long, octal, plain, doubled = found.groups()
        if doubled is not None:
            return quote if doubled[0] == quote else doubled
        if plain is not None:
            return _CONTROL.get(plain, plain)
        number = int(octal, 8) if octal else int(short or long, 16)
        if number > _LAST_CHARACTER:
            raise ValueError(found.group())
        return chr(number)

    value = _ESCAPE.sub(replaced, body)
    # Java writes a character beyond the basic plane as two escapes.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
