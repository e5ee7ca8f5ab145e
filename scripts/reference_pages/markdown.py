"""Docstrings as Markdown."""

from __future__ import annotations

import re
import textwrap

_WIDTH = 120


def inline(text: str) -> str:
    """Return a text with the marks of Markdown instead of those of docstrings, on one line."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", " ".join(text.split()))
    return text.replace("``", "`")


def sentence(text: str) -> str:
    """Return an inline text that begins with a capital letter."""
    text = inline(text)
    return text if text.startswith("`") else text[:1].upper() + text[1:]


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return inline(text).replace("|", "\\|")


def paragraphs(text: str) -> str:
    """Return the paragraphs of a docstring, wrapped; a paragraph of code after ``::`` is a block of Python."""
    written: list[str] = []
    is_code = False
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.strip() == "::":
            is_code = True
        elif is_code and paragraph.startswith("    "):
            written.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            is_code = False
            written.append(textwrap.fill(inline(paragraph), _WIDTH, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(written)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
