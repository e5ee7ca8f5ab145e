"""Classes of Java under the name of another package, as builds shade them: a jar without its shaded part gets it."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path

_TEXT = 1
_LONG, _DOUBLE = 5, 6
_SIZES = {
    3: 5,
    4: 5,
    _LONG: 9,
    _DOUBLE: 9,
    7: 3,
    8: 3,
    9: 5,
    10: 5,
    11: 5,
    12: 5,
    15: 4,
    16: 3,
    17: 5,
    18: 5,
    19: 3,
    20: 3,
}
"""How many bytes the other constants of a class have (The Java Virtual Machine Specification, chapter 4.4)."""


def relocate_class(content: bytes, package: str, target: str) -> bytes:
    """Return a class whose constants name ``target`` in place of ``package``."""
    names = [(package.replace(".", "/"), target.replace(".", "/")), (package, target)]
    (count,) = struct.unpack_from(">H", content, 8)
    parts, at, number = [content[:10]], 10, 1
    while number < count:
        tag = content[at]
        if tag == _TEXT:
            (length,) = struct.unpack_from(">H", content, at + 1)
            text = content[at + 3 : at + 3 + length]
            for old, new in names:
                text = text.replace(old.encode(), new.encode())
            parts.append(struct.pack(">BH", _TEXT, len(text)) + text)
            at += 3 + length
        else:
            parts.append(content[at : at + _SIZES[tag]])
            at += _SIZES[tag]
        # A long or double takes two numbers.
        number += 2 if tag in (_LONG, _DOUBLE) else 1
    return b"".join([*parts, content[at:]])


def relocate_jars(jars: Iterable[Path], target_jar: Path, package: str, target: str) -> None:
    """Write the classes of a package in ``jars`` into one jar, as classes of the package ``target``."""
    folder = package.replace(".", "/")
    with zipfile.ZipFile(target_jar, "w") as written:
        for jar in jars:
            with zipfile.ZipFile(jar) as read:
                for entry in read.infolist():
                    if entry.filename.startswith(folder) and entry.filename.endswith(".class"):
                        name = target.replace(".", "/") + entry.filename.removeprefix(folder)
                        written.writestr(name, relocate_class(read.read(entry), package, target))
