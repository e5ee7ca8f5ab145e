from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from airflow_hivex.core.model.json_values import json_rows, json_value


class Struct(tuple):
    """Like a Row of pyspark: a tuple that knows its names."""

    def asDict(self) -> dict[str, object]:  # noqa: N802 - pyspark's name
        return {"a": self[0], "b": self[1]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (1.5, 1.5),
        ("ü\u0000", "ü\u0000"),
        (Decimal("12345678901234567890.123456789012345678"), "12345678901234567890.123456789012345678"),
        (Decimal("1.10"), "1.10"),
        (date(2013, 1, 1), "2013-01-01"),
        (datetime(2013, 1, 1, 5, 0, 0, 123456), "2013-01-01T05:00:00.123456"),  # noqa: DTZ001 - a TIMESTAMP_NTZ
        (datetime(2013, 1, 1, 5, tzinfo=UTC), "2013-01-01T05:00:00+00:00"),
        (timedelta(days=1, milliseconds=500), 86400.5),
        (b"\x00\xff", "AP8="),
        (bytearray(b"\x00\xff"), "AP8="),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ([date(2013, 1, 1), None], ["2013-01-01", None]),
        ({date(2013, 1, 1): Decimal("1.0"), 2: None}, {"2013-01-01": "1.0", "2": None}),
        (Struct((Decimal("1.0"), Struct((1, 2)))), {"a": "1.0", "b": {"a": 1, "b": 2}}),
    ],
)
def test_value_keeps_every_digit_in_strict_json(value: object, expected: object) -> None:
    converted = json_value(value)
    assert converted == expected
    assert json.loads(json.dumps(converted, allow_nan=False)) == expected


def test_booleans_stay_booleans() -> None:
    assert json_value(True) is True


def test_rows_become_lists() -> None:
    assert json_rows([(1, Decimal("2.5")), (None, "x")]) == [[1, "2.5"], [None, "x"]]
