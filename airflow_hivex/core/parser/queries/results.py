"""The columns of a query's result, as its text lists them."""

from __future__ import annotations

from sqlglot import exp

# Each of them may be several columns of a result.
_GENERATORS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}
)


def result_parts(tree: exp.Expr) -> list[exp.Select | exp.Values]:
    """Return each SELECT and VALUES whose rows the result has, none if it has rows of other parts, too."""
    found: list[exp.Select | exp.Values] = []
    # A chain of UNION is as deep as it is long.
    parts = [tree]
    while parts:
        match part := parts.pop():
            case exp.Subquery():
                parts.append(part.this)
            case exp.SetOperation():
                parts += (part.this, part.expression)
            case exp.Values() | exp.Select():
                found.append(part)
            case _:
                return []
    return found


def lists_columns(tree: exp.Expr) -> bool:
    """Return whether the result has the columns that its text lists one by one, whatever columns the tables have."""
    parts = result_parts(tree)
    return bool(parts) and all(
        isinstance(part, exp.Values) or all(map(is_one_column, part.expressions)) for part in parts
    )


def values_of(row: exp.Expr) -> list[exp.Expr]:
    """Return the values of one row of VALUES."""
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def is_one_column(value: exp.Expr) -> bool:
    """Return whether a value of a SELECT is one column: it is no ``*``, and calls no function of several columns."""
    if isinstance(value, exp.Aliases) or value.is_star:
        return False
    called = value.unalias()
    name = called.name if isinstance(called, exp.Anonymous) else called.key
    is_generator = isinstance(called, (exp.UDTF, exp.Explode)) or name.lower() in _GENERATORS
    return not is_generator
