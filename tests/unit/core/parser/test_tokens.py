"""Texts are taken apart as Spark takes them apart."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError
from airflow_hivex.core.parser.lexer.literals import unquote
from airflow_hivex.core.parser.lexer.tokens import tokenize
from airflow_hivex.core.parser.reader import read, split
from airflow_hivex.core.parser.statements import ChangeRows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; ;; -- c", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
        ("SELECT 'it''s;' ; SELECT 2", ["SELECT 'it''s;'", "SELECT 2"]),
        ("SELECT '\\';' ; SELECT 2", ["SELECT '\\';'", "SELECT 2"]),
        ("SELECT r'\\'; SELECT 2", ["SELECT r'\\'", "SELECT 2"]),
        ("SELECT `a;``b;` ; SELECT 2", ["SELECT `a;``b;`", "SELECT 2"]),
        ("SELECT 1 -- a; b\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1 /* a; /* b; */ c; */ ; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("-- first\nSELECT 1 /* x */ + 1;", ["SELECT 1 /* x */ + 1"]),
        ("SELECT 1 -- C:\\data\\\r\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1 -- C:\\data\\\n; SELECT 2\n; SELECT 3", ["SELECT 1", "SELECT 3"]),
        ("SELECT 1 -- a\r; SELECT 2", ["SELECT 1", "SELECT 2"]),
    ],
)
def test_scripts_are_parted_at_semicolons(text: str, expected: list[str]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT 'abc", 1, 8),
        ('SELECT\n  "abc', 2, 3),
        ("SELECT `abc", 1, 8),
        ("SELECT 'abc''", 1, 8),
        ("SELECT 1 /* abc /* */", 1, 10),
        ("SELECT $x", 1, 8),
        ("SELECT 1\r\n # c", 2, 2),
        ("SELECT {x}", 1, 8),
        ("SELECT /*+ X('*/ \" ') */ * FROM orc.`/a` -- \"", 1, 14),
        ("SELECT /*+ a; */ 1", 1, 13),
        ("SELECT /*+ a", 1, 8),
        ("SELECT 1 */ 2", 1, 10),
        ("SELECT file://b--c", 1, 8),
        ("\u017fELECT 1", 1, 1),
        ("SELECT gr\u00f6\u00dfe", 1, 8),
        ("SELECT 1\u0085", 1, 9),
        ("SELECT 1\x1c", 1, 9),
    ],
)
def test_text_that_cannot_be_taken_apart_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    for function in (split, read):
        with pytest.raises(StatementSyntaxError) as error:
            function(text)
        assert (error.value.line, error.value.column) == (line, column)


def test_condition_behind_a_comment_that_ends_in_a_backslash_is_read() -> None:
    statement = read("DELETE FROM t -- C:\\data\\\r\nWHERE a = 2")
    assert isinstance(statement, ChangeRows)
    assert "a = 2" in statement.matched.query.text


def test_tokens_of_hints_are_left_out() -> None:
    text = "SELECT /*+ BROADCAST(t, -- */\n`a b`), /* */ REPARTITION(3) */ a /* c */ >> 1"
    assert [token.text for token in tokenize(text)] == ["SELECT", "a", ">>", "1"]


def test_tokens_stand_where_they_are_written() -> None:
    text = "SELECT a.`b c`, 1.5e3D, x'1F' /* c */ <=> :p FROM 2013_t -- d"
    tokens = tokenize(text)
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    assert [token.text for token in tokens] == [
        *("SELECT", "a", ".", "`b c`", ",", "1.5e3D", ",", "x", "'1F'", "<=>", ":", "p", "FROM", "2013_t")
    ]


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("'it''s'", "it's"),
        ("\"it''s\"", "it''s"),
        ('"a""b"', 'a"b'),
        (r"r'a\n'", r"a\n"),
        (r"'\u0041\101\%\_\Z\q\0\n\t\\'", "AA\\%\\_\x1aq\0\n\t\\"),
        (r"'\ud83d\ude00\U0001F600'", "😀😀"),
        ("'a\\\nb'", "a\nb"),
    ],
)
def test_strings_have_the_values_that_spark_gives_them(literal: str, expected: str) -> None:
    (token,) = tokenize(literal)
    assert unquote(token) == expected


@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\udc00\ud800", r"\ud83dx", r"\U0000d800", r"\U00110000", r"\Uffffffff"]
)
@pytest.mark.parametrize(
    "text", ["SELECT '{}'", "INSERT INTO t VALUES ('a{}')", "ALTER TABLE t SET TBLPROPERTIES ('{}' = 'v')"]
)
def test_an_escape_that_names_no_character_is_refused_with_its_place(text: str, escape: str) -> None:
    whole = text.format(escape)
    with pytest.raises(StatementSyntaxError, match="names no character") as raised:
        read(whole, None)
    column = whole.index("'") + 1
    assert f"column {column}:" in str(raised.value)
    read(text.format(escape.replace("\\", "\\\\")), None)
    read(f"SELECT r'{escape}'", None)


@given(st.text())
def test_any_text_is_read_or_refused_in_our_own_words(text: str) -> None:
    for function in (split, read):
        with suppress(StatementSyntaxError):
            function(text)


WORDS = """SELECT FROM WHERE t db . , ( ) * = 'x' 1 AS WITH c JOIN LEFT ON INSERT INTO TABLE VALUES CREATE PARTITION
ds IN UNION ; @ : LIKE NOT NULL AND EXISTS LATERAL VIEW explode SHOW DROP ALTER SET USE CLUSTER""".split()  # noqa: SIM905


@given(st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join))
def test_any_words_are_read_or_refused_in_our_own_words(text: str) -> None:
    with suppress(StatementSyntaxError, InvalidParametersError):
        read(text, None)
