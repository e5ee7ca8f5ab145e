"""The SQL operators, checks, sensors and transfers of common.sql, as they are, on a connection of type hivex."""

from __future__ import annotations

import uuid
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from airflow.providers.common.sql.operators.generic_transfer import GenericTransfer
from airflow.providers.common.sql.operators.sql import (
    BranchSQLOperator,
    SQLCheckOperator,
    SQLColumnCheckOperator,
    SQLExecuteQueryOperator,
    SQLInsertRowsOperator,
    SQLIntervalCheckOperator,
    SQLTableCheckOperator,
    SQLThresholdCheckOperator,
    SQLValueCheckOperator,
)
from airflow.providers.common.sql.sensors.sql import SqlSensor
from airflow.sdk import DAG, BaseHook, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from sqlalchemy import create_engine
from sqlalchemy.exc import ArgumentError

from airflow_hivex.core import dbapi
from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, NoSuchTableError
from airflow_hivex.hooks.hivex import HivexHook
from tests.dialect import register
from tests.integration.test_documentation import blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

CONN = "hivex_default"
TODAY = "2024-05-02"


@pytest.fixture
def hook(warehouse: dict[str, Any]) -> HivexHook:
    hook = HivexHook()
    hook.run("CREATE DATABASE shop; CREATE TABLE shop.sales (id INT, amount DECIMAL(10,2), day DATE)")
    hook.insert_rows(
        "shop.sales",
        [(1, Decimal("1.50"), date(2024, 5, 1)), (2, Decimal("2.50"), date(2024, 5, 2)), (3, None, date(2024, 5, 2))],
    )
    return hook


def test_every_operator_of_common_sql_runs_on_the_connection(hook: HivexHook, run_dag: Callable[..., DagRun]) -> None:
    seen: dict[str, Any] = {}
    with DAG("hivex_common_sql", schedule=None, default_args={"conn_id": CONN}) as dag:
        query = SQLExecuteQueryOperator(
            task_id="query",
            sql="SELECT id, amount FROM sales WHERE id < :most",
            parameters={"most": 2},
            database="shop",
        )
        script = SQLExecuteQueryOperator(
            task_id="script",
            sql="CREATE TABLE shop.days (day DATE, sold DECIMAL(20,2)); "
            "INSERT INTO shop.days SELECT day, SUM(amount) FROM shop.sales GROUP BY day",
        )
        checks = [
            SQLColumnCheckOperator(
                task_id="columns",
                table="shop.sales",
                column_mapping={
                    "id": {"null_check": {"equal_to": 0}, "unique_check": {"equal_to": 0}, "max": {"leq_to": 3}},
                    "amount": {"min": {"greater_than": 1}, "distinct_check": {"geq_to": 2}},
                },
            ),
            SQLTableCheckOperator(
                task_id="table",
                table="shop.sales",
                checks={"rows": {"check_statement": "COUNT(*) = 3"}, "sum": {"check_statement": "SUM(amount) > 3"}},
            ),
            SQLValueCheckOperator(
                task_id="value", sql="SELECT SUM(amount) FROM shop.sales", pass_value=4, tolerance=0.1
            ),
            SQLIntervalCheckOperator(
                task_id="interval",
                table="shop.sales",
                date_filter_column="day",
                days_back=-1,
                metrics_thresholds={"COUNT(*)": 3},
            ),
            SQLThresholdCheckOperator(
                task_id="threshold",
                sql="SELECT COUNT(*) FROM shop.sales",
                min_threshold=1,
                max_threshold="SELECT MAX(id) FROM shop.sales",
            ),
            SQLCheckOperator(task_id="check", sql="SELECT COUNT(*), MAX(id) FROM shop.sales"),
        ]
        sensor = SqlSensor(
            task_id="sensor", sql="SELECT COUNT(*) FROM shop.days", success=lambda count: count == 2, poke_interval=0.1
        )
        branch = BranchSQLOperator(
            task_id="branch",
            sql="SELECT COUNT(*) > 0 FROM shop.sales",
            follow_task_ids_if_true=["transfer"],
            follow_task_ids_if_false=["never"],
        )
        transfer = GenericTransfer(
            task_id="transfer",
            sql="SELECT id, amount, day FROM shop.sales",
            source_conn_id=CONN,
            destination_conn_id=CONN,
            destination_table="shop.copied",
            preoperator="CREATE TABLE shop.copied (id INT, amount DECIMAL(10,2), day DATE)",
        )
        insert = SQLInsertRowsOperator(
            task_id="insert", table_name="shop.sales", columns=["id", "day"], rows=[(4, date(2024, 5, 3))]
        )

        @task
        def never() -> None:
            raise AssertionError

        @task
        def look(rows: list[Any]) -> None:
            seen["rows"] = rows

        script >> sensor
        script >> checks >> branch >> [transfer, never()]
        transfer >> insert
        look(query.output)
    run = run_dag(dag, logical_date=datetime.fromisoformat(f"{TODAY}T00:00:00+00:00"))
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert states.pop("never") == "skipped"
    assert set(states.values()) == {"success"}, states
    assert [tuple(row) for row in seen["rows"]] == [(1, Decimal("1.50"))]
    assert len(hook.get_records("SELECT * FROM shop.copied")) == 3
    assert hook.get_first("SELECT id, amount FROM shop.sales WHERE id = 4") == (4, None)
    assert hook.get_records("SELECT day, sold FROM shop.days ORDER BY day") == [
        (date(2024, 5, 1), Decimal("1.50")),
        (date(2024, 5, 2), Decimal("2.50")),
    ]


def test_check_that_fails_fails_the_task(hook: HivexHook) -> None:
    check = SQLColumnCheckOperator(
        task_id="t", conn_id=CONN, table="shop.sales", column_mapping={"amount": {"null_check": {"equal_to": 0}}}
    )
    with pytest.raises(AirflowException, match="null_check"):
        check.execute({})


def test_records_and_first_row_take_both_kinds_of_markers(hook: HivexHook) -> None:
    assert hook.get_records("SELECT id FROM shop.sales WHERE id > ? ORDER BY id", parameters=(1,)) == [(2,), (3,)]
    assert hook.get_first("SELECT id FROM shop.sales WHERE id = :id", parameters={"id": 2}) == (2,)
    assert hook.get_records("CREATE TABLE shop.empty (a INT)") is None
    counts = hook.run(["SHOW TABLES IN shop", "SELECT 1"], handler=lambda cursor: len(cursor.fetchall()))
    assert counts == [2, 1]


def test_frames_of_pandas_and_polars_have_rows_and_types(hook: HivexHook) -> None:
    sql = "SELECT id, amount, day FROM shop.sales ORDER BY id"
    pandas = hook.get_df(sql)
    assert list(pandas.columns) == ["id", "amount", "day"]
    assert pandas["amount"].tolist()[:2] == [Decimal("1.50"), Decimal("2.50")]
    assert [len(part) for part in hook.get_df_by_chunks(sql, chunksize=2)] == [2, 1]
    import polars as pl

    polars = hook.get_df("SELECT id, amount, day FROM shop.sales WHERE id > :a", {"a": 9}, df_type="polars")
    assert polars.schema == {"id": pl.Int32, "amount": pl.Decimal(10, 2), "day": pl.Date}
    assert hook.get_df(sql, df_type="polars")["id"].to_list() == [1, 2, 3]


def test_script_without_autocommit_is_one_transaction(hook: HivexHook) -> None:
    script = ["INSERT INTO shop.sales (id) VALUES (10)", "INSERT INTO shop.sales SELECT * FROM shop.nowhere"]
    with pytest.raises(NoSuchTableError):
        hook.run(script, autocommit=False)
    assert hook.get_first("SELECT COUNT(*) FROM shop.sales") == (3,)
    with pytest.raises(NoSuchTableError):
        hook.run(script, autocommit=True)
    assert hook.get_first("SELECT COUNT(*) FROM shop.sales") == (4,)


def test_inserted_rows_become_visible_together_or_not_at_all(hook: HivexHook) -> None:
    def rows() -> Any:
        yield (20, Decimal(1), date(2024, 6, 1))
        yield (21, Decimal(1), "not a date")

    with pytest.raises(dbapi.DatabaseError):
        hook.insert_rows("shop.sales", rows())
    with pytest.raises(InvalidOperationError, match="row 1"):
        hook.insert_rows("shop.sales", [(1, 2)], target_fields=["id"])
    with pytest.raises(InvalidOperationError, match="MERGE"):
        hook.insert_rows("shop.sales", [(1,)], target_fields=["id"], replace=True)
    assert hook.get_first("SELECT COUNT(*) FROM shop.sales") == (3,)
    hook.run("CREATE TABLE shop.texts (a STRING, b BIGINT)")
    hook.insert_rows("shop.texts", ((uuid.UUID(int=n), n) for n in range(25_000)), target_fields=("a", "b"))
    assert hook.get_first("SELECT COUNT(*), MAX(b) FROM shop.texts") == (25_000, 24_999)
    hook.insert_rows("shop.texts", [])


def test_run_as_it_was_returns_the_result(hook: HivexHook) -> None:
    result = hook.run("SELECT id FROM shop.sales WHERE id = :a", {"a": 1}, max_rows=5)
    assert (result.rows, result.columns, result.cluster) == ([(1,)], ["id"], "c1")
    with pytest.raises(InvalidOperationError, match="START TRANSACTION has no COMMIT"):
        hook.run("START TRANSACTION; INSERT INTO shop.sales (id) VALUES (9)")


def test_hook_describes_its_database_without_secrets(hook: HivexHook) -> None:
    assert hook.get_uri() == "hivex://hivex_default/default"
    assert HivexHook(schema="shop").get_uri() == "hivex://hivex_default/shop"
    assert HivexHook(schema="shop").dialect.get_target_fields("sales") == ["id", "amount", "day"]
    assert hook.dialect.escape_word("a b`c") == "`a b``c`"
    assert hook.dialect.escape_word("plain") == "plain"


def test_engine_and_inspector_of_sqlalchemy_use_the_connection(hook: HivexHook) -> None:
    register()
    of_shop = HivexHook(schema="shop", cluster="c1", user="ann")
    assert of_shop.sqlalchemy_url.render_as_string(hide_password=False) == (
        "hivex://hivex_default/shop?cluster=c1&user=ann"
    )
    assert of_shop.inspector.get_table_names() == ["sales"]
    assert [column["name"] for column in hook.inspector.get_columns("sales", "shop")] == ["id", "amount", "day"]
    engine = of_shop.get_sqlalchemy_engine()
    frame = pd.read_sql("SELECT id, amount FROM sales ORDER BY id", engine)
    assert frame["id"].tolist() == [1, 2, 3]
    assert frame.to_sql("copies", engine, index=False) == 3
    engine.dispose()
    assert hook.get_first("SELECT COUNT(*) FROM shop.copies") == (3,)
    with pytest.raises(ArgumentError, match="does not take clusters"):
        create_engine("hivex://hivex_default/shop?clusters=x")


def test_connection_of_the_hook_is_one_of_pep_249(hook: HivexHook) -> None:
    with hook.get_conn() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop.sales (id) VALUES (?)", (30,))
        connection.rollback()
        cursor.execute("SHOW TABLES IN shop")
        assert cursor.fetchone() == ("sales",)
    assert hook.get_first("SELECT COUNT(*) FROM shop.sales") == (3,)


def test_hook_takes_the_fields_of_its_connection_and_nothing_else(warehouse: dict[str, Any]) -> None:
    hook = BaseHook.get_connection(CONN).get_hook(hook_params={"metastore_url": "x", "cluster": "c2", "schema": "d"})
    assert (hook.cluster, hook.schema, hook.hivex_conn_id) == ("c2", "d", CONN)
    with pytest.raises(AirflowFailException, match="does not take keytab"):
        HivexHook(keytab="x")


def test_parameters_that_fit_no_marker_are_an_error(hook: HivexHook) -> None:
    with pytest.raises(InvalidParametersError):
        hook.get_records("SELECT ?", parameters=(1, 2))
    # Before, values were dropped where no statement had a marker.
    with pytest.raises(InvalidParametersError, match="%s is a marker of other drivers"):
        hook.run("DROP DATABASE IF EXISTS nothing; SELECT v %s FROM shop.sales", parameters=(1,))
    with pytest.raises(InvalidParametersError, match="0 markers"):
        hook.run("SELECT 1", parameters=["a"])
    assert hook.run("SELECT 'what?'; SELECT ?", parameters=(1,), handler=lambda cursor: cursor.fetchall()) == [(1,)]


def test_examples_of_the_page_run_one_after_the_other(
    hook: HivexHook, run_dag: Callable[..., DagRun], capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "sql-operators.md"
    of_dag, of_hook, _ = blocks(page, "python")
    names: dict[str, Any] = {}
    exec(of_dag, names)
    run = run_dag(names["dag"])
    assert {str(ti.state) for ti in run.get_task_instances()} == {"success"}
    exec(of_hook, names)
    assert names["rows"] == [(2, Decimal("2.50")), (3, None)]
    assert (names["first"], len(names["frame"]), names["result"].rows) == ((3,), 3, [(5,)])
