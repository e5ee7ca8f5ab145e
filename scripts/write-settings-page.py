"""Writes docs/reference/settings.md from the table of parameters; with --check, fails if that changed it."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from airflow_hivex.core.settings_table import IGNORED, SETTINGS, Ignored, Setting, other_names

_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
_INTRODUCTION = """\
# Settings

<!-- Written by scripts/write-settings-page.py from airflow_hivex/core/settings_table.py. -->

Settings are given as a mapping to `Metastore.open(url, settings={...})`, or as the JSON object `settings` in the extra
of an Airflow [connection](../how-to/connection.md). An unknown name is refused, and so is a value of the wrong type or
out of its range. Times and sizes may be written with a unit: `300`, `300s`, `5min`, `12h`, `1Gb`. As in Hive, `hive.`
may stand in place of `metastore.`, and before `metastore.cache`, `metastore.event` and `metastore.rawstore`.
"""
_EFFECTIVE = "## In effect\n\n| setting | values | default | what it does |\n|---|---|---|---|\n"
_KNOWN = """
## Known, without effect

These parameters of Hive change nothing, and their values are not checked. If a value is set that does not hold here,
the log says so once.

| settings | here |
|---|---|
"""


def page() -> str:
    """The page."""
    effective = "".join(map(_effective, SETTINGS))
    known = "".join(_known(instead, list(each)) for instead, each in groupby(IGNORED, lambda each: each.instead))
    return f"{_INTRODUCTION}\n{_EFFECTIVE}{effective}{_KNOWN}{known}"


def _effective(setting: Setting) -> str:
    default = "" if setting.default in (None, "", ()) else f"{_written(setting.default)} {setting.unit}".strip()
    return f"| {_names(setting)} | {_values(setting)} | {default} | {_sentence(setting.description)} |\n"


def _known(instead: str, settings: list[Ignored]) -> str:
    return f"| {'<br>'.join(map(_names, settings))} | {_sentence(instead)} |\n"


def _names(setting: Setting | Ignored) -> str:
    unlike = [alias for alias in setting.aliases if alias not in other_names(setting.name) and "hive." not in alias]
    return " ".join([f"`{setting.name}`", *(f"<br>also `{alias}`" for alias in unlike)])


def _values(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    bounds = []
    if setting.minimum is not None:
        bounds.append(f"from {_written(setting.minimum)}")
    if setting.maximum is not None:
        bounds.append(f"to {_written(setting.maximum)}")
    return " ".join([{"bool": "true, false", "str": "text"}.get(setting.type, setting.type), *bounds])


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sentence(text: str) -> str:
    text = text.replace("|", "\\|").replace("<pool>", "`<pool>`")
    return text if text.startswith("`") else text[0].upper() + text[1:]


def main() -> None:
    """Write the page, or report that it is out of date."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        if _PAGE.read_text() == wanted:
            return
        sys.exit(f"{_PAGE.name} is out of date: run scripts/write-settings-page.py")
    _PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
