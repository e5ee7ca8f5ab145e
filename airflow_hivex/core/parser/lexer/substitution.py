"""Hive's variables in a text (``${hivevar:x}``, ``${x}`` and ``${hiveconf:x}``), and its markers ``?``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.configuration import HIVECONF, HIVEVAR
from airflow_hivex.core.parser.lexer.tokens import Kind, tokenize

# Source: varPat and MAX_SUBST of Hive's SystemVariables.
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_MOST_ROUNDS = 40


def substituted(text: str, variables: Mapping[str, str], configuration: Mapping[str, str]) -> str:
    """Return a text with the values of its variables in it, as texts.

    ``variables`` are those of ``${hivevar:x}`` and ``${x}``, ``configuration`` those of ``${hiveconf:x}``. A value may
    have variables, too. A variable without a value stays as it is.

    Raises:
        InvalidOperationError: the values of variables name each other without an end.
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
    """Return a text with a name for each of its markers ``?``, and these names in their order.

    Raises:
        StatementSyntaxError: the text cannot be taken apart.
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
