"""The page of the syntax of statements, from the forms by which they are read."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from airflow_hivex.core.parser.statements import CHAPTERS, Statement, statements_of

if TYPE_CHECKING:
    from types import ModuleType

_INTRODUCTION = """\
# Syntax

<!-- Written by scripts/reference_pages from the SYNTAX of airflow_hivex/core/parser/statements. -->

The forms of all statements. Words in capitals are keywords, `<...>` is a value, `[...]` may be missing, `{a | b}` is
one of several, `[a & b]` are clauses in any order, and `{...} ...` may be repeated. Queries follow Spark SQL;
[Statements](statements.md) has the rules, and [the page of both languages](language.md) an example of each.
"""


def page() -> str:
    """Return the page."""
    return _INTRODUCTION + "".join(map(_chapter, CHAPTERS))


def _chapter(chapter: ModuleType) -> str:
    kinds = [kind for kind in statements_of(chapter) if kind.SYNTAX]
    if not kinds:
        return ""
    title = (chapter.__doc__ or "").split(". ")[0].rstrip(".")
    return f"\n## {title}\n" + "".join(map(_statement, kinds))


def _statement(kind: type[Statement]) -> str:
    forms = "\n".join(map(shown, kind.SYNTAX))
    return f"\n### {kind.KIND}\n\n```text\n{forms}\n```\n"


def shown(form: str) -> str:
    """Return a form as people read it, without the fields of the class."""
    form = re.sub(r"\s*![a-z_]+", "", form)
    form = re.sub(r"\}\*\w+", "} ...", form)
    form = re.sub(r"_before_\w+>", ">", form)
    form = re.sub(r"<\w+: ([^>]+)>", lambda found: "{" + found[1] + "}", form)
    form = re.sub(r"<(?:\w+ )?(\w+)>", lambda found: f"<{found[1].replace('_', ' ')}>", form)
    form = re.sub(r"'([^']+)'", r"\1", form)
    form = " ".join(form.replace("<pattern> | <quoted pattern>", "<pattern>").split())
    return textwrap.fill(form, 120, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
