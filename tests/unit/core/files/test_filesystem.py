from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from airflow_hivex.core.errors import CopyAlteredError, FolderExpectedError, InvalidOperationError, StorageError
from airflow_hivex.core.errors.clusters import describe_failure
from airflow_hivex.core.files import local_copies
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.replication.copying import FileCopy, There, copy_files
from tests.object_store import ObjectStore


@pytest.fixture(params=["file", "memory", "s3a"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "file":
        return tmp_path.as_uri()
    if request.param == "memory":
        return f"memory://{tmp_path}"
    store: ObjectStore = request.getfixturevalue("object_store")
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{store.create_bucket()}/root"


def put(root: str, name: str, data: bytes) -> None:
    files = ClusterFiles(root)
    files.make_directory(name.rpartition("/")[0])
    files.write_text(name, data.decode())


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


def test_a_file_in_the_place_of_a_folder_is_not_taken_for_an_empty_one(root: str) -> None:
    put(root, "t", b"rows")
    files = ClusterFiles(root)
    for listed in (files.list_files, files.list_data_files, files.list_folders):
        with pytest.raises(FolderExpectedError, match="t is a file"):
            listed("t")
    assert files.list_loose_files("t") == [""]


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


def test_a_walk_finds_all_files_and_hidden_ones(root: str) -> None:
    files = ClusterFiles(root)
    for name in ("w/p=1/delta_1_1/_orc_acid_version", "w/.hidden", "w/p=1/delta_1_1/bucket_00000"):
        put(root, name, b"data")
    put(root, "ww/bucket_00000", b"another table")
    files.make_directory("w/empty")
    assert sorted(files.walk("w")) == [
        (".hidden", 4),
        ("p=1/delta_1_1/_orc_acid_version", 4),
        ("p=1/delta_1_1/bucket_00000", 4),
    ]
    assert list(files.walk("w/.hidden")) == [("", 4)]
    assert list(files.walk("nowhere")) == []


def test_a_walk_follows_links_as_readers_do(tmp_path: Path) -> None:
    put(tmp_path.as_uri(), "away/p=1/bucket_00000", b"data")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "p=1").symlink_to(tmp_path / "away" / "p=1")
    assert list(ClusterFiles(tmp_path.as_uri()).walk("t")) == [("p=1/bucket_00000", 4)]


def test_a_walk_takes_nothing_unreadable_for_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path.as_uri(), "t/p=1/bucket_00000", b"data")
    list_folder = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("p=1"):
            raise PermissionError(13, "Permission denied", path)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(StorageError, match="Permission denied"):
        list(ClusterFiles(tmp_path.as_uri()).walk("t"))


def test_directories_with_files_stay(root: str) -> None:
    files = ClusterFiles(root)
    put(root, "a/b/c/file", b"data")
    files.make_directory("a/b/empty")
    files.delete_empty_directories("a/b/empty", 3)
    files.delete_empty_directories("a/b/c", 3)
    assert files.list_files("a") == {"b/c/file": 4}


def test_a_copy_has_all_files(root: str) -> None:
    files = ClusterFiles(root)
    put(root, "a/b/c/file", b"data")
    put(root, "a/_marker", b"")
    files.copy_directory("a", "copies/z")
    assert dict(files.walk("copies/z")) == {"b/c/file": 4, "_marker": 0}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"keys": "x"}, "storage_options keys are not known"),
        ({"endpoint_url": "127.0.0.1:9000"}, "of the form http://host:port"),
        ({"endpoint_url": "http://127.0.0.1:9/path"}, "of the form http://host:port"),
        ({"connect_timeout": "soon"}, "its storage_options do not fit"),
    ],
)
def test_options_of_an_object_store_are_checked(options: dict[str, object], reason: str) -> None:
    with pytest.raises(StorageError, match=reason):
        ClusterFiles("s3a://bucket/root", options)


def test_a_bucket_is_not_made(object_store: ObjectStore) -> None:
    with pytest.raises(StorageError, match="there is no such bucket"):
        ClusterFiles("s3://nowhere/root", object_store.options).check_access()


def test_a_store_that_does_not_answer_is_a_clear_error() -> None:
    files = ClusterFiles(
        "s3://bucket/root", {"key": "k", "secret": "s-e-c-r-e-t", "endpoint_url": "http://127.0.0.1:9"}
    )
    with pytest.raises(StorageError, match="bucket/root") as raised:
        files.list_files("t")
    found = str(raised.value)
    assert "the object store at http://127.0.0.1:9 takes no connection; it was tried for " in found
    assert "Check that it runs, that this machine reaches it, and endpoint_url" in found
    assert "s-e-c-r-e-t" not in found


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 6, Could not",
            "has a name that this machine",
        ),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Time", "does not answer in time"),
        ("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 56, Failure", "cannot be reached"),
        (
            "When x: AWS Error SLOW_DOWN during ListObjectsV2 operation (3): Reduce",
            "is overloaded or fails .SLOW_DOWN.",
        ),
    ],
)
def test_failure_of_an_object_store_says_what_to_do(message: str, expected: str) -> None:
    found = describe_failure(OSError(message), "http://s3.example.com", 7.26)
    assert re.search(f"the object store at http://s3.example.com {expected}.*; it was tried for 7.3 s", found)
    assert re.search(r"repeat|Repeat", found)
    assert describe_failure(OSError("disk full"), "", 1) == "disk full"


def test_files_are_copied_between_clusters_and_verified(root: str, tmp_path: Path) -> None:
    source, target = ClusterFiles((tmp_path / "source").as_uri()), ClusterFiles(root)
    for name in ("a", "b"):
        source.write_chunks(f"t/{name}", [name.encode() * 3, b"", b"!"])
    files = [FileCopy("d.t", "c1", f"t/{name}", f"copy/t/{name}", 4, There.OWN) for name in ("a", "b")]
    target.write_chunks("copy/t/b", [b"bbb?"])
    first = copy_files(lambda _: source, target, "c2", files, Event(), threads=2, bytes_per_second=1_000)
    assert [b"".join(target.read_chunks(f"copy/t/{name}", 2)) for name in ("a", "b")] == [b"aaa!", b"bbb!"]
    assert first.checksums["copy/t/a"] == hashlib.sha256(b"aaa!").hexdigest()
    assert first.kept == frozenset()
    again = copy_files(lambda _: source, target, "c2", files, Event(), threads=2)
    assert again.kept == {"copy/t/a", "copy/t/b"}
    assert again.checksums == first.checksums
    assert dict(target.walk("copy")) == {"t/a": 4, "t/b": 4}
    assert target.size("copy/t") is None


@pytest.mark.parametrize("size", [0, 1, local_copies.SMALL, local_copies.SMALL + 1, (3 << 20) + 5])
def test_local_files_of_all_sizes_are_copied_whole(tmp_path: Path, size: int) -> None:
    files, content = ClusterFiles(tmp_path.as_uri()), os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    copy = FileCopy("d.t", "c1", "a", "copy/a", size)
    done = copy_files(lambda _: files, files, "c2", [copy], Event(), threads=2)
    assert (tmp_path / "copy" / "a").read_bytes() == content
    assert done.checksums == {"copy/a": hashlib.sha256(content).hexdigest()}


def test_many_small_files_of_several_folders_are_copied_whole(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path.as_uri())
    contents = {f"{number % 7}/{number}": os.urandom(number) for number in range(600)}
    for name, content in contents.items():
        files.write_chunks(f"t/{name}", [content])
    copies = [FileCopy("d.t", "c1", f"t/{name}", f"copy/{name}", len(each)) for name, each in contents.items()]
    # One is there already, and is wrong.
    files.write_chunks("copy/6/6", [b"other"])
    copies[6] = replace(copies[6], there=There.OWN)
    done = copy_files(lambda _: files, files, "c2", copies, Event(), threads=4)
    assert done.checksums == {f"copy/{name}": hashlib.sha256(each).hexdigest() for name, each in contents.items()}
    assert {name: (tmp_path / "copy" / name).read_bytes() for name in contents} == contents
    assert done.kept == frozenset()
    (tmp_path / "t/3/3").unlink()
    again = [replace(each, place=f"again/{each.place}", there=There.NOTHING) for each in copies]
    with pytest.raises(StorageError, match="t/3/3"):
        copy_files(lambda _: files, files, "c2", again, Event(), threads=4)


@pytest.mark.parametrize("size", [5, local_copies.SMALL + 7])
def test_a_source_of_another_size_and_a_file_in_the_way_are_refused(tmp_path: Path, size: int) -> None:
    files = ClusterFiles(tmp_path.as_uri())
    (tmp_path / "a").write_bytes(b"x" * size)

    def copy(expected: int, place: str, there: There = There.NOTHING) -> None:
        file = FileCopy("d.t", "c1", "a", place, expected, there)
        copy_files(lambda _: files, files, "c2", [file], Event(), threads=1)

    for expected in (size - 1, size + 1):
        with pytest.raises(CopyAlteredError, match="when it was listed"):
            copy(expected, "copy/a")
        assert not (tmp_path / "copy" / "a").exists()
    (tmp_path / "b").write_bytes(b"y" * size)
    for there in (There.NOTHING, There.SAME_SIZE):
        with pytest.raises(InvalidOperationError, match="is another file; move it away"):
            copy(size, "b", there)
    assert (tmp_path / "b").read_bytes() == b"y" * size
    copy(size, "b", There.OWN)
    assert (tmp_path / "b").read_bytes() == b"x" * size


@pytest.mark.parametrize("size", [5, local_copies.SMALL + 7])
@pytest.mark.parametrize("rate", [None, 10_000_000])
def test_a_file_that_a_late_task_has_copied_meanwhile_is_kept(tmp_path: Path, size: int, rate: int | None) -> None:
    files = ClusterFiles(tmp_path.as_uri())
    for name in ("a", "b", "c"):
        files.write_chunks(f"t/{name}", [name.encode() * size])
    # It came after the caller had looked.
    files.write_chunks("copy/b", [b"b" * size])
    copies = [FileCopy("d.t", "c1", f"t/{name}", f"copy/{name}", size) for name in ("a", "b", "c")]
    done = copy_files(lambda _: files, files, "c2", copies, Event(), threads=1, bytes_per_second=rate)
    assert "copy/b" in done.kept
    assert done.checksums == {f"copy/{name}": hashlib.sha256(name.encode() * size).hexdigest() for name in "abc"}
    assert dict(files.walk("copy")) == dict.fromkeys("abc", size)


def test_a_copy_is_not_faster_than_its_rate(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path.as_uri())
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 150_000)
    copies = [FileCopy("d.t", "c1", name, f"copy/{name}", 150_000) for name in ("a", "b")]
    began = time.monotonic()
    copy_files(lambda _: files, files, "c2", copies, Event(), threads=2, bytes_per_second=300_000)
    # What is on its way at the end need not be waited for: a piece of each thread.
    assert time.monotonic() - began > 0.5


def test_a_folder_is_walked_with_links_and_without_what_goes_away(tmp_path: Path) -> None:
    files = ClusterFiles((tmp_path / "root").as_uri())
    (tmp_path / "root" / "t" / "p=1").mkdir(parents=True)
    (tmp_path / "root" / "t" / "p=1" / "a").write_text("aaa")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b").write_text("bb")
    (tmp_path / "root" / "t" / "p=2").symlink_to(tmp_path / "other")
    (tmp_path / "root" / "t" / "gone").symlink_to(tmp_path / "nothing")
    assert dict(files.walk("t")) == {"p=1/a": 3, "p=2/b": 2, "gone": 0}
    assert dict(files.walk("t/p=1/a")) == {"": 3}
    assert dict(files.walk("nothing")) == {}


def test_a_failed_write_leaves_no_part(root: str) -> None:
    def broken() -> Iterator[bytes]:
        yield b"a part"
        raise StorageError("elsewhere", "the source has gone")

    files = ClusterFiles(root)
    with pytest.raises(StorageError, match="the source has gone"):
        files.write_chunks("t/a", broken())
    assert files.size("t/a") is None
    assert list(files.walk("t")) == []
