from __future__ import annotations

import uuid
from datetime import time
from typing import Any

import pytest

from airflow_hivex.core import dbapi
from airflow_hivex.core.dbapi.binding import bind, join_rows, plain
from airflow_hivex.core.dbapi.cursor import describe


@pytest.mark.parametrize("parameters", [None, (), []])
def test_statement_without_parameters_is_left_alone(parameters: Any) -> None:
    assert bind("SELECT '?' AS a -- ?", parameters) == ("SELECT '?' AS a -- ?", None)


def test_values_of_a_mapping_keep_their_names() -> None:
    assert bind("SELECT :a", {"a": 1}) == ("SELECT :a", {"a": 1})


def test_question_marks_outside_of_strings_and_comments_take_the_values_in_order() -> None:
    text, values = bind("SELECT ?, '?', `?` /* ? */ FROM t WHERE a = ? -- ?", (1, "x"))
    assert text == "SELECT :p1, '?', `?` /* ? */ FROM t WHERE a = :p2 -- ?"
    assert values == {"p1": 1, "p2": "x"}


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [((1,), "2 markers"), ((1, 2, 3), "3 values"), ("ab", "a str"), ({1, 2}, "a set"), (7, "a int")],
)
def test_parameters_that_do_not_fit_are_refused(parameters: Any, reason: str) -> None:
    with pytest.raises(dbapi.ProgrammingError, match=reason):
        bind("SELECT ?, ?", parameters)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (time(5, 30), "05:30:00"),
        (memoryview(b"ab"), b"ab"),
        (None, None),
        ("x", "x"),
    ],
)
def test_values_of_other_libraries_become_those_that_statements_take(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_numbers_of_numpy_become_plain_numbers() -> None:
    import numpy as np

    found = plain(np.int64(7))
    assert found == 7
    assert type(found) is int


def test_sets_of_an_insert_are_joined_to_one_statement() -> None:
    (joined,) = join_rows("INSERT INTO t (a, b) VALUES (?, concat(?, ')'));", [(1, "x"), (2, "y")])
    assert joined == (
        "INSERT INTO t (a, b) VALUES (:r0p1, concat(:r0p2, ')')), (:r1p1, concat(:r1p2, ')'));",
        {"r0p1": 1, "r0p2": "x", "r1p1": 2, "r1p2": "y"},
    )
    (named,) = join_rows("INSERT INTO t VALUES (:a, :b, 'x:y')", [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert named == (
        "INSERT INTO t VALUES (:r0a, :r0b, 'x:y'), (:r1a, :r1b, 'x:y')",
        {"r0a": 1, "r0b": 2, "r1a": 3, "r1b": 4},
    )


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET a = ? WHERE b = ?",
        "INSERT INTO t SELECT ?, ?",
        "INSERT INTO t VALUES (?, 1), (?, 2)",
        "INSERT OVERWRITE t VALUES (?, ?)",
        "INSERT INTO t PARTITION (ds = ?) VALUES (?)",
        "INSERT INTO t SELECT * FROM VALUES (?, ?) AS v",
    ],
)
def test_all_other_statements_are_executed_once_for_each_set(text: str) -> None:
    assert len(join_rows(text, [(1, 2), (3, 4)])) == 2


def test_joined_inserts_have_a_limited_size() -> None:
    assert len(join_rows("INSERT INTO t VALUES (?)", [(n,) for n in range(20_001)])) == 2
    assert join_rows("INSERT INTO t VALUES (?)", []) == []


def test_descriptions_have_spark_types_and_compare_with_the_types_of_pep_249() -> None:
    found = describe(["a", "b", "c"], ["decimal(10,2)", "string", "timestamp"], [])
    assert found[0] == ("a", "decimal(10,2)", None, None, 10, 2, None)
    assert [column[1] for column in found] == [dbapi.NUMBER, dbapi.STRING, dbapi.DATETIME]
    assert found[1][1] != dbapi.NUMBER
    assert dbapi.NUMBER == dbapi.NUMBER
    assert dbapi.NUMBER != dbapi.STRING


def test_without_types_the_first_value_decides_the_type() -> None:
    found = describe(["a", "b", "c"], [], [(None, "x", None), (1, "y", None)])
    assert [column[1] for column in found] == ["bigint", "string", "string"]
