from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from airflow_hivex.core.catalog.partition_rows import stored_values
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.predicates import Truth, evaluate, typed
from airflow_hivex.core.thrift.filter_conditions import decide_filter
from airflow_hivex.core.thrift.partition_filter import InvalidFilterError
from tests import evidence

KEYS = [
    *(Column("ds", "string"), Column("hr", "int"), Column("dt", "date"), Column("name", "string")),
    *(Column("at", "timestamp"), Column("share", "decimal(5,2)"), Column("ratio", "double"), Column("single", "float")),
    *(Column("flag", "boolean"), Column("code", "char(4)"), Column("short", "varchar(5)"), Column("date", "string")),
]
ROW = ("2026-01-02", "3", "2026-01-02", 'a"b', "2026-01-02 03:04:05.5", "1.50", "2.5", "0.1", "true", "ab  ", "b", "x")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('ds = "2026-01-02"', True),
        ("ds='2026-01-02'", True),
        ("ds = 2026-01-02", True),
        ('"2026-01-01" < ds', True),
        ('ds != "2026-01-02"', False),
        ("ds <> '2026-01-03' AND Hr >= 3", True),
        ("hr >= 1 and hr <= 2", False),
        ('(ds = "x" or hr = 3)', True),
        ('(ds) in ("2026-01-02", "x")', True),
        ("ds in ('2026-01-02')", True),
        ("(hr) in (1, 2, 3)", True),
        ("(hr) not in (1, 2, 3)", False),
        ("not (hr = 3)", False),
        ("not not hr = 3", True),
        ("hr between 2 and 4", True),
        ("hr not between 2 and 4", False),
        ("hr = '3'", True),
        ("'3' = hr", True),
        ("hr = 03", True),
        ("hr < 3.5", True),
        ("hr = 99999999999999999999", False),
        ("hr like '3'", True),
        ('ds like ".*-02"', True),
        ('ds like "2025.*"', False),
        ('ds like "....-01-02"', True),
        ('ds like "[0-9]+"', False),
        ("ds not like '2025.*'", True),
        ("dt like '2026-.*'", True),
        ('dt = "2026-01-02"', True),
        ("dt = 2026-01-02", True),
        ("dt = '2026-1-2'", True),
        ("dt in (2026-01-01, date '2026-01-02')", True),
        ('dt < "2026-01-02"', False),
        ("dt = date '2026-01-02'", True),
        ("DATE 2026-01-02 = dt", True),
        ("dt between 2026-01-01 and 2026-01-02", True),
        ("at > 2026-01-02", True),
        ("at = timestamp '2026-01-02 03:04:05.500'", True),
        ("at = '2026-01-02T03:04:05.5'", True),
        ("at < '2026-01-02 03:04:05.500001'", True),
        ("share = 1.5", True),
        ("share = '1.500'", True),
        ("share > 1.49999999999999999999", True),
        ("ratio = 2.5", True),
        ("ratio < '25e-1'", False),
        ("ratio < 'NaN'", True),
        ("single = 0.1", True),
        ("flag = true", True),
        ("true = flag", True),
        ("flag = 'FALSE'", False),
        ("code = 'ab'", True),
        ("code < 'ab'", False),
        ("short = 'b'", True),
        ("short > 'a' and short < 'c'", True),
        ("date = 'x'", True),
        ("(date) in ('x')", True),
        ("`ds` = '2026-01-02'", True),
        ("name = 'a\"b'", True),
        ("hr = -3", False),
        ("hr = 1 or hr = 3", True),
        ("hr = 1 or hr = 2", False),
        ('hr = 1 or ds = "x" or hr = 2 or ds = "2026-01-02"', True),
        ('hr = 1 or hr = "3"', True),
        ("(hr = 1 or hr = 2) and hr = 3", False),
        ("not (hr = 1 or hr = 3)", False),
        ('dt = "2026-01-01" or dt = "2026-01-02"', True),
        ("(hr, short) in ((1, 'b'), (3, 'b'))", True),
        ("(struct(hr, short)) not in (const struct(3, 'b'))", False),
        ("", True),
    ],
)
def test_filter_holds_as_hive_and_spark_mean_it(text: str, holds: bool) -> None:
    found = decide_filter(text, KEYS)
    assert found.holds(ROW) is holds
    values = {key.name: typed(value, key.parsed_type) for key, value in zip(KEYS, ROW, strict=True)}
    assert not holds or evaluate(found.superset, values) in (Truth.YES, Truth.MAYBE)


def test_null_satisfies_no_condition_but_those_on_the_text_of_its_folder() -> None:
    keys = [Column("n", "int"), Column("s", "string")]
    null = (DEFAULT_PARTITION, DEFAULT_PARTITION)
    for text in ("n = 1", "n <> 1", "not n = 1", "n in (1)", "not n in (1)", "n like '.*'", "n < 1 or n >= 1"):
        assert decide_filter(text, keys).holds(null) is None, text
    for text in ("s <> 'a'", "not s = 'a'", f"s = '{DEFAULT_PARTITION}'", "s like '__HIVE.*'", "n = 1 or s > 'A'"):
        found = decide_filter(text, keys)
        assert found.holds(null) is True, text
        assert evaluate(found.superset, {"n": None, "s": None}) in (Truth.YES, Truth.MAYBE), text


@pytest.mark.parametrize(
    "text",
    [
        *("ds", "ds =", "= 1", "ds = 1 and", "(ds = 1", "ds = 1)", 'ds = "x', "1 = 2", "ds in ()", "ds is null"),
        *("(" * 500, "'a' like ds", "ds = hr", "ds <=> 'a'", "not", "ds like", "hr between 1", "(ds, hr) in (('a'))"),
        *("ds = 'a';", "lower(ds) = 'a'", "hr + 1 = 2", "and = 'a'", "ds = date", "true", "(hr, short) = (1, 'b')"),
    ],
)
def test_text_that_is_not_a_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="Error parsing partition filter"):
        decide_filter(text, KEYS)


@pytest.mark.parametrize(
    "text", ["nope = '1'", "hr = 3 and nope = 1", "hr = 3 or nope = 1", "not nope = 1", "nope in (1)"]
)
def test_name_that_is_no_partition_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="Specified key <nope> is not a partitioning key for the table"):
        decide_filter(text, KEYS)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "hr = 'three'",
            "hr in (1, 'x')",
            "dt = 'today'",
            "dt = '2026-02-30'",
            "dt = 1",
            "at = '2026-01-02 25:00:00'",
        ),
        *("share = 'a'", "ratio = '1.5f'", "flag = 1", "hr = 2026-01-02", "hr = ''", f"hr = {'9' * 2000}"),
    ],
)
def test_literal_that_is_not_a_value_of_its_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="is not a value of key"):
        decide_filter(text, KEYS)


OF_TYPES: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "string": (("a", "b", "ab", "B", "1", "01", "10", "2026-01-02", "a.b", "a_b", "a b"), str),
    "varchar(9)": (("a", "ab", "b"), str),
    "int": (("1", "2", "10", "-3"), int),
    "bigint": (("0", "9007199254740993", "9007199254740992"), int),
    "date": (("2026-01-01", "2026-01-02", "2025-12-31"), date.fromisoformat),
    "decimal(20,2)": (("1.00", "1.50", "-2.25", "100000000000000000.01"), Decimal),
    "double": (("1.0", "2.5", "-0.5"), float),
    "boolean": (("true", "false"), lambda text: text == "true"),
}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
Model = Callable[[dict[str, str]], bool | None]


def quoted(chance: random.Random, of: str, literal: str) -> str:
    plain = not of.startswith(("string", "varchar")) and chance.random() < 0.5
    return literal if plain else f"'{literal}'" if chance.random() < 0.5 else f'"{literal}"'


def random_condition(chance: random.Random, keys: list[Column]) -> tuple[str, Model]:
    """Return a condition, and what it means for the values of a partition."""
    key = chance.choice(keys)
    literals, read = OF_TYPES[key.type]
    is_text = read is str

    def about(test: Callable[[Any], bool]) -> Model:
        return lambda row: None if row[key.name] == DEFAULT_PARTITION and not is_text else test(read(row[key.name]))

    few = [chance.choice(literals) for _ in range(chance.randint(1, 4))]
    written = [quoted(chance, key.type, each) for each in few]
    name = chance.choice((key.name, key.name.upper(), f"`{key.name}`"))
    negation = chance.choice(("", "not "))
    form = chance.randrange(5)
    if form == 0:
        pattern = chance.choice((".*", "a.*", ".*b", "a.b", "2026-.*", "1.*", ".", ".*0.*", "A%"))
        expression = re.compile(re.escape(pattern).replace(r"\.\*", ".*").replace(r"\.", "."), re.DOTALL)
        shown: Model = lambda row: (  # noqa: E731
            None if row[key.name] == DEFAULT_PARTITION and not is_text else bool(expression.fullmatch(row[key.name]))
        )
        return f"{name} {negation}like '{pattern}'", negated(shown) if negation else shown
    if form == 1:
        meant = about(lambda value: value in [read(each) for each in few])
        return f"({name}) {negation}in ({', '.join(written)})", negated(meant) if negation else meant
    if form == 2:
        low, high = few[0], few[-1]
        meant = about(lambda value: read(low) <= value <= read(high))
        text = f"{name} {negation}between {written[0]} and {written[-1]}"
        return text, negated(meant) if negation else meant
    sign, compare = chance.choice(list(OPERATORS.items()))
    if form == 3:
        return f"{written[0]} {sign} {name}", about(lambda value: compare(read(few[0]), value))
    return f"{name} {sign} {written[0]}", about(lambda value: compare(value, read(few[0])))


def negated(model: Model) -> Model:
    def meant(row: dict[str, str]) -> bool | None:
        answer = model(row)
        return None if answer is None else not answer

    return meant


def random_filter(chance: random.Random, keys: list[Column], depth: int = 3) -> tuple[str, Model]:
    shape = chance.random()
    if depth == 0 or shape < 0.3:
        return random_condition(chance, keys)
    if shape < 0.45:
        text, model = random_filter(chance, keys, depth - 1)
        return f"not ({text})", negated(model)
    parts = [random_filter(chance, keys, depth - 1) for _ in range(chance.randint(2, 4))]
    word, decisive = chance.choice((("and", False), ("or", True)))

    def meant(row: dict[str, str]) -> bool | None:
        found = [model(row) for _, model in parts]
        return decisive if decisive in found else None if None in found else not decisive

    return "(" + f" {word} ".join(text for text, _ in parts) + ")", meant


def test_random_filters_leave_exactly_what_a_simple_model_leaves(counts: Any) -> None:
    chance = random.Random(evidence.SEED)
    compared = 0
    for _ in range(evidence.amount("HIVEX_CLIENT_FILTERS", 400, 20_000)):
        keys = [Column(f"k{place}", chance.choice(list(OF_TYPES))) for place in range(chance.randint(1, 3))]
        text, model = random_filter(chance, keys)
        found = decide_filter(text, keys)
        for _ in range(8):
            given = [chance.choice((*OF_TYPES[key.type][0], DEFAULT_PARTITION)) for key in keys]
            values = stored_values("t", keys, given)
            expected = model(dict(zip((key.name for key in keys), values, strict=True)))
            assert found.holds(values) is expected, (text, keys, values)
            known = {
                key.name: typed(None if value == DEFAULT_PARTITION else value, key.parsed_type)
                for key, value in zip(keys, values, strict=True)
            }
            types = {key.name: key.parsed_type for key in keys}
            left = evaluate(found.superset, known, types) in (Truth.YES, Truth.MAYBE)
            assert left or not expected, (text, keys, values)
            compared += 1
    counts["random filters of clients compared with a model"] = {"comparisons": compared}
