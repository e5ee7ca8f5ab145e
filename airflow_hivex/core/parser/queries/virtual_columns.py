"""``INPUT__FILE__NAME`` and ``BLOCK__OFFSET__INSIDE__FILE``: Hive's names for what functions of Spark return.

In backquotes they are names of columns as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from airflow_hivex.core.parser.lexer.tokens import Kind, Token
from airflow_hivex.core.parser.queries.scopes import Scope
from airflow_hivex.core.parser.statements import TextEdit

_FUNCTIONS = {
    "INPUT__FILE__NAME": "input_file_name()",
    "BLOCK__OFFSET__INSIDE__FILE": "input_file_block_start()",
}


def virtual_columns(columns: Iterable[tuple[exp.Column, Scope]], tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edits that put a function in the place of each virtual column; its result keeps the name."""
    words = {token.start: token for token in tokens if token.kind is Kind.WORD and token.word in _FUNCTIONS}
    if not words:
        return
    for column, _ in columns:
        name, table = column.this, column.args.get("table")
        token = words.get(name.meta.get("start", -1)) if isinstance(name, exp.Identifier) else None
        if token is None or column.args.get("db") is not None:
            continue
        start = token.start if table is None else table.meta["start"]
        is_result = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
        alias = f" AS `{token.text}`" if is_result else ""
        yield TextEdit(start, token.end, f"{_FUNCTIONS[token.word]}{alias}")
