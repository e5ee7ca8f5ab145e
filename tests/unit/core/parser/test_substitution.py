from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, StatementSyntaxError
from airflow_hivex.core.parser.grammar.session_settings import variable_statement
from airflow_hivex.core.parser.lexer.substitution import share_parameters, substituted
from airflow_hivex.core.parser.reader import read, split
from airflow_hivex.core.parser.statements import SetConfiguration, SetSetting
from airflow_hivex.core.settings import MAX_LAG


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("SELECT ${hivevar:x}, ${x}, '${x}', ${hiveconf:x}", "SELECT 1, 1, '1', conf"),
        ("SELECT `${y}`", "SELECT `1_1`"),
        ("SELECT '${unknown}', '${env:HOME}', '${system:x}', '${hiveconf:y}'", None),
        ("SELECT '$x', '${ x }', '${}', '{x}'", None),
        ("SELECT ${hivevar:quoted}", "SELECT 'it''s; --'"),
    ],
)
def test_values_of_variables_are_put_into_a_text(text: str, replaced: str | None) -> None:
    variables = {"x": "1", "y": "${x}_${hivevar:x}", "quoted": "'it''s; --'"}
    assert substituted(text, variables, {"x": "conf"}) == (replaced or text)


def test_variables_that_name_each_other_are_refused() -> None:
    with pytest.raises(InvalidOperationError, match="without each other"):
        substituted("SELECT ${a}", {"a": "${b}", "b": "${a}"}, {})


def test_a_variable_without_a_value_is_refused_at_its_place() -> None:
    with pytest.raises(StatementSyntaxError, match=r"\$\{x\} has no value; SET hivevar:x = ") as error:
        read("SELECT ${x}")
    assert error.value.column == 8
    with pytest.raises(StatementSyntaxError, match=r"SET hiveconf:a\.b = "):
        read("SELECT ${hiveconf:a.b}")
    with pytest.raises(StatementSyntaxError, match="a variable is written"):
        read("SELECT $x")


def test_scripts_are_parted_before_their_variables_have_values() -> None:
    script = "SET hivevar:x=1; SELECT ${x}, ':y', ${hiveconf:z}, :w;"
    statements = ["SET hivevar:x=1", "SELECT ${x}, ':y', ${hiveconf:z}, :w"]
    assert split(script) == statements
    assert share_parameters(statements, {"w": 1, "z": 2}) == [None, {"w": 1}]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET hivevar:day=2024-02-29", "hivevar:day", "2024-02-29"),
        ("SET HIVEVAR:Day = '2024-02-29'", "hivevar:Day", "'2024-02-29'"),
        ("SET hivevar:day", "hivevar:day", None),
        ("SET hivevar:day =", "hivevar:day", ""),
        ("SET day = 'a' , b", "day", "'a' , b"),
        ("SET hiveconf:day = 1", "day", "1"),
        ("SET hiveconf:hive.exec.parallel = true", "hive.exec.parallel", "true"),
        ("SET spark.sql.x = 'a'", "spark.sql.x", "a"),
    ],
)
def test_the_value_of_a_variable_is_a_piece_of_text(text: str, name: str, value: str | None) -> None:
    assert read(text) == SetConfiguration(name, value)


def test_a_variable_may_have_any_text() -> None:
    assert variable_statement("hivevar:x", "O'Brien #1") == SetConfiguration("hivevar:x", "O'Brien #1")
    assert variable_statement(f"hiveconf:{MAX_LAG}", "10min") == SetSetting(MAX_LAG, "10min")
    with pytest.raises(InvalidParametersError, match="belongs to spark_conf"):
        variable_statement("hiveconf:spark.executor.memory", "1g")


def test_set_minus_v_shows_all() -> None:
    assert read("SET -v") == SetConfiguration(shows_all=True)
