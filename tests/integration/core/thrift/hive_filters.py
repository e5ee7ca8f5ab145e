"""Filters on partitions that run on any Hive Metastore, and return the values that each of them leaves."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from hive_metastore import ttypes

from tests.hive_endpoint import partition, table

_NULL = "__HIVE_DEFAULT_PARTITION__"
VALUES = {
    "string": (
        "a",
        "b",
        "ab",
        "a_b",
        "a%b",
        "a.b",
        "axb",
        "a\\b",
        "it's",
        "A",
        "a b",
        "1",
        "01",
        "10",
        "2020-01-02",
        _NULL,
    ),
    "int": ("1", "2", "10", "-3", _NULL),
    "date": ("2019-12-31", "2020-01-01", "2020-01-02", _NULL),
}
_LITERALS = {
    "string": ("'a'", '"a"', "'1'", "'01'", '"it\'s"', "'a\\b'", "''", "2020-01-02", "'__HIVE_DEFAULT_PARTITION__'"),
    "int": ("1", "-3", "01", "7"),
    "date": ("2020-01-01", "'2020-01-01'", '"2020-01-01"', "'2020-1-2'", "'2020-01-02 03:04:05'"),
}
_FORMS = (
    *("p = {}", "p != {}", "p <> {}", "p < {}", "p <= {}", "p > {}", "p >= {}"),
    *("{} = p", "{} != p", "{} < p", "{} >= p", "(p = {})"),
    *("(p) in ({})", "(p) not in ({})", "p between {} and {}", "p not between {} and {}"),
)
_TWO = (
    "(p) in ({}, {})",
    "(p) not in ({}, {})",
    "p between {} and {}",
    "p = {} or p = {}",
    "p >= {} and q = '1' or p = {}",
)
_PATTERNS = (
    *("a", "a.*", ".*b", ".*", "a.b", "a\\.b", "a..", ".*.", "a.*b", ".", "..", "a%", "%b", "a_b", "[0-9]+", "(a|b)"),
    *("a?", "^a.*", "a$", "A.*", "1|01", "a.*.*", "*", "a+"),
)
_OTHERS = {
    "string": (
        *("", "((p = 'a') or (p = 'b')) and q = '1'", "p = 'a' or p = 'b' and q = '2'", "p > 'a' and p < 'b'"),
        *("p='a' OR P='b'", "(struct(p,q)) in (const struct('a','1'), const struct('b','2'))"),
        *("nope = '1'", "p = 'a' and nope = '1'", "p = 'a' or nope = '1'", "id = 1", "(nope) in ('1')"),
        *("'a' like p", "p = 'a' and", "p = q", "1 = 1", "lower(p) = 'a'", "p is null", "p = 'a';", "nope like 'a'"),
    ),
    "int": ("p >= 1 and p < 10", "p > 1 and p < 10", "p = 'one'", "p = 1 and nope = 2"),
    "date": ("p > 2019-12-31 and p < 2020-01-02", "p = '2020-02-30'", "p = 'today'"),
}


def filters(of: str) -> list[str]:
    """Return the filters on a key ``p`` of a type."""
    literals = _LITERALS[of]
    alone = [form.replace("{}", literal) for form, literal in product(_FORMS, literals)]
    two = [form.format(*pair) for form, pair in product(_TWO, product(literals[:4], literals[:4]))]
    like = [f"p like '{pattern}'" for pattern in _PATTERNS] if of == "string" else []
    return [*alone, *two, *like, *_OTHERS[of]]


def make_tables(client: Any, folder: Path) -> None:
    """Create a table with partitions for each type."""
    client.create_database(ttypes.Database("d", None, str(folder), {}))
    for of, values in VALUES.items():
        given = {"tableType": "EXTERNAL_TABLE", "parameters": {"EXTERNAL": "TRUE"}}
        client.create_table(table("d", of, keys={"p": of, "q": "string"}, **given))
        client.add_partitions([partition("d", of, value, "1") for value in values])


def answers(client: Any) -> list[tuple[str, str, list[str] | str]]:
    """Return the values that each filter leaves, or the name of an exception."""
    found: list[tuple[str, str, list[str] | str]] = []
    for of in VALUES:
        for text in filters(of):
            try:
                left = client.get_partitions_by_filter("d", of, text, -1)
                found.append((of, text, sorted(each.values[0] for each in left)))
            except ttypes.MetaException as error:
                found.append((of, text, type(error).__name__))
    return found
