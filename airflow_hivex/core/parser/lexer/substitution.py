"""The substitution of values in a text: variables, names by ``IDENTIFIER(...)``, and parameters.

The variables are Hive's: ``${hivevar:x}``, ``${x}`` and ``${hiveconf:x}``. All statements of a script share its
parameters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, StatementSyntaxError
from airflow_hivex.core.model.configuration import HIVECONF, HIVEVAR
from airflow_hivex.core.parser.lexer.literals import unquote
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, syntax_error, tokenize, unsupported_error

# Source: varPat and MAX_SUBST of Hive's SystemVariables.
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_MOST_ROUNDS = 40


def substituted(text: str, variables: Mapping[str, str], configuration: Mapping[str, str]) -> str:
    """Return a text in which each variable is replaced by its value.

    ``variables`` are the values for ``${hivevar:x}`` and ``${x}``, ``configuration`` the values for ``${hiveconf:x}``.
    A value can contain variables, which are replaced, too. A variable without a value stays unchanged.

    Raises:
        InvalidOperationError: the values of variables refer to each other in a circle.
    """
    if not isinstance(text, str) or "${" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith(HIVECONF):
            given = configuration.get(name.removeprefix(HIVECONF))
        else:
            given = variables.get(name.removeprefix(HIVEVAR))
        return found[0] if given is None else given

    for _ in range(_MOST_ROUNDS):
        replaced = _VARIABLE.sub(value, text)
        if replaced == text:
            return text
        text = replaced
    found = _VARIABLE.search(text)
    raise InvalidOperationError(
        "The replacement of variables",
        "a statement" if found is None else found[0],
        f"its value still has variables after {_MOST_ROUNDS} rounds; give them values without each other",
    )


def named_markers(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with a ``:name`` marker in place of each ``?``, and the names of these markers in their order.

    Raises:
        StatementSyntaxError: the text cannot be split into tokens.
    """
    tokens = tokenize(text)
    taken = {token.text for token in tokens if token.kind is Kind.WORD}
    names: list[str] = []
    found, position = "", 0
    for token in tokens:
        if token.is_symbol("?"):
            name = f"p{len(names) + 1}"
            while name in taken:
                name += "_"
            names.append(name)
            found += f"{text[position : token.start]}:{name}"
            position = token.end
    return found + text[position:], tuple(names)


_WORD = "IDENTIFIER"


def with_names(text: str, parameters: Mapping[str, object] | None) -> tuple[str, frozenset[str]]:
    """Return the text with a name in place of each ``IDENTIFIER(...)``, and the names of the markers in these calls.

    The returned text is as long as ``text`` and has the same lines, unless a name is longer than its call.

    Raises:
        StatementSyntaxError: the text cannot be split into tokens, or the value of an ``IDENTIFIER(...)`` is not a
            valid name.
        UnsupportedStatementError: the expression in ``IDENTIFIER(...)`` has more than strings, markers and ``||``, or a
            marker in it has no value.
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
    """Return a pair: the value between the parentheses of IDENTIFIER, and the token of the closing parenthesis."""
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


log = logging.getLogger(__name__)


def share_parameters(
    statements: Sequence[str], parameters: Mapping[str, object] | None
) -> list[Mapping[str, object] | None]:
    """Return for each statement the parameters that its ``:name`` markers need.

    A parameter that no statement needs is ignored, and a warning is logged.

    Raises:
        StatementSyntaxError: the text of a statement cannot be split into tokens.
    """
    if parameters is None:
        return [None] * len(statements)
    markers = [_marker_names(statement) for statement in statements]
    unused = [str(name) for name in parameters if not any(name in names for names in markers)]
    if unused:
        log.warning("No marker of the statements uses the parameters %s.", ", ".join(unused))
    return [
        {name: value for name, value in parameters.items() if name in names} if names else None for names in markers
    ]


def is_complete(text: str) -> bool:
    """Return whether a text ends with a semicolon that is not part of a string, a name or a comment."""
    try:
        tokens = tokenize(text, with_variables=True)
    except StatementSyntaxError:
        return False
    return bool(tokens) and tokens[-1].is_symbol(";")


def _marker_names(statement: str) -> frozenset[str]:
    tokens = tokenize(statement, with_variables=True)
    if [token.word for token in tokens[:2]] in (["SET", "HIVEVAR"], ["SET", "HIVECONF"]):
        # The name of a variable.
        tokens = tokens[4:]
    return frozenset(name.text for colon, name in pairwise(tokens) if colon.is_symbol(":") and name.kind is Kind.WORD)
