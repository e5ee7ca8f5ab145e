"""A table on disk that plans write to and read from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core.job.values import write_rows
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult, Plan, Scan, ScanPart, Write, WrittenDirectory
from airflow_hivex.core.parser.statements import Literal
from airflow_hivex.core.runners.registry import Runner, runner_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TAGS = itertools.count()


@dataclass
class TableOnDisk:
    """A transactional table without a catalog: it remembers what was written to it."""

    runner: Runner
    root: Path
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    write_id: int = 0
    directories: list[WrittenDirectory] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        return str(self.options.get("layout", "flat"))

    def write(self, **changes: Any) -> Write:
        self.write_id += 1
        made = Write(f"file://{self.root}", "db.t", self.columns, self.partition_columns, self.write_id, **self.options)
        return replace(made, **changes)

    def insert(self, sql: str, scans: Sequence[Scan] = (), **changes: Any) -> tuple[WrittenDirectory, ...]:
        """Run an INSERT of the query's rows."""
        parameters = changes.pop("parameters", {})
        conf = changes.pop("spark_conf", {})
        values = changes.pop("values", None)
        plan = Plan(
            f"tag{next(_TAGS)}",
            "insert",
            sql,
            tuple(scans),
            write=self.write(**changes),
            parameters=parameters,
            spark_conf=conf,
            values=values,
        )
        written = self.runner.run(plan, "c1").directories
        self.directories += written
        return written

    def insert_values(self, *rows: Sequence[Literal], **changes: Any) -> tuple[WrittenDirectory, ...] | None:
        """Write constants without Spark; None when it cannot."""
        result = write_rows(self.write(**changes), rows)
        if result is None:
            return None
        self.directories += result.directories
        return result.directories

    def scan(self, view: str = "t", **changes: Any) -> Scan:
        """All directories written so far, as one scan."""
        paths = tuple(
            f"file://{self.root}/{directory.partition + '/' if directory.partition else ''}{directory.name}"
            for directory in self.directories
        )
        root = f"file://{self.root}"
        parts = (ScanPart(paths, root, self.layout),) if paths else ()
        made = Scan(view, "db.t", self.columns, self.partition_columns, "orc", root, parts, is_transactional=True)
        return replace(made, **changes)

    def select(self, sql: str = "SELECT * FROM t", **changes: Any) -> JobResult:
        """The rows of a query over the table, whose view is ``t``."""
        scans = changes.pop("scans", None) or (self.scan(),)
        return self.runner.run(Plan(f"tag{next(_TAGS)}", "select", sql, scans, **changes), "c1")

    def rows(self, sql: str = "SELECT * FROM t ORDER BY ALL", **changes: Any) -> list[tuple[object, ...]]:
        return list(self.select(sql, **changes).rows)

    def files(self) -> list[str]:
        """Every file below the table, hidden ones too."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def located(self, directory: WrittenDirectory) -> ScanPart:
        """A directory as that of a partition whose values do not stand in its path."""
        base = f"file://{self.root}/{directory.partition}"
        return ScanPart((f"{base}/{directory.name}",), base, self.layout, directory.values)


@pytest.fixture
def runner(spark: SparkSession) -> Runner:
    return runner_for(Cluster("c1", "file:///data/c1", "local[2]"))


@pytest.fixture
def table(runner: Runner, tmp_path: Path) -> Any:
    """Makes tables: ``table("a int, b string", partitioned="p string")``."""
    numbers = itertools.count()

    def make(columns: str, partitioned: str = "", **options: Any) -> TableOnDisk:
        root = tmp_path / f"t{next(numbers)}"
        return TableOnDisk(runner, root, parse(columns), parse(partitioned), options=options)

    return make


def parse(text: str) -> tuple[Column, ...]:
    """``a int; b string`` as columns."""
    return tuple(Column(*part.strip().split(" ", 1)) for part in text.split(";") if part.strip())
