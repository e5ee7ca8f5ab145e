"""Calls of functions in sqlglot's tree, with Spark's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parser import Parser

from airflow_hivex.core.model.functions import SYNONYMS

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Mod: "mod",
    exp.IntDiv: "div",
    exp.DPipe: "concat",
}
_CAST_TYPES = {"TEXT": "string", "DATE": "date", "TINYINT": "tinyint", "SMALLINT": "smallint"}
_CAST_TYPES |= {"INT": "int", "BIGINT": "bigint"}
_PARTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    "DOY": "dayofyear",
}


_SparkParser: Any = Spark.parser_class


_WITH_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTR", "SUBSTRING", "POSITION", "OVERLAY")
"""Functions with keywords between their arguments, as in ``TRIM(BOTH 'x' FROM text)``."""


class QueryParser(_SparkParser):  # type: ignore[misc]
    """A parser of Spark's SQL that keeps each function and its arguments as they are written.

    sqlglot's own parser replaces some functions by others. For example, it rewrites formats of dates for another
    language.
    """

    # ``value:a.b[0]`` extracts a part of a variant; only a marker begins with a colon.
    COLON_IS_VARIANT_EXTRACT: ClassVar[bool] = True
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: read for name, read in _SparkParser.FUNCTION_PARSERS.items() if name in _WITH_OWN_SYNTAX
    }
    # Lists such as ``x FOR x IN list`` are not Spark's; PIVOT has FOR after any expression.
    RANGE_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: read for kind, read in _SparkParser.RANGE_PARSERS.items() if kind is not TokenType.FOR
    }

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        # Only this function allows a name without AS after its arguments; elsewhere a word such as IGNORE follows.
        if self._index >= 2 and self._tokens[self._index - 2].text.upper() == "STRUCT":
            return self._parse_csv(self._parse_expression)  # type: ignore[no-any-return]
        return super()._parse_function_args(alias)  # type: ignore[no-any-return]

    def _parse_pivot_aggregation(self) -> exp.Expr | None:
        # Spark's own parser reads no further than the first call here.
        return self._parse_alias(self._parse_disjunction())  # type: ignore[no-any-return]

    def _parse_types(self, *options: Any, **named: Any) -> exp.Expr | None:
        # Spark's own parser takes VARCHAR(3) for STRING here.
        return Parser._parse_types(self, *options, **named)  # noqa: SLF001 - a method of its own base


def called_function(node: exp.Expr) -> tuple[str, Sequence[exp.Expr]] | None:
    """Return the name of a function in ``model.functions`` and its arguments, or None for any other function."""
    if isinstance(node, exp.Anonymous):
        name = node.this if isinstance(node.this, str) else node.this.name
        known = SYNONYMS.get(name.lower())
        return (known, node.expressions) if known and says_only(node, "this", "expressions") else None
    if isinstance(node, exp.DPipe) and isinstance(node.expression, (exp.Add, exp.Sub)):
        # Spark joins from left to right there: 'a' || 1 + 2 is ('a' || 1) + 2.
        return None
    if type(node) in _OPERATORS:
        says = says_only(node, "this", "expression", "safe")
        return (_OPERATORS[type(node)], (node.this, node.expression)) if says else None
    match node:
        case exp.Neg() if says_only(node, "this"):
            return "negative", (node.this,)
        case exp.Substring() if says_only(node, "this", "start", "length"):
            arguments = [node.args.get(name) for name in ("this", "start", "length")]
            return "substring", [argument for argument in arguments if argument is not None]
        case exp.Trim() if says_only(node, "this"):
            return "trim", (node.this,)
        case exp.Extract() if says_only(node, "this", "expression"):
            part = _PARTS.get(node.this.name.upper())
            return (part, (node.expression,)) if part else None
        case exp.Cast() if says_only(node, "this", "to", "safe") and says_only(node.to, "this"):
            type_ = None if not isinstance(node.to.this, exp.DataType.Type) else _CAST_TYPES.get(node.to.this.name)
            return (f"cast {type_}", (node.this,)) if type_ else None
    return None


def says_only(node: exp.Expr, *names: str) -> bool:
    """Return whether a node has no other arguments than ``names``."""
    return all(name in names for name, value in node.args.items() if value)
