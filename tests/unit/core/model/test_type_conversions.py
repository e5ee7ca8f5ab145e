from __future__ import annotations

import pytest

from airflow_hivex.core.model.column_types import is_widening, parse_type, with_fields


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("int", "int"),
        ("tinyint", "bigint"),
        ("float", "double"),
        ("decimal(5,2)", "decimal(9,2)"),
        ("varchar(3)", "varchar(5)"),
        ("varchar(3)", "string"),
    ],
)
def test_wider_types(given: str, target: str) -> None:
    assert is_widening(parse_type(given), parse_type(target))


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("bigint", "int"),
        ("double", "float"),
        ("int", "string"),
        ("string", "varchar(9)"),
        ("varchar(5)", "varchar(3)"),
        ("char(3)", "string"),
        ("decimal(5,2)", "decimal(9,3)"),
        ("decimal(9,2)", "decimal(5,2)"),
        ("date", "timestamp"),
        ("array<int>", "array<bigint>"),
    ],
)
def test_types_whose_files_would_be_misread(given: str, target: str) -> None:
    assert not is_widening(parse_type(given), parse_type(target))


@pytest.mark.parametrize(
    ("before", "other", "expected"),
    [
        ("struct<a:int>", "struct<B:string,A:bigint>", "struct<a:int,B:string>"),
        ("array<struct<a:int>>", "array<struct<b:int>>", "array<struct<a:int,b:int>>"),
        ("map<struct<a:int>,int>", "map<struct<a:int,b:int>,int>", "map<struct<a:int,b:int>,int>"),
        ("struct<a:struct<b:int>,c:int>", "struct<a:struct<d:date>>", "struct<a:struct<b:int,d:date>,c:int>"),
        ("struct<a:int>", "int", "struct<a:int>"),
        ("int", "struct<a:int>", "int"),
    ],
)
def test_fields_of_two_types_together(before: str, other: str, expected: str) -> None:
    assert with_fields(parse_type(before), parse_type(other)) == parse_type(expected)
