"""Rows as JSON, for XCom, the command line and other readers of text.

Values of types that JSON lacks become texts. For example, a Decimal becomes a text with all digits, and not a float as
with Airflow's own serializer.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Set
from datetime import date, datetime, time, timedelta
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


def json_value(value: object) -> JsonValue:
    """Return ``value`` as a value of JSON.

    None, booleans, texts and finite numbers stay unchanged. Dates and times become texts of ISO 8601, and binary values
    texts of base64. ``NaN`` and the infinities become the words that Spark's ``to_json`` writes. A struct becomes an
    object, a map becomes an object with texts as keys, and a day-time interval becomes its number of seconds. All other
    values, such as a Decimal, become their ``str``.
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    return _collection(value)


def json_rows(rows: list[tuple[object, ...]]) -> list[list[JsonValue]]:
    """Return the rows as lists of JSON values."""
    return [[json_value(value) for value in row] for row in rows]


def _collection(value: object) -> JsonValue:
    # pyspark's Row is a tuple with names; only the data plane knows its class.
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, Mapping):
        return {_key(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [json_value(item) for item in value]
    return str(value)


def _key(key: object) -> str:
    converted = json_value(key)
    return converted if isinstance(converted, str) else str(converted)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
