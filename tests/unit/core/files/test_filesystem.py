from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from airflow_hivex.core.errors import InvalidOperationError, StorageError
from airflow_hivex.core.files.filesystem import ClusterFiles


@pytest.fixture(params=["file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return tmp_path.as_uri()
    return f"memory://{tmp_path}"


def put(root: str, name: str, data: bytes) -> None:
    filesystem, path = fsspec.core.url_to_fs(f"{root}/{name}")
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(path, data)


def test_data_files_are_listed_and_hidden_ones_are_not(root: str) -> None:
    for name in (
        "t/p=a%2Fb/delta_1_1/bucket_00000",
        "t/p=a%2Fb/delta_1_1/.bucket_00000.crc",
        "t/p=a%2Fb/delta_1_1/_orc_acid_version",
        "t/_staging_1_0/part-00000",
        "t/_p=1/base_1/bucket_00001",
    ):
        put(root, name, b"data")
    put(root, "tt/bucket_00000", b"another table")
    assert ClusterFiles(root).list_files("t") == {
        "_p=1/base_1/bucket_00001": 4,
        "p=a%2Fb/delta_1_1/bucket_00000": 4,
    }


def test_a_location_that_is_not_there_has_no_files(root: str) -> None:
    assert ClusterFiles(root).list_files("nowhere") == {}
    assert not ClusterFiles(root).exists("nowhere")


def test_deleting_is_complete_and_may_be_repeated(root: str) -> None:
    files = ClusterFiles(root)
    put(root, "d/t/x/bucket_00000", b"1")
    put(root, "d/u/bucket_00000", b"1")
    files.delete_directory("d/t")
    files.delete_directory("d/t")
    assert not files.exists("d/t")
    assert files.exists("d/u")


def test_a_directory_can_be_made_twice(root: str) -> None:
    files = ClusterFiles(root)
    files.make_directory("a/b")
    files.make_directory("a/b")
    assert files.exists("a/b")


@pytest.mark.parametrize("location", ["", "/", ".", "a/../.."])
def test_the_root_and_what_is_above_it_cannot_be_deleted(root: str, location: str) -> None:
    with pytest.raises(InvalidOperationError):
        ClusterFiles(root).delete_directory(location)


def test_an_unknown_file_system_is_a_clear_error() -> None:
    with pytest.raises(StorageError, match="nosuch"):
        ClusterFiles("nosuch://x/y")
