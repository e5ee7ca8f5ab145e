"""The statement that a MERGE of a DataFrame becomes; no Spark is needed to see it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, SqlError
from airflow_hivex.core.execution.context import Result
from airflow_hivex.core.merging import Merge, condition_of


class _Ran(list[tuple[str, dict[str, object]]]):
    """What was run."""

    def __call__(self, text: str, parameters: Any, _: DataFrame) -> Result:
        self.append((text, dict(parameters)))
        return Result(rows_written=1)


def _merge(ran: _Ran, on: Any = ("id", "my key"), **parameters: object) -> Merge:
    rows: Any = None
    return Merge(ran, rows, "db.t", condition_of(on, "s", "t"), "s", "t", parameters)


def test_clauses_become_one_statement() -> None:
    ran = _Ran()
    merge = (
        _merge(ran, merge_value_0=7)
        .when_matched_delete("s.gone -- for good")
        .when_matched_update({"n": "t.n + s.n", "day": date(2024, 1, 1), "odd`name": "DEFAULT"})
        .when_not_matched_insert({"id": "s.id", "n": None}, "s.n > :merge_value_0")
        .when_not_matched_by_source_update({"n": 0})
        .when_not_matched_by_source_delete()
    )
    assert merge.execute().rows_written == 1
    text, parameters = ran[0]
    assert text.splitlines() == [
        "MERGE INTO db.t AS `t` USING {rows} AS `s` ON `t`.`id` = `s`.`id` AND `t`.`my key` = `s`.`my key`",
        "WHEN MATCHED AND (s.gone -- for good",
        ") THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET `n` = (t.n + s.n",
        "), `day` = :merge_value_1, `odd``name` = DEFAULT",
        "WHEN NOT MATCHED AND (s.n > :merge_value_0",
        ") THEN INSERT (`id`, `n`) VALUES ((s.id",
        "), :merge_value_2)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET `n` = :merge_value_3",
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ]
    assert parameters == {"merge_value_0": 7, "merge_value_1": date(2024, 1, 1), "merge_value_2": None} | {
        "merge_value_3": 0
    }


def test_a_merge_can_go_on_in_two_ways() -> None:
    ran = _Ran()
    merge = _merge(ran, "s.id = t.id").when_matched_update_all("s.n IS NOT NULL")
    merge.when_not_matched_insert_all().execute()
    merge.execute()
    assert [text.count("WHEN") for text, _ in ran] == [2, 1]


@pytest.mark.parametrize(
    "text", ["", "-- nothing", "a) THEN DELETE WHEN MATCHED AND (b", "(a", "a; DROP TABLE t", "'a", "{rows}.id"]
)
def test_a_condition_cannot_end_its_clause(text: str) -> None:
    with pytest.raises(SqlError):
        _merge(_Ran()).when_matched_delete(text)
    with pytest.raises(SqlError):
        _merge(_Ran(), text)
    with pytest.raises(SqlError):
        _merge(_Ran()).when_matched_update({"n": text})


def test_a_merge_without_clauses_columns_or_texts_is_refused() -> None:
    with pytest.raises(InvalidOperationError, match="no clause"):
        _merge(_Ran()).execute()
    with pytest.raises(InvalidParametersError, match="assigns no column"):
        _merge(_Ran()).when_matched_update({})
    with pytest.raises(InvalidParametersError, match="name them in on"):
        _merge(_Ran(), [])
    not_a_text: Any = 1
    with pytest.raises(InvalidParametersError, match="condition of a MERGE is a int"):
        _merge(_Ran()).when_matched_delete(not_a_text)
