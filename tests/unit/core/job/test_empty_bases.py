"""Empty bases: those of several partitions are written at once, and of a write that fails none is left."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow.fs as pafs
import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.job import storage
from airflow_hivex.core.job.new_directories import write_empty_bases
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Write

PARTITIONS = [(f"p={number}", (str(number),)) for number in range(40)]


def overwrite(root: Path) -> Write:
    return Write(
        path=root.as_uri(),
        table="default.t",
        columns=(Column("a", "int"),),
        partition_columns=(Column("p", "int"),),
        write_id=5,
        overwrite=True,
    )


class MeetingFileSystem(LocalFileSystem):
    """Files whose folders are made when four at once are asked for."""

    cachable = False
    meeting = Barrier(4)

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        self.meeting.wait(30)
        super().mkdir(path, create_parents, **options)


def test_bases_of_several_partitions_are_written_at_once(tmp_path: Path) -> None:
    root = tmp_path / "slow"
    slow = pafs.PyFileSystem(pafs.FSSpecHandler(MeetingFileSystem()))
    storage.use_for(root.as_uri(), lambda: slow)
    written = write_empty_bases(overwrite(root), PARTITIONS)
    assert [each.partition for each in written.directories] == sorted(name for name, _ in PARTITIONS)
    assert len(list(root.glob("p=*/base_0000005/_metadata_acid"))) == len(PARTITIONS)


def test_no_base_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    (tmp_path / "p=30").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"Nothing was written to default\.t"):
        write_empty_bases(overwrite(tmp_path), PARTITIONS)
    assert list(tmp_path.rglob("base_*")) == []
