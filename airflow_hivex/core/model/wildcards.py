"""Patterns with wildcards as regular expressions whose matching takes no more than quadratic time."""

from __future__ import annotations

import re
from collections.abc import Sequence


def wildcard_expression(parts: Sequence[str | None]) -> str:
    """Return the regular expression of a pattern for ``fullmatch``.

    ``parts`` are expressions of a fixed number of characters, None for any number of any characters. Each text between
    two wildcards is taken where it first occurs, which leaves the most room for the rest. So nothing is tried again:
    ``.*`` for each wildcard would take time that grows by a power for every one of them, and hold up all threads.
    """
    segments: list[list[str]] = [[]]
    for part in parts:
        if part is None:
            segments.append([])
        else:
            segments[-1].append(part)
    first, *others = map("".join, segments)
    if not others:
        return first
    *between, last = others
    return "".join((first, *(f"(?>.*?{each})" for each in between if each), ".*", last))


def name_expression(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern of names, as SHOW and clients of Hive give it.

    ``*`` stands for any characters, ``.`` for one, ``|`` for or. SQL's ``%`` is taken as ``*``, as newer Hive and users
    of LIKE expect.
    """
    alternatives = (
        wildcard_expression(
            [None if sign in "*%" else sign if sign == "." else re.escape(sign) for sign in part.strip()]
        )
        for part in pattern.split("|")
    )
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)
