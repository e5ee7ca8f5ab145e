"""What lies in the clusters' file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.clusters.roots import MARKER

if TYPE_CHECKING:
    from pathlib import Path


def data_files(root: Path) -> list[str]:
    """Names below ``root`` of all files in clusters' file systems, without the markers of their roots."""
    found = (path for path in root.glob("c?/**/*") if path.is_file() and path.name != MARKER)
    return sorted(str(path.relative_to(root)) for path in found)
