"""Sizes in bytes as people read them."""

from __future__ import annotations

import re

from airflow_hivex.core.errors import InvalidParametersError

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_SIZE = re.compile(r"([0-9]{1,18})(\.[0-9]{1,6})?\s*([KMGTP]?)(I?)B?", re.IGNORECASE)
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
        InvalidParametersError: it is not a size, or not one that can be stored.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[4] and not found[3]):
        raise InvalidParametersError(
            f"{text!r} is not a valid size; write a number of bytes, or such as '10 GB' or '1.5 TiB'."
        )
    power = "KMGTP".find(found[3].upper()) + 1 if found[3] else 0
    unit: int = (1024 if found[4] else 1000) ** power
    digits = found[2] or ""
    size = int(found[1]) * unit + (int(digits[1:]) * unit // 10 ** (len(digits) - 1) if digits else 0)
    if not 0 < size <= _LARGEST:
        raise InvalidParametersError(f"{text!r} is not a valid size; it is from 1 to {_LARGEST} bytes.")
    return size
