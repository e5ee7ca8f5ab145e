"""Sizes in bytes as people read them."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


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
