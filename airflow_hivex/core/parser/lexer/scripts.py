"""Scripts with parameters: which statement takes which of the values given for all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.parser.lexer.tokens import Kind, tokenize

log = logging.getLogger(__name__)


def share_parameters(
    statements: Sequence[str], parameters: Mapping[str, object] | None
) -> list[Mapping[str, object] | None]:
    """Return, for each statement, the parameters whose ``:name`` markers it has, as a statement refuses any other.

    Values that no statement has a marker for are left out; the log names them.

    Raises:
        StatementSyntaxError: a statement's text cannot be taken apart.
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
    """Return whether a text ends with the semicolon of a statement, not inside of a string, a name or a comment."""
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
