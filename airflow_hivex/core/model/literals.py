"""Constants of statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | Decimal | date | datetime | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: its Python value and Spark's type of it (``int``, ``decimal(2,1)``, ``string``, ``void``...)."""

    value: Value | bytes
    type: str
