"""The rows of tables and links as other engines read them: from their files, without Spark."""

from __future__ import annotations

from urllib.parse import urlparse

from pyarrow import orc

from airflow_hivex.core import Session


def rows_of(session: Session, name: str) -> list[tuple[object, ...]]:
    """The rows that were inserted and not changed, with the values of their partitions behind them, sorted."""
    found = session.snapshot_files(name)
    rows: list[tuple[object, ...]] = []
    for file in found.files:
        table = orc.read_table(urlparse(file.uri).path)
        names = [column for column in table.column_names if not column.startswith("__")]
        values = zip(*(table.column(column).to_pylist() for column in names), strict=True)
        rows += [(*row, *file.partition.values()) for row in values]
    return sorted(rows, key=repr)
