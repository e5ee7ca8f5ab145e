"""The page of the fields of a connection, from the provider's description for Airflow."""

from __future__ import annotations

from typing import Any

from airflow_hivex.get_provider_info import get_provider_info
from scripts.reference_pages.markdown import cell, table

_INTRODUCTION = """\
# Fields of a connection, and options of `[hivex]`

<!-- Written by `make format` from airflow_hivex/get_provider_info.py. -->

A connection has the type `hivex`. [Describe a connection](../how-to/connection.md) has examples.

## Fields of Airflow
"""
_EXTRA = """
## Fields in the extra

Each of them is a key of the JSON object that is the connection's extra. Another key is refused.
"""
_OPTIONS = """
## Options of `[hivex]`

The environment variable of an option is `AIRFLOW__HIVEX__` and its name in capitals.
"""


def page() -> str:
    """Return the page."""
    info = get_provider_info()
    (connection,) = info["connection-types"]
    shown = connection["ui-field-behaviour"]
    own = [(f"`{name}`", label, _example(shown, name)) for name, label in shown["relabeling"].items()]
    extra = [
        (f"`{name}`", field["label"], _values(field["schema"]), cell(field["description"]))
        for name, field in connection["conn-fields"].items()
    ]
    options = [
        (f"`{name}`", f"`{option['default']}`", cell(option["description"]))
        for name, option in info["config"]["hivex"]["options"].items()
    ]
    return "\n".join(
        [
            _INTRODUCTION,
            table(("field", "label", "example"), own) + _EXTRA,
            table(("key", "label", "values", "meaning"), extra) + _OPTIONS,
            table(("option", "default", "meaning"), options),
        ]
    )


def _example(shown: dict[str, Any], name: str) -> str:
    return shown["placeholders"].get(name, "")


def _values(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return "true, false" if "boolean" in schema["type"] else "text"
