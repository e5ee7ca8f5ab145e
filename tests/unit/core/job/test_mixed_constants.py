"""A column of VALUES with texts in some rows and other constants in others, without Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from airflow_hivex.core.errors import HivexError, TypeMismatchError, UnreadableTextError
from airflow_hivex.core.job.conversions import check_types, stored_column
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column


def stored(type: str, *values: tuple[Any, str]) -> list[Any] | None:
    literals = [Literal(*value) for value in (*values, (None, "void"))]
    check_types(literals, Column("v", type), "d.t")
    return stored_column(literals, Column("v", type), "d.t")


@pytest.mark.parametrize(
    ("type", "text", "other", "expected"),
    [
        ("date", "2020-02-29", (date(2020, 3, 1), "date"), [date(2020, 2, 29), date(2020, 3, 1)]),
        ("int", "1", (2, "int"), [1, 2]),
        ("decimal(5,2)", "1.25", (Decimal("2.5"), "decimal(2,1)"), [Decimal("1.25"), Decimal("2.50")]),
        ("double", "1.5", (2, "int"), [1.5, 2.0]),
        ("boolean", "true", (False, "boolean"), [True, False]),
        ("string", "1", (2, "int"), ["1", "2"]),
    ],
)
def test_a_text_is_read_as_the_type_of_its_column_next_to_other_constants(
    type: str, text: str, other: tuple[Any, str], expected: list[Any]
) -> None:
    assert stored(type, (text, "string"), other) == [*expected, None]
    assert stored(type, other, (text, "string")) == [*expected[::-1], None]


@pytest.mark.parametrize(
    ("type", "text", "other", "error"),
    [
        ("int", "x", (2, "int"), UnreadableTextError),
        ("int", "1", (date(2020, 3, 1), "date"), TypeMismatchError),
    ],
)
def test_each_value_must_fit_its_column(type: str, text: str, other: tuple[Any, str], error: type[HivexError]) -> None:
    with pytest.raises(error):
        stored(type, (text, "string"), other)
