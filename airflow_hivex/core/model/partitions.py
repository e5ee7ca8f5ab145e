"""Partition names: ``ds=2013-01-01/hour=7``, escaped as Hive escapes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value that stands for NULL (and the empty string) in a partition name."""

# Source: Hive FileUtils.charToEscape; Spark's ExternalCatalogUtils escapes the same ones.
_ESCAPED = {
    char: f"%{ord(char):02X}"
    for char in [
        *map(chr, range(1, 0x20)),
        '"',
        "#",
        "%",
        "'",
        "*",
        "/",
        ":",
        "=",
        "?",
        "\\",
        "\x7f",
        "{",
        "[",
        "]",
        "^",
    ]
}
_TABLE = str.maketrans(_ESCAPED)


def escape(text: str) -> str:
    """``text`` as it stands in a partition name or path."""
    return text.translate(_TABLE)


def unescape(text: str) -> str:
    """The inverse of :func:`escape`."""
    return unquote(text)


def partition_name(keys: Iterable[str], values: Sequence[str]) -> str:
    """The name, which is also the path below the table, of the partition with these values."""
    return "/".join(
        f"{escape(key.lower())}={escape(value or DEFAULT_PARTITION)}" for key, value in zip(keys, values, strict=True)
    )


def partition_values(name: str) -> tuple[str, ...]:
    """The values in a partition name, in key order."""
    return tuple(unescape(part.partition("=")[2]) for part in name.split("/"))
