"""Texts that the metastore database can store, and checks that refuse all other texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_hivex.core.errors import InvalidParametersError, InvalidTextError

# PostgreSQL cannot store a NUL, and UTF-8 has no half of a surrogate pair. SQLite would store a NUL.
_REFUSED = re.compile("[\0\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def check_text(what: str, text: str) -> str:
    """Check that the database can store a text, and return it. ``what`` names the text in the error.

    Raises:
        InvalidTextError: the text has a NUL character or half of a surrogate pair.
    """
    found = _REFUSED.search(text)
    if found is not None:
        raise InvalidTextError(what, text, found.start())
    return text


def is_storable(text: str) -> bool:
    """Return whether :func:`check_text` accepts ``text``."""
    return _REFUSED.search(text) is None


def check_encodable(what: str, text: str) -> str:
    """Check a value of a row as :func:`check_text` does, but accept a NUL character.

    Raises:
        InvalidTextError: the text has half of a surrogate pair.
    """
    found = _HALF.search(text)
    if found is not None:
        raise InvalidTextError(what, text, found.start())
    return text


def check_values(what: str, values: Iterable[object]) -> None:
    """Check all texts in ``values``, and in lists and mappings in it, as :func:`check_text` does.

    Raises:
        InvalidTextError: a text has a NUL character or half of a surrogate pair.
    """
    for value in values:
        if isinstance(value, str):
            if _REFUSED.search(value):
                check_text(what, value)
        elif isinstance(value, Mapping):
            check_values(what, value.keys())
            check_values(what, value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            check_values(what, value)


def check_length(what: str, text: str, most: int) -> str:
    """Check that a text fits the column of a database, and return it.

    Raises:
        InvalidParametersError: the text has more than ``most`` characters.
    """
    if len(text) > most:
        raise InvalidParametersError(
            f"{what} has {len(text)} characters, and at most {most} are kept: {text[:60]!a}..."
        )
    return text


def shortened(text: str, length: int) -> str:
    """Return the first ``length`` characters of a text. Characters that cannot be stored are replaced."""
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text[:length])


def quoted_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
