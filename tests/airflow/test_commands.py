"""`airflow hivex ...`, through Airflow's own parser, and `@task.hivex_sql`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task

from airflow_hivex.hooks.hivex import HivexHook
from tests.airflow.runs import states
from tests.integration.test_documentation import blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    from airflow.cli.cli_parser import get_parser

    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    parser = get_parser()

    def run(*arguments: str) -> int:
        options = parser.parse_args(arguments)
        with pytest.raises(SystemExit) as ended:
            options.func(options)
        return int(ended.value.code or 0)

    return run


def test_commands_run_on_a_connection_of_airflow(
    warehouse: dict[str, Any],
    airflow: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    HivexHook().run("CREATE DATABASE shop; CREATE TABLE shop.sales (id INT); INSERT INTO shop.sales VALUES (1), (2)")
    in_shop = {"conn_type": "hivex", "extra": warehouse | {"database": "shop"}}
    monkeypatch.setenv("AIRFLOW_CONN_IN_SHOP", json.dumps(in_shop))
    monkeypatch.setenv("HIVEX_METASTORE_URL", "sqlite:////nonexistent/other.db")
    assert airflow("hivex", "--conn-id", "in_shop", "sql", "-e", "SHOW TABLES") == 0
    assert "sales" in capsys.readouterr().out
    assert airflow("hivex", "metastore", "status") == 0
    assert "state: current" in capsys.readouterr().out
    assert airflow("hivex", "sql", "-e", "SELEC 1") == 1
    assert "Line 1, column 1" in capsys.readouterr().err
    assert airflow("hivex", "--conn-id", "nowhere", "sql", "-e", "SHOW TABLES") == 1
    assert "nowhere" in capsys.readouterr().err
    assert airflow("hivex", "sql", "--metastore", "sqlite:///x", "-e", "SHOW TABLES") == 2
    assert "those of the connection" in capsys.readouterr().err
    assert airflow("hivex", "sql", "--help") == 0
    assert "airflow hivex sql" in capsys.readouterr().out


def test_function_of_a_task_returns_its_sql(warehouse: dict[str, Any], run_dag: Callable[..., DagRun]) -> None:
    seen: dict[str, Any] = {}
    with DAG("hivex_decorated", schedule=None) as dag:

        @task.hivex_sql(parameters={"least": 1}, max_rows=10)
        def numbers(most: int) -> str:
            return f"SELECT id FROM range({most}) WHERE id >= :least AND '{{{{ dag.dag_id }}}}' = 'hivex_decorated'"

        @task
        def look(result: dict[str, Any]) -> None:
            seen.update(result)

        look(numbers(3))
    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}, states(run)
    assert seen["rows"] == [[1], [2]]


def test_example_of_the_page_is_a_dag(warehouse: dict[str, Any]) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "airflow-commands.md"
    (block,) = blocks(page, "python")
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["dag"].get_task("numbers").parameters == {"least": 1}


def test_function_that_returns_no_sql_fails_its_task() -> None:
    with DAG("hivex_no_sql", schedule=None):

        @task.hivex_sql
        def nothing() -> Any:
            return [""]

        operator = nothing().operator
    with pytest.raises(TypeError, match="must return a text of SQL"):
        operator.execute({})
    with DAG("hivex_two_sqls", schedule=None), pytest.raises(TypeError, match="takes no sql"):
        task.hivex_sql(lambda: "SELECT 1", sql="SELECT 1")()
