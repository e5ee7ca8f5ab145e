"""The destinations of a query's rows: a handler, a file, or a table."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow_hivex.core.errors import InvalidOperationError, NoSuchTableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hivex.core.dbapi import ResultRows
    from airflow_hivex.core.session import Result
    from airflow_hivex.hooks.warehouse import WarehouseHook

Format = Literal["csv", "json", "jsonl", "parquet"]
Mode = Literal["overwrite", "append"]
_FORMATS = ("csv", "json", "jsonl", "parquet")
_MODES = ("overwrite", "append")


@dataclass(slots=True)
class QueryOutput:
    """The destination of the rows of the last statement.

    :param handler: a function that takes a cursor over the rows, and returns the result of the task
    :param path: a file, or the URI of an object, that gets the rows
    :param format: the format of the file
    :param table: a table that gets the rows. The rows do not pass through the worker
    :param mode: ``overwrite`` replaces the rows of the table, ``append`` keeps these rows
    """

    handler: Callable[[ResultRows], Any] | None = None
    path: str | None = None
    format: Format = "csv"
    table: str | None = None
    mode: Mode = "overwrite"

    def check(self) -> None:
        """Check the arguments of the constructor.

        :raises ValueError: an argument is not valid, or two arguments exclude each other
        """
        given = [name for name in ("handler", "path", "table") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError("Of handler, output_path and output_table only one can be given.")
        if self.handler is not None and not callable(self.handler):
            raise ValueError(f"handler is {self.handler!r}; it must be a function that takes a cursor")
        if self.format not in _FORMATS:
            raise ValueError(f"output_format is {self.format!r}; it must be one of {', '.join(_FORMATS)}")
        if self.mode not in _MODES:
            raise ValueError(f"output_mode is {self.mode!r}; it must be one of {', '.join(_MODES)}")

    @property
    def needs_rows(self) -> bool:
        """Return whether the worker must get all rows of the query."""
        return self.handler is not None or self.path is not None

    def rewritten(self, statements: list[str], hook: WarehouseHook, database: str | None) -> list[str]:
        """Return the statements. With a ``table``, the last statement is rewritten to write its rows to the table.

        :raises InvalidOperationError: the last statement is not a query
        :raises HivexError: the last statement or the name of the table has a syntax error
        """
        if self.table is None:
            return statements
        from airflow_hivex.core.parser.inspection import inspect
        from airflow_hivex.core.parser.reader import read_table_name

        name = read_table_name(self.table)
        query = statements[-1]
        if inspect(query)[0].kind != "SELECT":
            raise InvalidOperationError("output_table", self.table, "the last statement is not a query, which has rows")
        owner = name.database or database or hook.get_configuration().database
        try:
            hook.get_metastore().catalog.get_table(owner, name.name)
        except NoSuchTableError:
            return [*statements[:-1], f"CREATE TABLE {self.table} AS {query}"]
        words = "INSERT OVERWRITE TABLE" if self.mode == "overwrite" else "INSERT INTO"
        return [*statements[:-1], f"{words} {self.table} {query}"]

    def deliver(self, result: Result, described: dict[str, Any]) -> Any:
        """Return the result of the task: the handler's result, or ``described`` with the path of the written file."""
        from airflow_hivex.core.dbapi import ResultRows

        if self.handler is not None:
            return self.handler(ResultRows(result))
        if self.path is not None:
            write_rows(result, self.path, self.format)
            return described | {"rows": [], "output_path": self.path, "rows_read": len(result.rows)}
        return described


def write_rows(result: Result, path: str, format: Format) -> None:
    """Write the rows of a result to a local file or an object. Readers see the complete file or no file.

    :raises OSError: the file or object cannot be written
    """
    if format == "parquet":
        _write_parquet(result, path)
        return
    from airflow_hivex.core.model.json_values import json_rows

    with _opened(path) as file, open(file, "w", encoding="utf-8", newline="") as text:  # noqa: PTH123
        rows = json_rows(result.rows)
        if format == "csv":
            writer = csv.writer(text)
            writer.writerow(result.columns)
            writer.writerows([_csv_value(value) for value in row] for row in rows)
        elif format == "jsonl":
            text.writelines(json.dumps(dict(zip(result.columns, row, strict=True))) + "\n" for row in rows)
        else:
            json.dump([dict(zip(result.columns, row, strict=True)) for row in rows], text)


def _csv_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _write_parquet(result: Result, path: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = [pa.array([row[at] for row in result.rows]) for at in range(len(result.columns))]
    # A column of nulls has the type null, so that it is cast to string.
    typed = [column.cast(pa.string()) if pa.types.is_null(column.type) else column for column in columns]
    with _opened(path) as file:
        parquet.write_table(pa.Table.from_arrays(typed, names=_distinct(result.columns)), file)


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if names.index(name) == at else f"{name}_{at}" for at, name in enumerate(names)]


@contextmanager
def _opened(path: str) -> Iterator[str]:
    """Yield the path of a temporary local file. If the block succeeds, the file is moved to ``path``."""
    target = Path(path.removeprefix("file://"))
    is_remote = "://" in path and not path.startswith("file://")
    if not is_remote:
        target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".hivex-", dir=None if is_remote else target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield name
        if is_remote:
            _upload(temporary, path)
        else:
            temporary.chmod(0o644)
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _upload(file: Path, path: str) -> None:
    from airflow.sdk import ObjectStoragePath

    ObjectStoragePath(path).write_bytes(file.read_bytes())
