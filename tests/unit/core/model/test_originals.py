"""How the rows of original files are numbered, from their names."""

from __future__ import annotations

import pytest

from airflow_hivex.core.model.row_ids import hive_bucket, number_files


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("000000_0", 0),
        ("000012_3", 12),
        ("7_0", 7),
        ("000001_0_copy_12", 1),
        ("HIVE_UNION_SUBDIR_1/000002_0", 2),
        ("004095_0", 4095),
        # It fits no bucket property.
        ("004096_0", None),
        ("part-00000-aa.snappy.orc", None),
        ("000000_0.orc", None),
        ("bucket_00000", None),
        ("000000", None),
    ],
)
def test_only_names_of_hives_form_say_their_bucket(name: str, bucket: int | None) -> None:
    assert hive_bucket(name) == bucket


def numbered(*files: tuple[str, int]) -> list[tuple[str, int, int]]:
    return [(file.name, file.bucket_id, file.first_row_id) for file in number_files(files)]


def test_a_buckets_files_are_numbered_one_after_the_other_in_name_order() -> None:
    # As text, so that copy_10 comes before copy_2, and a sub-directory's files by their whole path.
    assert numbered(
        ("sub/000000_0", 1), ("000001_0", 5), ("000000_0_copy_2", 3), ("000000_0_copy_10", 4), ("000000_0", 2)
    ) == [
        ("000000_0", 0, 0),
        ("000000_0_copy_10", 0, 2),
        ("000000_0_copy_2", 0, 6),
        ("000001_0", 1, 0),
        ("sub/000000_0", 0, 9),
    ]


def test_other_names_are_buckets_of_their_own_behind_those_of_hives_files() -> None:
    assert numbered(("part-1", 3), ("a-file", 7), ("000000_0", 10), ("000002_0", 1)) == [
        ("000000_0", 0, 0),
        ("000002_0", 2, 0),
        ("a-file", 0, 10),
        ("part-1", 1, 0),
    ]


def test_no_two_rows_have_one_id_however_many_files_there_are() -> None:
    files = [(f"part-{i:05d}", 1 + i % 3) for i in range(9000)] + [("005000_0", 2), ("000007_0", 4)]
    ids = {(file.bucket_id, file.first_row_id + row) for file in number_files(files) for row in range(file.rows)}
    assert len(ids) == sum(rows for _, rows in files)
    assert max(bucket for bucket, _ in ids) == 4095


def test_names_are_compared_as_java_does() -> None:
    # U+1F600 is two units from U+D800 on, below U+FF01.
    assert [name for name, _, _ in numbered(("\uff01", 1), ("\U0001f600", 1))] == ["\U0001f600", "\uff01"]
