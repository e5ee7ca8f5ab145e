"""Constants and partition keys as values of the columns' types, with the rules of a Spark session.

A constant is accepted only if Spark compares it with the column in the same way in all modes of Spark (ANSI or not),
and pyarrow compares it exactly. Other constants are refused, so that a filter has the same meaning as in SQL.

Source: Spark's AnsiTypeCoercion, TypeCoercion, ApplyCharTypePadding and SparkDateTimeUtils.getZoneId.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError
from airflow_hivex.core.model.column_types import Family, Primitive, primitives
from airflow_hivex.core.model.job_configuration import TIME_ZONE
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.predicates import typed

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_ZERO = ("Z", "UTC", "GMT", "UT")
# Source: java.time.ZoneId.SHORT_IDS.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "HST": "-10:00",
    "MST": "-07:00",
}

_OF_CHAR = {
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
}
"""The settings of Spark that change the meaning of CHAR, with the values that reads without Spark can handle."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_MOST_DIGITS = 38
_EXACT_DOUBLE = 1 << 53
_EXACT_DOUBLE_DIGITS = 15


class TypedValues:
    """The conversion of partition values and constants to column types, as in the Spark jobs of one session."""

    def __init__(self, configuration: Mapping[str, str], table: str) -> None:
        """Prepare the conversion; ``configuration`` is the Spark configuration of the jobs, and errors name ``table``.

        Raises:
            InvalidOperationError: Python does not know the session's time zone.
        """
        self._table = table
        self._configuration = configuration
        self._zone = _zone(configuration.get(TIME_ZONE, "UTC"), table)

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse columns that Spark reads differently because of a setting of the session or the cluster.

        Raises:
            InvalidOperationError: a setting changes the meaning of CHAR.
        """
        if not any(each.name == "char" for column in columns for each in primitives(column.parsed_type)):
            return
        for name, value in _OF_CHAR.items():
            if self._configuration.get(name, value).strip().lower() != value:
                reason = f"{name} is {self._configuration[name]}, by which only Spark reads CHAR; use session.sql"
                raise InvalidOperationError("A read without Spark of", self._table, reason)

    def partition_value(self, text: str | None, column: Column) -> Any:
        """Return the value of a partition column, from its text in the name of the partition.

        Raises:
            ValueError: Python cannot represent the text as a value of this type, for example a day after the year 9999.
        """
        declared = column.parsed_type
        found = typed(text, declared)
        assert isinstance(declared, Primitive)
        if isinstance(found, datetime) and declared.kind.is_instant:
            return self._instant(found)
        if isinstance(found, str):
            return padded(str(found), declared)
        return found

    def constant(self, value: Any, column: Column) -> Any:
        """Return the constant of a comparison with a column, as the Python value for the column's type.

        Raises:
            InvalidParametersError: only Spark can compare the constant with the column.
        """
        return None if value is None else self._found(value, column, is_listed=False)

    def check_bound(self, value: Any, column: Column) -> None:
        """Refuse a BETWEEN bound with another length than its CHAR column. Spark 3 pads the bound, Spark 4 does not.

        Raises:
            InvalidParametersError: the lengths differ.
        """
        declared = column.parsed_type
        if not isinstance(declared, Primitive) or declared.name != "char" or not isinstance(value, str):
            return
        if len(value) != declared.parameters[0]:
            raise InvalidParametersError(
                f"BETWEEN of column {column.name} of type {column.type} and {value!r} is decided by Spark only; "
                "use >= and <=, or session.sql."
            )

    def constants(self, values: Sequence[Any], column: Column) -> tuple[Any, ...]:
        """Return the constants of an IN condition, as Python values for the column's type.

        Constants of several types are refused, because Spark would cast them and the column to a common type.

        Raises:
            InvalidParametersError: only Spark can compare one of the constants with the column.
        """
        kinds = {type(value) for value in values if value is not None}
        declared = column.parsed_type
        # With NULL among its values, Spark does not pad the texts of IN.
        is_unpadded = isinstance(declared, Primitive) and declared.name == "char" and None in values and bool(kinds)
        if is_unpadded or (len(kinds) > 1 and not kinds <= {int, Decimal}):
            raise InvalidParametersError(
                f"The values of IN for column {column.name} have several types, which only Spark compares; "
                "give constants of the column's type, or use session.sql."
            )
        return tuple(None if value is None else self._found(value, column, is_listed=True) for value in values)

    def _found(self, value: Any, column: Column, *, is_listed: bool) -> Any:
        declared = column.parsed_type
        found = None
        if isinstance(declared, Primitive):
            try:
                found = self._constant(value, declared, is_listed)
            except (ValueError, OverflowError):
                found = None
        if found is None:
            raise InvalidParametersError(
                f"Column {column.name} of type {column.type} cannot be compared with {value!r} without Spark; "
                "give a constant of the column's type, or use session.sql."
            )
        return found

    def _constant(self, value: Any, declared: Primitive, is_listed: bool) -> Any:
        is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        if is_number and not math.isfinite(value):
            return None
        match declared.family:
            case Family.WHOLE:
                return _whole(value, declared) if is_number or isinstance(value, str) else None
            case Family.DECIMAL:
                return _decimal(value, declared, is_listed) if is_number or isinstance(value, str) else None
            case Family.FLOATING:
                return _floating(value, declared, is_listed) if is_number or isinstance(value, str) else None
            case Family.TEXT:
                return padded(value, declared) if isinstance(value, str) else None
            case Family.BOOLEAN:
                return value if isinstance(value, bool) else None
            case Family.BINARY:
                return value if isinstance(value, bytes) else None
            case Family.MOMENT if declared.name == "date":
                return self._day(value)
            case Family.MOMENT:
                return self._moment(value, declared, is_listed)
        return None

    def _day(self, value: Any) -> Any:
        if isinstance(value, str):
            # Spark takes the day of a longer text.
            return date.fromisoformat(value) if _DAY.fullmatch(value) else None
        if isinstance(value, datetime):
            if value.tzinfo is not None:
                value = value.astimezone(self._zone).replace(tzinfo=None)
            return value if self._is_plain(value) else None
        return value if isinstance(value, date) else None

    def _moment(self, value: Any, declared: Primitive, is_listed: bool) -> Any:
        is_text = isinstance(value, str)
        if is_text:
            found = _MOMENT.fullmatch(value)
            if found is None:
                return None
            day, clock, fraction, zone = found.groups()
            # Without ANSI, Spark compares an instant and the texts of a list as texts.
            if is_listed and (clock is None or zone or "T" in value or (fraction or "").endswith("0")):
                return None
            if zone and (clock is None or not declared.kind.is_instant):
                return None
            value = datetime.fromisoformat(
                f"{day}T{clock or '00:00:00'}{(fraction or '.').ljust(7, '0')}{(zone or '').replace('Z', '+00:00')}"
            )
        if not isinstance(value, date):
            return None
        is_day = not isinstance(value, datetime)
        if is_day:
            value = datetime.combine(value, time())
        if declared.kind.is_instant:
            if is_listed and is_text and not self._is_plain(value):
                return None
            return self._instant(value)
        if value.tzinfo is not None:
            return None
        # A TIMESTAMP makes the column an instant, too.
        return value if is_day or is_text or self._is_plain(value) else None

    def _instant(self, value: datetime) -> datetime:
        return (value.replace(tzinfo=self._zone) if value.tzinfo is None else value).astimezone(UTC)

    def _is_plain(self, local: datetime) -> bool:
        """Return whether the UTC offset of the session's zone is constant around ``local``.

        If the offset is constant, local times have the same order as their instants.
        """
        near = (local + timedelta(days=days) for days in (-1, 0, 1))
        return len({each.replace(tzinfo=self._zone).utcoffset() for each in near}) == 1


def padded(text: str, declared: Primitive) -> str:
    """Return a text as a value of its type. A CHAR is padded with blanks, as in Spark."""
    return text.ljust(declared.parameters[0]) if declared.name == "char" else text


def _whole(value: Any, declared: Primitive) -> Any:
    if isinstance(value, str):
        # Without ANSI, Spark casts the text to the type of the column.
        bound = 1 << declared.kind.bits
        return int(value) if _WHOLE.fullmatch(value) and -bound <= int(value) < bound else None
    if isinstance(value, float) and abs(value) >= _EXACT_DOUBLE:
        # Spark rounds the column to doubles, and compares these.
        return None
    if not -(1 << 63) <= value < 1 << 63:
        # In Spark such a comparison is true or false, also for NULL. Source: DecimalPrecision.
        return None
    if isinstance(value, Decimal) and not _has_common_type(value, 20, 0):
        return None
    found = _on_scale(Fraction(value), 0, 1 << 63)
    return int(found) if found is not None and found == int(found) else found


def _decimal(value: Any, declared: Primitive, is_listed: bool) -> Any:
    precision, scale = declared.parameters
    if isinstance(value, str):
        if is_listed or not _NUMBER.fullmatch(value):
            return None
        value = float(value)
    bound: int = 10**precision
    if isinstance(value, float):
        # Spark compares doubles. With so few digits, different decimals have different doubles.
        if precision > _EXACT_DOUBLE_DIGITS:
            return None
        nearest = round(Fraction(value) * 10**scale)
        if abs(nearest) < bound and float(_unscaled(nearest, scale)) == value:
            return _unscaled(nearest, scale)
    elif not _has_common_type(Decimal(value), precision - scale, scale):
        return None
    return _on_scale(Fraction(value), scale, bound)


def _has_common_type(value: Decimal, whole_digits: int, scale: int) -> bool:
    """Return whether the common type that Spark finds for a decimal and a column keeps all digits of both."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    fraction = max(0, -exponent)
    whole = max(10, len(value.as_tuple().digits) + exponent)
    return max(whole, whole_digits) + max(fraction, scale) <= _MOST_DIGITS


def _on_scale(value: Fraction, scale: int, bound: int) -> Decimal | None:
    """Return a decimal that can stand for ``value`` in comparisons with decimals of ``scale``.

    The result has at most one digit more than ``scale``: for 0.1234 and the scale 2, the result is 0.125. The result is
    None if pyarrow has too few digits.
    """
    half = Fraction(1, 2)
    units = min(max(value * 10**scale, -bound - half), bound + half)
    below = math.floor(units)
    if units == below:
        return _unscaled(below, scale)
    return _unscaled(10 * below + 5, scale + 1) if bound < 10 ** (_MOST_DIGITS - 1) else None


def _unscaled(units: int, scale: int) -> Decimal:
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))


def _floating(value: Any, declared: Primitive, is_listed: bool) -> float | None:
    is_text = isinstance(value, str)
    if is_text and (is_listed or not _NUMBER.fullmatch(value)):
        return None
    found = float(value)
    if declared.name == "float" and (is_text or isinstance(value, int) or is_listed):
        # Whether Spark compares floats or doubles depends on its mode.
        is_exact = struct.unpack("f", struct.pack("f", found))[0] == found and (is_text or found == value)
        return found if is_exact else None
    return found


def _zone(name: str, table: str) -> tzinfo:
    given = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name.strip())
    given = re.sub(r"([+-]\d\d):(\d)$", r"\1:0\2", given)
    given = _SHORT_ZONES.get(given, given)
    if given in _ZERO:
        return UTC
    found = _OFFSET.fullmatch(given)
    if found is not None:
        sign, *parts = found.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        reason = f"the session's time zone {name} is not known to this process; use session.sql, or install tzdata"
        raise InvalidOperationError("A read without Spark of", table, reason) from error
