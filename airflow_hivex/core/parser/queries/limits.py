"""``LIMIT offset, count`` of Hive, which Spark writes ``LIMIT count OFFSET offset``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_hivex.core.parser.lexer.tokens import Kind, Token
from airflow_hivex.core.parser.statements import TextEdit


def limit_edits(text: str, tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edit of each LIMIT with an offset before its count; both are numbers or markers."""
    for index, token in enumerate(tokens):
        if token.word != "LIMIT":
            continue
        offset = _value(tokens[index + 1 : index + 3])
        rest = tokens[index + 1 + len(offset) :]
        count = _value(rest[1:3])
        if offset and count and rest[0].is_symbol(","):
            skipped = text[offset[0].start : offset[-1].end]
            yield TextEdit(offset[0].start, count[-1].end, f"{text[count[0].start : count[-1].end]} OFFSET {skipped}")


def _value(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of the number or marker at the beginning of ``tokens``, or none."""
    if tokens and tokens[0].kind is Kind.NUMBER:
        return tokens[:1]
    is_marker = len(tokens) == 2 and tokens[0].is_symbol(":") and tokens[1].kind is Kind.WORD
    return tokens if is_marker else ()
