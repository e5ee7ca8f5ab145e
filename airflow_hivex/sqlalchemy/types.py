"""Column types of the warehouse that SQLAlchemy does not have, and the types of reflected columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

AnyType = TypeEngine[Any]


class TINYINT(types.Integer):
    """A whole number of one byte."""

    __visit_name__ = "TINYINT"


class STRING(types.Text):
    """A text of any length."""

    __visit_name__ = "STRING"


class MAP(TypeEngine[dict[Any, Any]]):
    """Values by keys. Results have a dict."""

    __visit_name__ = "MAP"

    def __init__(self, key_type: AnyType, value_type: AnyType) -> None:
        self.key_type = key_type
        self.value_type = value_type


class STRUCT(TypeEngine[dict[str, Any]]):
    """Named fields in their order, as pairs (name, type). Results have a dict."""

    __visit_name__ = "STRUCT"

    def __init__(self, *fields: tuple[str, AnyType]) -> None:
        self.fields = fields


class HivexTime(types.Time):
    """A time of day. Tables store it as a text, since Hive's tables have no such type."""

    def bind_processor(self, dialect: Dialect) -> Callable[[time | None], str | None]:  # noqa: ARG002
        """Return a function that writes a time as a text."""
        return lambda value: None if value is None else value.isoformat()

    def literal_processor(self, dialect: Dialect) -> Callable[[time], str]:  # noqa: ARG002
        """Return a function that writes a time as a literal of SQL."""
        return lambda value: f"'{value.isoformat()}'"

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[str | None], time | None]:  # noqa: ARG002
        """Return a function that reads the text of a time."""
        return lambda value: None if value is None else time.fromisoformat(value)


class HivexDate(types.Date):
    """A date, whose literal in SQL is one of this type and not a text."""

    def literal_processor(self, dialect: Dialect) -> Callable[[date], str]:  # noqa: ARG002
        """Return a function that writes a date as a literal of SQL."""
        return lambda value: f"DATE'{value:%Y-%m-%d}'" if value.year > 999 else f"DATE'{value.isoformat()[:10]}'"


class HivexDateTime(types.DateTime):
    """A moment, whose literal in SQL is one of this type and not a text.

    Without ``timezone``, results have no time zone: a TIMESTAMP is a time of UTC then.
    """

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:  # noqa: ARG002
        """Return a function that removes the time zone, or None if results keep it."""
        if self.timezone:
            return None
        return lambda value: value.replace(tzinfo=None) if isinstance(value, datetime) else value

    def literal_processor(self, dialect: Dialect) -> Callable[[datetime], str]:  # noqa: ARG002
        """Return a function that writes a moment as a literal of SQL."""

        def literal(value: datetime) -> str:
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind}'{value.isoformat(' ')}'"

        return literal


_PLAIN: Mapping[str, AnyType] = {
    "boolean": types.BOOLEAN(),
    "tinyint": TINYINT(),
    "smallint": types.SMALLINT(),
    "int": types.INTEGER(),
    "bigint": types.BIGINT(),
    "float": types.REAL(),
    "double": types.DOUBLE(),
    "date": types.DATE(),
    "timestamp_ltz": types.TIMESTAMP(timezone=True),
    "timestamp_ntz": types.TIMESTAMP(timezone=False),
    "string": STRING(),
    "binary": types.BINARY(),
}


def type_of(document: Mapping[str, Any]) -> AnyType:
    """Return the type of a column in the document of ``DESCRIBE ... AS JSON``.

    A type that SQLAlchemy cannot represent, such as an interval, is a ``NullType``.
    """
    match document:
        case {"name": "decimal", "precision": int(precision), "scale": int(scale)}:
            return types.DECIMAL(precision, scale)
        case {"name": "varchar", "length": int(length)}:
            return types.VARCHAR(length)
        case {"name": "char", "length": int(length)}:
            return types.CHAR(length)
        case {"name": "array", "element_type": element}:
            return types.ARRAY(type_of(element))
        case {"name": "map", "key_type": key, "value_type": value}:
            return MAP(type_of(key), type_of(value))
        case {"name": "struct", "fields": fields}:
            return STRUCT(*((field["name"], type_of(field["type"])) for field in fields))
    return _PLAIN.get(document["name"], types.NULLTYPE)
