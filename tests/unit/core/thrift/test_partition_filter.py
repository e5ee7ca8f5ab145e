from __future__ import annotations

from datetime import date

import pytest

from airflow_hivex.core.model.predicates import Truth, Value, evaluate
from airflow_hivex.core.thrift.partition_filter import InvalidFilterError, read_filter

ROW: dict[str, Value] = {"ds": "2026-01-02", "hr": 3, "dt": date(2026, 1, 2), "name": 'a"b'}


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ('ds = "2026-01-02"', Truth.YES),
        ("ds='2026-01-02'", Truth.YES),
        ('"2026-01-01" < ds', Truth.YES),
        ('ds != "2026-01-02"', Truth.NO),
        ("ds <> '2026-01-03' AND Hr >= 3", Truth.YES),
        ("hr >= 1 and hr <= 2", Truth.NO),
        ('(ds = "x" or hr = 3)', Truth.YES),
        ('(ds) in ("2026-01-02", "x")', Truth.YES),
        ("(hr) in (1, 2, 3)", Truth.YES),
        ("(hr) not in (1, 2, 3)", Truth.NO),
        ("not (hr = 3)", Truth.NO),
        ("hr between 2 and 4", Truth.YES),
        ('ds like ".*-02"', Truth.YES),
        ('ds like "2025.*"', Truth.NO),
        ('ds like "[0-9]+"', Truth.MAYBE),
        ('dt = "2026-01-02"', Truth.YES),
        ('dt < "2026-01-02"', Truth.NO),
        ("dt = date '2026-01-02'", Truth.YES),
        ("name = 'a\"b'", Truth.YES),
        ("hr = -3", Truth.NO),
        ("other = 1", Truth.MAYBE),
        ("hr = 1 or hr = 3", Truth.YES),
        ("hr = 1 or hr = 2", Truth.NO),
        ('hr = 1 or ds = "x" or hr = 2 or ds = "2026-01-02"', Truth.YES),
        ('hr = 1 or hr = "3"', Truth.YES),
        ("(hr = 1 or hr = 2) and hr = 3", Truth.NO),
        ("not (hr = 1 or hr = 3)", Truth.NO),
        ('dt = "2026-01-01" or dt = "2026-01-02"', Truth.YES),
        ("", Truth.YES),
    ],
)
def test_filter_holds_as_hive_and_spark_mean_it(text: str, truth: Truth) -> None:
    assert evaluate(read_filter(text), ROW) is truth


@pytest.mark.parametrize(
    "text",
    ["ds", "ds =", "= 1", "ds = 1 and", "(ds = 1", "ds = 1)", 'ds = "x', "1 = 2", "ds in ()", "ds is null", "(" * 500],
)
def test_text_that_is_not_a_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="Error parsing partition filter"):
        read_filter(text)
