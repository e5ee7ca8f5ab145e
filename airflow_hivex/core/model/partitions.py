"""Partition names: ``ds=2013-01-01/hour=7``, escaped as Hive escapes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from airflow_hivex.core.errors import InvalidObjectError, InvalidTextError
from airflow_hivex.core.model.texts import check_text

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value for NULL (and the empty string) in a partition name."""

NUL_IN_VALUE = "the value has a NUL character, which the name of a directory cannot have; remove it"
"""The reason why a text with a NUL character cannot be a partition value."""

MAX_FOLDER_BYTES = 255
"""The largest number of bytes in a folder's name, in most file systems and in HDFS."""

LONG_FOLDER = (
    f"its folder would have a name of more than {MAX_FOLDER_BYTES} bytes, which file systems refuse; "
    "give the partition a shorter value"
)
"""The reason why a partition is refused if the name of its folder is too long."""

MAX_NAME_BYTES = 2000
"""The largest number of bytes in a partition name, which must fit into an index together with the table's name.

An entry of an index of PostgreSQL has at most 2,704 bytes.
"""

# Source: Hive FileUtils.charToEscape; Spark's ExternalCatalogUtils escapes the same ones.
ESCAPED = {
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
"""A dict from special character to its escape, which has three bytes."""
_TABLE = str.maketrans(ESCAPED)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """Return ``text`` escaped for a partition name or path."""
    return text.translate(_TABLE)


def unescape(text: str) -> str:
    """Return ``text`` without its escapes, the inverse of :func:`escape`.

    Each ``%`` that is followed by two hexadecimal digits becomes one character. Any other ``%`` stays unchanged.
    """
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def partition_name(keys: Iterable[str], values: Sequence[str | None]) -> str:
    """Return the name of the partition with these values, which is also the partition's path in the table's folder.

    NULL and the empty string become :data:`DEFAULT_PARTITION`.
    """
    return "/".join(
        f"{escape(key.lower())}={escape(value or DEFAULT_PARTITION)}" for key, value in zip(keys, values, strict=True)
    )


def check_partition_name(name: str) -> str:
    """Check that SQLite and PostgreSQL can store and find a partition name, and return it.

    Raises:
        InvalidObjectError: the name is too long, or has a character that cannot be stored.
    """
    try:
        size = len(check_text("The partition's name", name).encode())
    except InvalidTextError as error:
        raise InvalidObjectError("partition", ascii(name[:200]), str(error).rstrip(".")) from error
    if size > MAX_NAME_BYTES:
        raise InvalidObjectError(
            "partition",
            f"{name[:60]}...",
            f"its name has {size} bytes; a partition's name has at most {MAX_NAME_BYTES}",
        )
    return name


def check_folder_name(name: str) -> str:
    """Check that a folder can have the name of a new partition, and return it.

    Raises:
        InvalidObjectError: a part of the name is too long for a folder.
    """
    long = next((part for part in name.split("/") if len(part.encode()) > MAX_FOLDER_BYTES), None)
    if long is not None:
        raise InvalidObjectError("partition", f"{long[:60]}...", LONG_FOLDER)
    return name


def partition_values(name: str) -> tuple[str, ...]:
    """Return the values in a partition name, in key order.

    Raises:
        InvalidObjectError: the name is not of the form ``key=value/...``.
    """
    values = []
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if not key or not equals:
            reason = "a partition's name is key=value, or several with '/' between; a '/' in a value is written %2F"
            raise InvalidObjectError("partition", name, reason)
        values.append(unescape(value))
    return tuple(values)


def nullable_values(name: str | None) -> tuple[str | None, ...]:
    """Return the values in a partition's name, with None for NULL. If ``name`` is None, the result is empty."""
    if name is None:
        return ()
    return tuple(None if value == DEFAULT_PARTITION else value for value in partition_values(name))
