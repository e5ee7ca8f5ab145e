"""A member of a JSON document as text, in the words of each database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles


class JsonText(ColumnElement[str]):
    """The value of the member ``key`` at the top level of a JSON column, or NULL without such a member."""

    inherit_cache = False
    type = Text()

    def __init__(self, column: ColumnElement[Any], key: str) -> None:
        if not key.isidentifier():
            raise ValueError(key)
        self.column = column
        self.key = key


@compiles(JsonText, "postgresql")
def _postgresql(element: JsonText, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.column, **options)} ->> '{element.key}')"


@compiles(JsonText, "sqlite")
def _sqlite(element: JsonText, compiler: Any, **options: Any) -> str:
    return f"json_extract({compiler.process(element.column, **options)}, '$.{element.key}')"
