"""The original files of a scan, and how their rows are numbered; see ``originals``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_hivex.core.job.footers import row_counts
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.buckets import encode_bucket
from airflow_hivex.core.model.originals import number_files
from airflow_hivex.core.model.plans import OriginalFiles, ScanPart


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """One file: its rows have ids from ``first_row_id`` on in the bucket whose property is ``bucket``."""

    uri: str
    owner: tuple[str, int]
    bucket: int
    first_row_id: int
    rows: int


def files_of(format: str, part: ScanPart) -> list[OriginalFile]:
    """Return the original files of a part that have rows."""
    return [file for group in part.originals for file in _numbered(format, group) if file.rows]


def _numbered(format: str, group: OriginalFiles) -> list[OriginalFile]:
    root, files = group.place, group.files
    if group.folder is not None:
        root = f"{group.place}/{group.folder}"
        there = [(name, size) for name, size in place(root).files() if not name.startswith(("_", "."))]
        counts = row_counts(format, [(f"{root}/{name}", size) for name, size in there])
        files = tuple((name, rows) for (name, _), rows in zip(there, counts, strict=True))
    return [
        OriginalFile(
            f"{root}/{file.name}",
            (group.place, group.write_id),
            encode_bucket(file.bucket_id, group.statement_id),
            file.first_row_id,
            file.rows,
        )
        for file in number_files(files)
    ]


def plain_path(uri: str) -> str:
    """Return a URI as a key: Hadoop writes those of local files with one slash or three."""
    return re.sub(r"^file:/+", "/", uri)
