"""Functions of dates."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Collection
from datetime import date, timedelta

from airflow_hivex.core.model.expressions import Typed, UndecidedError
from airflow_hivex.core.model.functions.arguments import (
    Function,
    as_number,
    as_string,
    date_of,
    int_of,
    own_text,
)

_FORMAT_PART = re.compile(r"([A-Za-z])\1*|[-/._ ]+")


def _of_date(part: Callable[[date], int]) -> Function:
    return lambda day: as_number(part(date_of(day)))


def add_days(day: Typed, days: Typed, sign: int = 1) -> Typed:
    """Return the date that is this number of days later."""
    return Typed(date_of(day) + timedelta(sign * int_of(days)), "date")


def subtract_days(day: Typed, days: Typed) -> Typed:
    """Return the date that is this number of days earlier."""
    return add_days(day, days, -1)


def _add_months(day: Typed, months: Typed) -> Typed:
    start = date_of(day)
    count = start.year * 12 + start.month - 1 + int_of(months)
    year, month = count // 12, count % 12 + 1
    return Typed(date(year, month, min(start.day, monthrange(year, month)[1])), "date")


def _last_day(day: Typed) -> Typed:
    value = date_of(day)
    return Typed(value.replace(day=monthrange(value.year, value.month)[1]), "date")


def _trunc(day: Typed, unit: Typed) -> Typed:
    value = date_of(day)
    match own_text(unit).upper():
        case "YEAR" | "YYYY" | "YY":
            return Typed(value.replace(month=1, day=1), "date")
        case "QUARTER":
            return Typed(value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1), "date")
        case "MONTH" | "MM" | "MON":
            return Typed(value.replace(day=1), "date")
        case "WEEK":
            return Typed(value - timedelta(value.weekday()), "date")
    raise UndecidedError


def _to_date(text: Typed, format: Typed | None = None) -> Typed:
    if format is None:
        return Typed(date_of(text), "date")
    pattern = "".join(
        _PARSED.get(part, "") or (re.escape(part) if not part[0].isalpha() else _undecided())
        for part in _format_parts(own_text(format))
    )
    found = re.fullmatch(pattern, own_text(text))
    if found is None or "year" not in found.groupdict():
        raise UndecidedError
    parts = {name: int(number) for name, number in found.groupdict().items()}
    return Typed(_plain_day(date(parts["year"], parts.get("month", 1), parts.get("day", 1))), "date")


def _date_format(day: Typed, format: Typed) -> Typed:
    value = _plain_day(date_of(day))
    return as_string(
        "".join(
            _WRITTEN[part](value) if part in _WRITTEN else part if not part[0].isalpha() else _undecided()
            for part in _format_parts(own_text(format))
        )
    )


_PARSED = {"yyyy": "(?P<year>[0-9]{4})", "MM": "(?P<month>[0-9]{2})", "dd": "(?P<day>[0-9]{2})"}
_WRITTEN: dict[str, Callable[[date], str]] = {
    "yyyy": lambda day: f"{day.year:04d}",
    "MM": lambda day: f"{day.month:02d}",
    "M": lambda day: str(day.month),
    "dd": lambda day: f"{day.day:02d}",
    "d": lambda day: str(day.day),
}
# Days that a time zone has left out as it moved over the date line: their midnights are another day's there.
_LEFT_OUT = frozenset({date(2011, 12, 30), date(1994, 12, 31), date(1995, 1, 1), date(1993, 8, 21), date(1993, 8, 22)})


def _format_parts(format: str) -> list[str]:
    """Return the letters and separators of a pattern for dates."""
    parts = [found[0] for found in _FORMAT_PART.finditer(format)]
    letters = [part for part in parts if part[0].isalpha()]
    # Letters side by side are fields of fixed widths here; one that is not is read otherwise.
    if not parts or "".join(parts) != format or len(set(letters)) < len(letters):
        raise UndecidedError
    return parts


def _plain_day(day: date) -> date:
    """Return a day that is the same in all calendars and time zones that Spark may be set to."""
    if day.year < 1900 or day in _LEFT_OUT:
        raise UndecidedError
    return day


def _undecided() -> str:
    raise UndecidedError


FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "year": (1, 1, _of_date(lambda day: day.year)),
    "quarter": (1, 1, _of_date(lambda day: (day.month + 2) // 3)),
    "month": (1, 1, _of_date(lambda day: day.month)),
    "weekofyear": (1, 1, _of_date(lambda day: day.isocalendar().week)),
    "dayofyear": (1, 1, _of_date(lambda day: day.timetuple().tm_yday)),
    "day": (1, 1, _of_date(lambda day: day.day)),
    "dayofweek": (1, 1, _of_date(lambda day: day.isoweekday() % 7 + 1)),
    "weekday": (1, 1, _of_date(lambda day: day.weekday())),
    "to_date": (1, 2, _to_date),
    "date_format": (2, 2, _date_format),
    "date_add": (2, 2, add_days),
    "date_sub": (2, 2, subtract_days),
    "datediff": (2, 2, lambda end, start: as_number((date_of(end) - date_of(start)).days)),
    "add_months": (2, 2, _add_months),
    "last_day": (1, 1, _last_day),
    "trunc": (2, 2, _trunc),
    "make_date": (3, 3, lambda *parts: Typed(date(*map(int_of, parts)), "date")),
}
"""By name: the least and the most arguments, and the function of arguments that are not NULL."""

TEXTS: dict[str, Collection[int]] = {
    "to_date": (0, 1),
    **dict.fromkeys(("date_format", "trunc"), (1,)),
}
"""The arguments that are texts by themselves, so that nothing is cast."""
