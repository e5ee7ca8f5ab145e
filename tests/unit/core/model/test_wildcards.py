"""Patterns with wildcards match as they should, and take no time that a client could make long."""

from __future__ import annotations

import re
import time

import pytest

from airflow_hivex.core.model.predicates import (
    ColumnReference,
    Like,
    Truth,
    evaluate,
    name_expression,
    wildcard_expression,
)

NAMES = ["orders", "orders_2025", "orders_2026", "items", "Items_x"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", NAMES),
        (".*", NAMES),
        ("%", NAMES),
        ("**", NAMES),
        ("orders", ["orders"]),
        ("ORDERS_*", ["orders_2025", "orders_2026"]),
        ("orders_202.", ["orders_2025", "orders_2026"]),
        ("*_*6", ["orders_2026"]),
        ("*s|*x", ["orders", "items", "Items_x"]),
        ("*e*e*", []),
        ("*r*r*", ["orders", "orders_2025", "orders_2026"]),
        ("", []),
        ("order", []),
        ("(o+)+", []),
    ],
)
def test_pattern_of_names_matches_as_in_hive(pattern: str, found: list[str]) -> None:
    expression = name_expression(pattern)
    assert [name for name in NAMES if expression.fullmatch(name)] == found


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_pattern_matches_as_one_that_tries_everything(number: int) -> None:
    texts = ["", "a", "b", "ab", "ba", "aab", "abab", "abba", "babab", "aabbaab"]
    literals = ["", "a", "b", "ab", "ba", "."]
    parts: list[list[str | None]] = [[each] for each in literals]
    for _ in range(number):
        parts = [[*known, None, each] for known in parts for each in literals]
    for each in parts:
        plain = re.compile("".join(".*" if part is None else part for part in each))
        fast = re.compile(wildcard_expression(each))
        assert [bool(fast.fullmatch(text)) for text in texts] == [bool(plain.fullmatch(text)) for text in texts]


def test_many_wildcards_take_little_time() -> None:
    began = time.process_time()
    assert name_expression("*a" * 1000 + "*x").fullmatch("a" * 5000) is None
    assert name_expression("*" * 5000 + "x").fullmatch("a" * 5000) is None
    value = "0" * 2000
    assert evaluate(Like(ColumnReference("k"), "%0" * 30 + "%x"), {"k": value}) is Truth.NO
    assert evaluate(Like(ColumnReference("k"), "%" * 300 + "x"), {"k": value}) is Truth.NO
    # One of them took longer than the age of the universe.
    assert time.process_time() - began < 5
