"""The values of the hive.* parameters. Each value is checked before it is used."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from airflow_hivex.core.errors import InvalidSettingError, UnknownSettingError
from airflow_hivex.core.settings_table import IGNORED, SETTINGS, Ignored, Setting

log = logging.getLogger(__name__)

# Whether SQL may run any code on the clusters.
ALLOW_CODE = "hivex.allow.code.execution"
# Folders outside of the clusters that LOAD DATA may read.
LOAD_PATHS = "hivex.load.paths"
TEMPORARY_TABLE_TIMEOUT = "hivex.temporary.table.timeout"
NAMESPACE_MODE = "hivex.namespace.mode"

HISTORY_RETENTION = "hivex.history.retention"
"""The name of a parameter, and of the table property that overrides the parameter."""

MAX_LAG = "hivex.replica.max.lag"
MAX_LAG_COMMITS = "hivex.replica.max.lag.commits"

SESSION_SETTINGS = (MAX_LAG, MAX_LAG_COMMITS)
"""The parameters that SET changes for the statements of one session."""

_NAMES = {name: setting for setting in SETTINGS for name in (setting.name, *setting.aliases)}

_IGNORED = {name: ignored for ignored in IGNORED for name in (ignored.name, *ignored.aliases) if "<" not in name}
_IGNORED_PATTERNS = [
    (re.compile(re.escape(ignored.name).replace("<pool>", r"[^.\s]+")), ignored)
    for ignored in IGNORED
    if "<" in ignored.name
]

# Hive reads any word that starts like the unit; these words are the common ones.
_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_TIME_WORDS = {
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanoseconds"), "ns"),
    **dict.fromkeys(("us", "usec", "usecs", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "msecs", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_BYTES = {
    word: 1024**power
    for power, words in enumerate((("b", "bytes"), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"), ("p", "pb")))
    for word in words
}
_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)")


_warned: set[str] = set()
"""The parameters without effect that this process has already logged."""


def describe(name: str) -> Setting:
    """Return the declaration of a parameter, by any of its names.

    Raises:
        UnknownSettingError: no parameter has the name.
    """
    found = _NAMES.get(name)
    if found is None:
        raise UnknownSettingError(name, tuple(get_close_matches(name.lower(), _NAMES, n=3, cutoff=0.75)))
    return found


def without_effect(name: str) -> Ignored | None:
    """Return the description of a parameter of Hive that has no effect in this project, or None for any other name."""
    pattern = next((ignored for pattern, ignored in _IGNORED_PATTERNS if pattern.fullmatch(name)), None)
    return _IGNORED.get(name) or pattern


class Settings(Mapping[str, Any]):
    """An immutable mapping from parameter to value. Any name of a parameter is accepted as the key.

    Texts have the forms of Hive: ``300``, ``300s``, ``5min``, ``12h``, ``true``, ``1Gb``. A value is returned in the
    declared unit of its parameter, and a list as a tuple of texts. Iteration yields the first name of every parameter.
    A parameter of Hive without effect has no value, and is logged once in a process.

    Raises:
        UnknownSettingError: no parameter has the name.
        InvalidSettingError: a value has the wrong type or is out of range.
    """

    __slots__ = ("_given", "_values")

    def __init__(self, overrides: Mapping[str, object] | None = None) -> None:
        self._given = {name: value for name, value in (overrides or {}).items() if not _is_ignored(name, value)}
        values = {setting.name: setting.default for setting in SETTINGS}
        # The first name of a parameter has precedence over its other names, so it is stored last.
        for name, value in sorted(self._given.items(), key=lambda item: describe(item[0]).name == item[0]):
            setting = describe(name)
            values[setting.name] = _typed(name, setting, value)
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[describe(name).name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in _NAMES

    def __repr__(self) -> str:
        return f"Settings({self._given!r})"

    def is_given(self, name: str) -> bool:
        """Return whether a value was given for the parameter, by any of its names."""
        return any(describe(given) is describe(name) for given in self._given)

    def with_overrides(self, overrides: Mapping[str, object]) -> Self:
        """Return the settings with some values replaced.

        Raises:
            UnknownSettingError: no parameter has the name.
            InvalidSettingError: a value has the wrong type or is out of range.
        """
        replaced = {describe(name).name for name in overrides if without_effect(name) is None}
        kept = {name: value for name, value in self._given.items() if describe(name).name not in replaced}
        return type(self)({**kept, **overrides})


def _is_ignored(name: str, value: object) -> bool:
    """Return whether a parameter of Hive has no effect in this project.

    A warning is logged once for each name, unless Hive would do the same as this project with the value.
    """
    found = without_effect(name)
    if found is None:
        return False
    if name not in _warned and (found.as_if is None or str(value).lower() != found.as_if.lower()):
        _warned.add(name)
        log.warning("%s = %s has no effect: %s", name, value, found.instead)
    return True


def _typed(name: str, setting: Setting, value: object) -> Any:
    if value is None and setting.default is None:
        return None
    match setting.type:
        case "bool":
            return _boolean(name, value)
        case "str":
            if not isinstance(value, str):
                raise InvalidSettingError(name, value, "a text is expected")
            if setting.choices and value not in setting.choices:
                raise InvalidSettingError(name, value, f"it is one of {', '.join(setting.choices)}")
            return value
        case "list":
            return _list(name, value)
        case "properties":
            if not isinstance(value, Mapping | str | Path):
                raise InvalidSettingError(name, value, "a mapping, JSON text or a file is expected")
            return value
        case "int" | "float":
            return _in_range(name, setting, _quantity(name, setting, value), value)


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidSettingError(name, value, "true or false is expected")


def _list(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, str) for item in value):
        return tuple(sorted(value)) if isinstance(value, set | frozenset) else tuple(value)
    raise InvalidSettingError(name, value, "a list of texts is expected, or one text with commas")


def _quantity(name: str, setting: Setting, value: object) -> int | float:
    if isinstance(value, str):
        return _read(name, setting, value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole or (isinstance(value, float) and setting.type == "float" and math.isfinite(value)):
        assert isinstance(value, int | float)
        return value if setting.type == "int" else float(value)
    raise InvalidSettingError(name, value, f"{_expected(setting)} is expected")


def _read(name: str, setting: Setting, text: str) -> int | float:
    found = _QUANTITY.fullmatch(text.strip())
    if not found:
        raise InvalidSettingError(name, text, f"{_expected(setting)} is expected")
    number, word = found[1], found[2].lower()
    numerator, denominator = _scale(name, setting, text, word) if word else (1, 1)
    if setting.type == "float":
        size = float(number) * numerator / denominator
        if not math.isfinite(size):
            raise InvalidSettingError(name, text, "it is too large")
        return size
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", number):
        raise InvalidSettingError(name, text, f"{_expected(setting)} is expected")
    quotient, rest = divmod(int(number) * numerator, denominator)
    if rest:
        raise InvalidSettingError(name, text, f"it is not a whole number of {setting.unit}")
    return quotient


def _scale(name: str, setting: Setting, text: str, word: str) -> tuple[int, int]:
    """Return the factor and the divisor that convert a number with the unit ``word`` to the unit of the parameter."""
    if setting.unit in _NANOSECONDS and word in _TIME_WORDS:
        return _NANOSECONDS[_TIME_WORDS[word]], _NANOSECONDS[setting.unit]
    if setting.unit == "B" and word in _BYTES:
        return _BYTES[word], 1
    raise InvalidSettingError(name, text, f"{word} is not a unit of it; {_expected(setting)} is expected")


def _in_range(name: str, setting: Setting, number: int | float, value: object) -> int | float:
    low, high = setting.minimum, setting.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidSettingError(name, value, f"it must be {limits} {setting.unit}".rstrip())
    return number


def _expected(setting: Setting) -> str:
    kind = "a whole number" if setting.type == "int" else "a number"
    if setting.unit in _NANOSECONDS:
        return f"{kind} of {setting.unit}, or a text with its own unit such as 90s or 5min,"
    if setting.unit == "B":
        return f"{kind} of bytes, or a text with its own unit such as 512Mb,"
    return kind
