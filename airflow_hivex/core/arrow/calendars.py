"""Days of the calendar that files of ORC have, as days of the one that everybody else counts by.

ORC numbers days before 1582-10-15 by the Julian calendar unless its footer says otherwise. Like Spark, readers here
keep year, month and day, and number them by the proleptic Gregorian calendar. Source: CalendarUtils of Apache ORC.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970-01-01."""
_JULIAN_DAY_OF_EPOCH = 2_440_588


def gregorian(days: Any) -> Any:
    """Return days since 1970-01-01, given those of the mixed calendar, as an array or a number."""
    days = np.asarray(days, np.int64)
    # Richards's algorithm: year, month and day in the Julian calendar.
    e = 4 * (days + _JULIAN_DAY_OF_EPOCH + 1401) + 3
    g = e % 1461 // 4
    h = 5 * g + 2
    day = h % 153 // 5 + 1
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12
    # Days from a date of the Gregorian calendar, in years that begin in March.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    number = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return np.where(days < FIRST_GREGORIAN_DAY, number, days)


def with_gregorian_days(values: pa.Array) -> pa.Array:
    """Return an array of which all days, at any depth, are numbered by the Gregorian calendar."""
    declared = values.type
    if not _has_days(declared):
        return values
    if pa.types.is_date32(declared):
        days = values.cast(pa.int32())
        numbers = days.fill_null(0).to_numpy(zero_copy_only=False)
        if not len(numbers) or numbers.min() >= FIRST_GREGORIAN_DAY:
            return values
        return pa.array(gregorian(numbers).astype(np.int32), mask=np.asarray(values.is_null())).cast(declared)
    if pa.types.is_struct(declared):
        fields = [with_gregorian_days(values.field(place)) for place in range(declared.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(declared), mask=values.is_null())
    if pa.types.is_list(declared):
        items = with_gregorian_days(values.values)
        return pa.ListArray.from_arrays(values.offsets, items, type=declared, mask=values.is_null())
    keys, items = with_gregorian_days(values.keys), with_gregorian_days(values.items)
    return pa.MapArray.from_arrays(values.offsets, keys, items, type=declared, mask=values.is_null())


def _has_days(declared: pa.DataType) -> bool:
    if pa.types.is_date32(declared):
        return True
    return any(_has_days(declared.field(place).type) for place in range(declared.num_fields))
