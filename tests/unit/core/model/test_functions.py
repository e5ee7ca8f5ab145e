"""Values that are certain; all functions are compared with Spark in the acceptance tests."""

from __future__ import annotations

from datetime import date

import pytest

from airflow_hivex.core.model.expressions import Typed, UndecidedError, Value
from airflow_hivex.core.model.functions import SYNONYMS, call


def typed(value: Value) -> Typed:
    kind = {str: "string", int: "int", date: "date", bool: "boolean", type(None): "string"}[type(value)]
    return Typed(value, kind)


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        ("year", ["2013-01-31"], 2013),
        ("year", [date(2013, 1, 31)], 2013),
        ("year", [None], None),
        ("dayofweek", [date(2013, 1, 6)], 1),
        ("weekofyear", [date(2018, 12, 31)], 1),
        ("substring", ["2013-01-31", 1, 7], "2013-01"),
        ("substring", ["abc", -5, 3], "a"),
        ("right", ["abc", 0], ""),
        ("lpad", [7, 2, "0"], "07"),
        ("concat", [2013, "-", None], None),
        ("concat_ws", ["-", 2013, None, "a"], "2013-a"),
        ("add_months", [date(2013, 1, 31), 1], date(2013, 2, 28)),
        ("add_months", [date(2013, 2, 28), -12], date(2012, 2, 28)),
        ("trunc", [date(2013, 5, 5), "quarter"], date(2013, 4, 1)),
        ("to_date", ["20130131", "yyyyMMdd"], date(2013, 1, 31)),
        ("to_date", ["2013-02", "yyyy-MM"], date(2013, 2, 1)),
        ("date_format", ["2013-01-31", "yyyy/MM"], "2013/01"),
        ("mod", [-7, 3], -1),
        ("pmod", [-7, 3], 2),
        ("div", [-7, 2], -3),
        ("cast int", ["007"], 7),
        ("cast string", [True], "true"),
        ("cast date", ["2013-01-31"], date(2013, 1, 31)),
        ("coalesce", [None, "x"], "x"),
        ("+", [date(2013, 1, 31), 1], date(2013, 2, 1)),
    ],
)
def test_value(function: str, arguments: list[Value], value: Value) -> None:
    assert call(function, [typed(argument) for argument in arguments]).value == value


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("year", ["2013-1-31"]),
        ("year", ["2013-02-30"]),
        ("year", ["20130131"]),
        ("upper", ["ä"]),
        ("cast int", ["7.5"]),
        ("cast int", [" 7"]),
        ("cast int", ["2147483648"]),
        ("cast date", ["2013"]),
        ("+", [2**31 - 1, 1]),
        ("+", ["1", 1]),
        ("div", [1, 0]),
        ("mod", [1, 0]),
        ("date_add", [date(9999, 12, 31), 1]),
        ("date_format", ["2013-01-31", "yyyy-MM-dd HH"]),
        ("date_format", ["2011-12-30", "yyyy"]),
        ("date_format", ["1582-10-10", "yyyy"]),
        ("to_date", ["2013-1-1", "yyyy-MM-dd"]),
        ("to_date", ["31.01.", "dd.MM."]),
        ("trunc", [date(2013, 1, 1), "century"]),
        ("split_part", ["a-b", "-", 0]),
        ("substring_index", ["aaa", "aa", 1]),
        ("coalesce", [1, "x"]),
        ("lpad", ["a", 2**31 - 1, "x"]),
        ("datediff", ["no date", None]),
        ("+", [None, "no number"]),
        ("year", []),
    ],
)
def test_what_depends_on_settings_or_may_be_an_error_is_undecided(function: str, arguments: list[Value]) -> None:
    with pytest.raises(UndecidedError):
        call(function, [typed(argument) for argument in arguments])


def test_whole_numbers_overflow_by_their_types() -> None:
    assert call("+", [Typed(100, "tinyint"), Typed(100, "smallint")]).type == "smallint"
    with pytest.raises(UndecidedError):
        call("+", [Typed(100, "tinyint"), Typed(100, "tinyint")])


def test_every_name_is_that_of_a_function() -> None:
    for name in set(SYNONYMS.values()):
        with pytest.raises(UndecidedError):
            call(name, [])
