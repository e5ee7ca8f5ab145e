from __future__ import annotations

import pytest

from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT input__file__name, id FROM t", "SELECT input_file_name() AS `input__file__name`, id FROM v AS `t`"),
        (
            "SELECT t.INPUT__FILE__NAME f FROM t WHERE BLOCK__OFFSET__INSIDE__FILE = 0 ORDER BY INPUT__FILE__NAME",
            "SELECT input_file_name() f FROM v AS `t` WHERE input_file_block_start() = 0 ORDER BY input_file_name()",
        ),
        (
            "SELECT count(*) FROM t GROUP BY upper(INPUT__FILE__NAME)",
            "SELECT count(*) FROM v AS `t` GROUP BY upper(input_file_name())",
        ),
        ("SELECT `INPUT__FILE__NAME` FROM t", "SELECT `INPUT__FILE__NAME` FROM v AS `t`"),
        ("SELECT 'INPUT__FILE__NAME' FROM t", "SELECT 'INPUT__FILE__NAME' FROM v AS `t`"),
    ],
)
def test_virtual_columns_of_hive_are_functions_of_spark(text: str, expected: str) -> None:
    statement = read(text)
    assert isinstance(statement, Select)
    assert statement.query.render(["v"]) == expected
