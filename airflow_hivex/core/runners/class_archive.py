"""The archive of classes with which Spark's Java process starts faster (class-data sharing).

``hivex spark archive`` makes it. Java looks whether it fits: with one of another Java, another Spark or other options
the classes are loaded as ever.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "HIVEX_SPARK_ARCHIVE"


def archive_file() -> Path | None:
    """Return the path of the archive, which may not exist yet; None if no archive is used.

    The variable ``HIVEX_SPARK_ARCHIVE`` names another file; if it is empty, none is used.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given).absolute() if given else None
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "hivex" / f"spark-{spark}.jsa"


def options_to_use() -> str:
    """Return the options for a Java process that uses the archive; or an empty text without a trusted archive."""
    file = archive_file()
    if file is None or _cannot_be_named(file):
        return ""
    try:
        state = file.stat()
    except OSError:
        return ""
    # It holds code: a user who can write it can run any code as this user.
    is_trusted = state.st_uid in (0, os.getuid()) and not state.st_mode & 0o022
    return f"-XX:SharedArchiveFile={file}" if is_trusted and state.st_size else ""


def options_to_make(file: Path) -> str:
    """Return the options for a Java process that leaves the archive when it ends.

    Raises:
        ValueError: no option of Java can name the file.
    """
    if _cannot_be_named(file):
        raise ValueError(f"{file} has a character that cannot stand in an option of Java")
    return f"-XX:ArchiveClassesAtExit={file}"


def _cannot_be_named(file: Path) -> bool:
    return any(character.isspace() or character in "\"'\\%" for character in str(file))
