"""``IDENTIFIER('name')`` and ``IDENTIFIER(:marker)``: the name itself is put in their place before a text is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError
from airflow_hivex.core.parser.lexer.literals import unquote
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, syntax_error, tokenize, unsupported_error

_WORD = "IDENTIFIER"


def with_names(text: str, parameters: Mapping[str, object] | None) -> tuple[str, frozenset[str]]:
    """Return a text with the name that each ``IDENTIFIER(...)`` stands for, and the markers that these had.

    A shorter name is followed by blanks, so that what stands behind it keeps its place.

    Raises:
        StatementSyntaxError: the text cannot be taken apart, or a constant is not a name.
        UnsupportedStatementError: the name is computed by more than constants, markers and ``||``.
        InvalidParametersError: the value of a marker is not a text.
    """
    if _WORD not in text.upper():
        return text, frozenset()
    tokens = tokenize(text)
    found, position = "", 0
    markers: set[str] = set()
    for index, token in enumerate(tokens):
        if token.word != _WORD or token.start < position or not _is_symbol(tokens, index + 1, "("):
            continue
        value, last = _value(text, tokens, index, parameters, markers)
        name = _as_name(text, token, value)
        replaced = text[token.start : last.end]
        blanks = "\n" * replaced.count("\n")
        found += text[position : token.start] + name + blanks + " " * (len(replaced) - len(name) - len(blanks))
        position = last.end
    return found + text[position:], frozenset(markers)


def _value(
    text: str, tokens: Sequence[Token], index: int, parameters: Mapping[str, object] | None, markers: set[str]
) -> tuple[str, Token]:
    """Return the text between the parentheses, and the last of these."""
    parts: list[str] = []
    at = index + 2
    while True:
        if at < len(tokens) and tokens[at].kind is Kind.STRING:
            parts.append(unquote(tokens[at]))
            at += 1
        elif _is_symbol(tokens, at, ":") and at + 1 < len(tokens):
            name = tokens[at + 1].text
            markers.add(name)
            given = (parameters or {}).get(name, "")
            if parameters is not None and name in parameters and not isinstance(given, str):
                raise InvalidParametersError(f"Parameter {name} is a {type(given).__name__}; IDENTIFIER takes a text.")
            if parameters is None or name not in parameters:
                reason = f"IDENTIFIER(:{name}) names an object only with a value for the marker; give it as a parameter"
                raise unsupported_error(text, tokens[index].start, reason)
            parts.append(str(given))
            at += 2
        else:
            break
        if _is_symbol(tokens, at, "||"):
            at += 1
        elif _is_symbol(tokens, at, ")"):
            return "".join(parts), tokens[at]
    reason = "IDENTIFIER takes strings and :name markers, which || may join; write the name itself"
    raise unsupported_error(text, tokens[index].start, reason)


def _is_symbol(tokens: Sequence[Token], index: int, symbol: str) -> bool:
    return index < len(tokens) and tokens[index].is_symbol(symbol)


def _as_name(text: str, token: Token, value: str) -> str:
    """Return a value such as ``database.table`` with each of its parts in backquotes."""
    try:
        parts = tokenize(value)
    except StatementSyntaxError:
        parts = []
    names, between = parts[::2], parts[1::2]
    valid = len(parts) % 2 == 1 and all(each.kind in (Kind.WORD, Kind.QUOTED) for each in names)
    if not valid or not all(each.is_symbol(".", "@") for each in between):
        raise syntax_error(text, token.start, f"{value!r} in IDENTIFIER is not a valid name")
    return "".join(
        each.text if each.kind is Kind.SYMBOL else "`" + name_of(each).replace("`", "``") + "`" for each in parts
    )
