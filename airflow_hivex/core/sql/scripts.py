"""Scripts with parameters: which statement takes which of the values given for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.sql.tokens import Kind, tokenize


def share_parameters(
    statements: Sequence[str], parameters: Mapping[str, object] | None
) -> list[Mapping[str, object] | None]:
    """For each statement the parameters whose ``:name`` markers it has.

    A single statement gets all of them, so that the reader judges; several share them, as a
    statement refuses values that it has no marker for.

    Raises:
        StatementSyntaxError: a statement's text cannot be taken apart.
        InvalidParametersError: a value has no marker in any statement.
    """
    if len(statements) == 1 or parameters is None:
        return [parameters] * len(statements)
    markers = [_marker_names(statement) for statement in statements]
    unused = [str(name) for name in parameters if not any(name in names for names in markers)]
    if unused:
        raise InvalidParametersError(
            f"Parameters do not fit the statements: no marker of any of them uses {', '.join(unused)}."
        )
    return [
        {name: value for name, value in parameters.items() if name in names} if names else None for names in markers
    ]


def _marker_names(statement: str) -> frozenset[str]:
    tokens = tokenize(statement)
    return frozenset(name.text for colon, name in pairwise(tokens) if colon.is_symbol(":") and name.kind is Kind.WORD)
