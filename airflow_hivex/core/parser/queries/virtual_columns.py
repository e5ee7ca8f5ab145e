"""``INPUT__FILE__NAME`` and ``BLOCK__OFFSET__INSIDE__FILE``: Hive's names for what functions of Spark return.

In backquotes they are names of columns as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from airflow_hivex.core.parser.lexer.tokens import Kind, Token
from airflow_hivex.core.parser.queries.scopes import ScopeReader, qualifiers_of
from airflow_hivex.core.parser.statements import TextEdit

_FUNCTIONS = {
    "INPUT__FILE__NAME": "input_file_name()",
    "BLOCK__OFFSET__INSIDE__FILE": "input_file_block_start()",
}


def virtual_columns(reader: ScopeReader, tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edits that put a function in the place of each virtual column; its result keeps the name.

    An edit replaces the qualifiers of the column, too. A field of a struct is not a virtual column.
    """
    words = {token.start: token for token in tokens if token.kind is Kind.WORD and token.word in _FUNCTIONS}
    if not words:
        return
    for column, scope in reader.columns:
        name, qualifiers = column.this, qualifiers_of(column)
        token = words.get(name.meta.get("start", -1)) if isinstance(name, exp.Identifier) else None
        found = reader.resolve(qualifiers, scope)
        if token is None or len(qualifiers) != (0 if found is None else found[2]):
            continue
        start = qualifiers[0].meta["start"] if qualifiers else token.start
        is_result = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
        alias = f" AS `{token.text}`" if is_result else ""
        yield TextEdit(start, token.end, f"{_FUNCTIONS[token.word]}{alias}")
