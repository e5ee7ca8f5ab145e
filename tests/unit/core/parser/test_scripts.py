from __future__ import annotations

import pytest

from airflow_hivex.core.parser.lexer.substitution import is_complete, share_parameters


def test_each_statement_gets_the_parameters_it_has_markers_for() -> None:
    statements = ["SELECT :a", "USE db", "SELECT :b, ':c' -- :c", "SELECT :a + :b"]
    assert share_parameters(statements, {"a": 1, "b": 2}) == [{"a": 1}, None, {"b": 2}, {"a": 1, "b": 2}]


def test_no_parameters_stay_none() -> None:
    assert share_parameters(["SELECT 1", "SELECT 2"], None) == [None, None]


def test_parameter_without_any_marker_is_skipped_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    statements = ["SELECT :a", "SELECT ':c' /* :c */"]
    assert share_parameters(statements, {"a": 1, "c": 2}) == [{"a": 1}, None]
    assert share_parameters(["SELECT 1"], {"c": 2}) == [None]
    assert [record.message for record in caplog.records] == ["No marker of the statements uses the parameters c."] * 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done\n", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1; SELECT", False),
        ("SELECT 1 /* ;", False),
        ("-- ;", False),
        ("", False),
    ],
)
def test_text_is_complete_with_the_semicolon_of_a_statement(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
