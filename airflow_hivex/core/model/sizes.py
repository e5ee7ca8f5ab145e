"""Sizes in bytes as texts with units."""

from __future__ import annotations

import re

from airflow_hivex.core.errors import InvalidParametersError

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_SIZE = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,6}))?[ \t]*(B|[KMGTP]I?B?)?", re.IGNORECASE | re.ASCII)
_LARGEST = 2**63 - 1


def shown_size(size_bytes: int) -> str:
    """Return a size with its unit, such as ``1.5 GiB``."""
    if size_bytes < _STEP:
        return f"{size_bytes} B"
    size = size_bytes / _STEP
    for unit in _UNITS[:-1]:
        if size < _STEP:
            return f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} {_UNITS[-1]}"


def size_of(text: str) -> int:
    """Return the number of bytes of a text such as ``1000``, ``10 GB`` (10**10) or ``1.5 TiB`` (1.5 * 2**40).

    Raises:
        InvalidParametersError: the text is not a valid size, or the size is not a whole number of bytes or is too
            large.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidParametersError(
            f"{text!r} is not a valid size; write a number of bytes, or such as '10 GB' or '1.5 TiB'."
        )
    whole, fraction, unit = found[1], found[2] or "", (found[3] or "").upper()
    power = "BKMGTP".index(unit[:1] or "B")
    bytes_of_unit: int = (_STEP if unit[1:2] == "I" else 1000) ** power
    size: int
    size, rest = divmod(int(whole + fraction) * bytes_of_unit, 10 ** len(fraction))
    if rest:
        raise InvalidParametersError(
            f"{text!r} is not a valid size, as it is not a whole number of bytes; a fraction needs a unit, such as "
            f"'{whole}.{fraction} GB'."
        )
    if not 0 < size <= _LARGEST:
        raise InvalidParametersError(f"{text!r} is not a valid size; it is from 1 to {_LARGEST} bytes.")
    return size
