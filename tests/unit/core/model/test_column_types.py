from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidTypeError
from airflow_hivex.core.model.column_types import (
    KINDS,
    Array,
    ColumnType,
    Field,
    Map,
    Primitive,
    Struct,
    Union,
    is_bucket_type,
    is_partition_type,
    parse_type,
    primitives,
)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("INT", Primitive("int")),
        (" integer ", Primitive("int")),
        ("Byte", Primitive("tinyint")),
        ("real", Primitive("float")),
        ("double  precision", Primitive("double")),
        ("decimal", Primitive("decimal", (10, 0))),
        ("numeric( 7 )", Primitive("decimal", (7, 0))),
        ("dec(7 , 2)", Primitive("decimal", (7, 2))),
        ("character (3)", Primitive("char", (3,))),
        ("timestamp_ltz", Primitive("timestamp")),
        ("timestamp without time zone", Primitive("timestamp_ntz")),
        ("TIMESTAMP WITH LOCAL TIME ZONE", Primitive("timestamp with local time zone")),
        ("interval year to month", Primitive("interval", qualifier="year to month")),
        ("interval_day_time", Primitive("interval_day_time")),
        ("string collate utf8_lcase", Primitive("string collate", qualifier="UTF8_LCASE")),
        ("array< array<string> >", Array(Array(Primitive("string")))),
        ("map<int,decimal(3,1)>", Map(Primitive("int"), Primitive("decimal", (3, 1)))),
        ("uniontype<int,array<date>>", Union((Primitive("int"), Array(Primitive("date"))))),
        ("struct<>", Struct(())),
        ("STRUCT<a: INT, b string>", Struct((Field("a", Primitive("int")), Field("b", Primitive("string"))))),
        ("struct<two words:int>", Struct((Field("two words", Primitive("int")),))),
        ("struct<`a``<b`: int>", Struct((Field("a`<b", Primitive("int")),))),
        ("struct<array:int>", Struct((Field("array", Primitive("int")),))),
        ("struct<Timestamp:int>", Struct((Field("Timestamp", Primitive("int")),))),
    ],
)
def test_spellings_of_hive_and_spark(text: str, type: ColumnType) -> None:
    assert parse_type(text) == type


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 1, "a type is expected"),
        ("array<in>", 7, "there is no type in"),
        ("array<int", 10, "> is expected"),
        ("array<int>>", 11, "the type should end here"),
        ("array", 6, "< is expected"),
        ("map<int>", 8, ", is expected"),
        ("map<int,>", 9, "a type is expected"),
        ("struct<:int>", 8, "the name of a field is expected"),
        ("struct<a:int,>", 14, "the name of a field is expected"),
        ("struct<a>", 8, "the name of a field is expected"),
        ("int(3)", 4, "type int takes no parameter"),
        ("decimal(1,2,3)", 8, "type decimal takes 2 parameters"),
        ("decimal()", 9, "a number is expected"),
        ("decimal(39)", 8, "a decimal has 1 to 38 digits"),
        ("decimal(3,4)", 8, "a decimal has 1 to 38 digits"),
        ("varchar", 8, "type varchar needs a length"),
        ("char(0)", 5, "a length is at least 1"),
        ("string collate", 8, "the type should end here"),
    ],
)
def test_error_names_the_position(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidTypeError) as raised:
        parse_type(text)
    assert raised.value.position == position
    assert f"at position {position}: {reason}" in str(raised.value)


def test_primitives_are_found_at_any_depth() -> None:
    found = parse_type("map<string,struct<interval:int,b:array<uniontype<date,timestamp>>>>")
    assert [str(each) for each in primitives(found)] == ["string", "int", "date", "timestamp"]


def test_partition_types() -> None:
    assert is_partition_type(parse_type("decimal(10,2)"))
    assert is_partition_type(parse_type("STRING"))
    assert not is_partition_type(parse_type("array<int>"))
    assert not is_partition_type(parse_type("binary"))
    assert not is_partition_type(parse_type("string collate utf8_lcase"))


@pytest.mark.parametrize("type", ["timestamp", "array<int>", "struct<a:int>", "interval day to second", "variant"])
def test_other_types_cannot_be_bucketed_by(type: str) -> None:
    assert not is_bucket_type(parse_type(type))


@pytest.mark.parametrize("type", ["INT", "decimal(10,2)", "char(3)", "varchar(10)", "date", "binary"])
def test_simple_types_can_be_bucketed_by(type: str) -> None:
    assert is_bucket_type(parse_type(type))


_WITHOUT_PARAMETERS = [name for name, kind in KINDS.items() if not kind.defaults and name != "string collate"]
_PRIMITIVES = st.one_of(
    st.sampled_from(_WITHOUT_PARAMETERS).map(Primitive),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: Primitive("decimal", (p, s)))),
    st.tuples(st.sampled_from(["char", "varchar"]), st.integers(1, 65535)).map(lambda c: Primitive(c[0], (c[1],))),
    st.sampled_from(["day to second", "year", "year to month"]).map(lambda units: Primitive("interval", (), units)),
    st.sampled_from(["UTF8_LCASE", "DE_CI"]).map(lambda name: Primitive("string collate", (), name)),
)
TYPES: st.SearchStrategy[ColumnType] = st.recursive(
    _PRIMITIVES,
    lambda parts: st.one_of(
        parts.map(Array),
        st.tuples(parts, parts).map(lambda pair: Map(*pair)),
        st.lists(st.tuples(st.text(min_size=1), parts).map(lambda pair: Field(*pair))).map(
            lambda fields: Struct(tuple(fields))
        ),
        st.lists(parts, min_size=1).map(lambda alternatives: Union(tuple(alternatives))),
    ),
    max_leaves=12,
)


@given(TYPES)
def test_every_type_is_read_as_it_is_printed(type: ColumnType) -> None:
    assert parse_type(str(type)) == type


@given(TYPES, st.data())
def test_spaces_and_capitals_do_not_matter(type: ColumnType, data: st.DataObject) -> None:
    text = "".join(
        part if part.startswith("`") else _disguised(part, data.draw(st.sampled_from(["", " ", "\n  "])))
        for part in _outside_of_quotes(str(type))
    )
    assert str(parse_type(text)).lower() == str(type).lower()


def _outside_of_quotes(text: str) -> list[str]:
    return re.findall(r"`(?:[^`]|``)*`|[^`]+", text)


def _disguised(part: str, space: str) -> str:
    for symbol in "<>(),":
        part = part.replace(symbol, f"{space}{symbol}{space}")
    return part.upper()
