"""Markers without a name (``?``), which become ``:name`` markers."""

from __future__ import annotations

from airflow_hivex.core.parser.lexer.tokens import Kind, tokenize


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
