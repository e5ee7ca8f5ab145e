from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.job.values import write_rows
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.parser.statements import Literal


def test_a_write_that_storage_refuses_is_a_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "p=2").write_text("a file where a directory has to be")
    write = Write(f"file://{tmp_path}", "db.t", (Column("a", "int"),), (Column("p", "int"),), 1)
    with pytest.raises(StorageError, match=r"p=2.*Nothing was written to db\.t"):
        write_rows(write, [[Literal(1, "int"), Literal(1, "int")], [Literal(1, "int"), Literal(2, "int")]])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["p=2"]
