"""``hivex namespace``: the dependencies of a namespace, with scripts and DAG files; its move, also as a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.namespaces import HivexImportNamespaceOperator, HivexMoveNamespaceOperator
from tests.acceptance.linked_rows import rows_of
from tests.airflow.runs import context
from tests.integration.test_documentation import ROOT, blocks

DAG_FILE = """
from airflow.sdk import DAG
from airflow_hivex.operators.query import HivexQueryOperator

with DAG("nightly"):
    HivexQueryOperator(task_id="load", sql="INSERT INTO own SELECT * FROM b.t", database="a")
    HivexQueryOperator(task_id="fine", sql=["SELECT * FROM t@b", "SELECT * FROM own"])
    HivexQueryOperator(task_id="elsewhere", sql="SELECT 1", database="b")
"""


def check(url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, object]]]:
    code = main(["--metastore", url, "namespace", "check", "a", "--format", "json", *arguments])
    found = json.loads(capsys.readouterr().out)
    return code, [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


@pytest.mark.airflow
def test_check_reads_scripts_and_dag_files(sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        for text in (
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE b.t (id int)",
            "CREATE TABLE a.own (id int)",
        ):
            session.sql(text)
        metastore.links.create("a", "t@b")
    code, rows = check(sqlite_url, capsys)
    assert (code, [row["kind"] for row in rows]) == (0, ["link"])
    assert main(["--metastore", sqlite_url, "namespace", "check", "--all", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == ["namespace", "closed_mode", "dependencies", "a", "b", "default"]
    assert found["rows"][0] == ["a", False, 0, "", "1 link", ""]
    script, dag = tmp_path / "nightly.sql", tmp_path / "nightly.py"
    script.write_text("SELECT 1;\nSELECT * FROM b.u")
    dag.write_text(DAG_FILE)
    code, rows = check(sqlite_url, capsys, "--sql", str(script), "--dag", str(dag))
    assert code == 1
    shown = [
        (row["object"], row["name"], row["create_link"], row["line"]) for row in rows if row["kind"] == "statement"
    ]
    assert shown == [
        (str(script), "b.u", "CREATE LINK TO u@b", 2),
        ("nightly.load", "b.t", "CREATE LINK TO t@b", 1),
        ("nightly.elsewhere", "b", None, None),
    ]


@pytest.mark.airflow
def test_check_of_files_that_are_not_there_fails(
    sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        session.sql("CREATE DATABASE a")
    empty = tmp_path / "empty.py"
    empty.write_text("number = 1")
    latin = tmp_path / "latin.sql"
    latin.write_bytes("SELECT 'ü'".encode("latin-1"))
    command = ["--metastore", sqlite_url, "namespace", "check", "a"]
    for script in (tmp_path / "missing.sql", tmp_path, latin):
        with pytest.raises(SystemExit, match="2"):
            main([*command, "--sql", str(script)])
        assert f"cannot read {script}" in capsys.readouterr().err
    for dag, reason in ((tmp_path / "missing.py", "does not exist"), (empty, "finds no DAG in")):
        assert main([*command, "--dag", str(dag)]) == 1
        assert reason in capsys.readouterr().err


def test_import_from_a_wrong_url_says_so_and_makes_no_metastore(
    sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters = {"far": {"filesystem": (tmp_path / "far").as_uri(), "jobtracker": "local[2]"}}
    source = f"sqlite:///{tmp_path / 'far.db'}"
    with Metastore.open(source, clusters=clusters) as metastore, metastore.session() as session:
        session.sql("CREATE DATABASE sales")
        session.sql("CREATE TABLE sales.t (id int)")
        session.sql("INSERT INTO sales.t VALUES (1)")
    command = ["--metastore", sqlite_url, "namespace", "import", "sales", "--dry-run", "--from"]
    assert main([*command, f"sqlite:///{tmp_path / 'fra.db'}"]) == 1
    assert "There is no metastore in the database" in capsys.readouterr().err
    assert not (tmp_path / "fra.db").exists()
    with pytest.raises(SystemExit, match="2"):
        main([*command, source])
    assert "Name the clusters of the other metastore by --from-clusters." in capsys.readouterr().err
    assert main([*command, source, "--from-clusters", json.dumps(clusters)]) == 0


@pytest.fixture
def nycflights(warehouse: dict[str, Any]) -> Metastore:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        for text in (
            "CREATE DATABASE nycflights",
            "CREATE TABLE nycflights.flights (id int)",
            "INSERT INTO nycflights.flights VALUES (1)",
            "CREATE TABLE other (id int)",
        ):
            session.sql(text)
    return metastore


def primary_of(metastore: Metastore) -> str:
    return metastore.catalog.get_table("nycflights", "flights").storage.primary.cluster


def move(
    warehouse: dict[str, Any], capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[list[object]]]:
    where = ["--metastore", warehouse["metastore_url"], "--clusters", json.dumps(warehouse["cluster_properties"])]
    command = ["namespace", "move", "nycflights", "--format", "json", *arguments]
    code = main([*where, "--default-cluster", "c1", *command])
    answer = capsys.readouterr().out
    return code, json.loads(answer)["rows"] if answer else []


@pytest.mark.airflow
def test_operator_moves_a_namespace_or_fails_with_the_reasons(nycflights: Metastore) -> None:
    with DAG("moves"):
        plan = HivexMoveNamespaceOperator(task_id="plan", namespace="nycflights", cluster="c2", dry_run=True)
        there = HivexMoveNamespaceOperator(task_id="move", namespace="nycflights", cluster="c2")
        back = HivexMoveNamespaceOperator(task_id="back", namespace="nycflights", cluster="c1")
    planned = plan.execute(context())
    assert (planned["tables"], planned["blockers"]) == (["nycflights.flights"], [])
    assert (planned["size_bytes"] > 0, primary_of(nycflights)) == (True, "c1")
    assert there.execute(context())["tables"] == ["nycflights.flights"]
    assert (primary_of(nycflights), there.execute(context())["is_changed"]) == ("c2", False)
    nycflights.links.create("nycflights", "other@default")
    nycflights.primaries.change("other", "c2")
    with pytest.raises(AirflowFailException, match="WITH LINKED TABLES"):
        back.execute(context())


@pytest.mark.airflow
def test_command_plans_moves_and_cancels(
    nycflights: Metastore, warehouse: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    nycflights.capacity.set_quota("nycflights", 1, "c2")
    code, rows = move(warehouse, capsys, "--to", "c2", "--dry-run")
    assert (code, [row[0] for row in rows]) == (1, ["table", "blocker"])
    nycflights.capacity.drop_quota("nycflights", "c2")
    assert move(warehouse, capsys, "--to", "c2", "--dry-run")[0] == 0
    assert move(warehouse, capsys, "--cancel")[0] != 0
    code, rows = move(warehouse, capsys, "--to", "c2")
    assert (code, rows[0][:4], primary_of(nycflights)) == (0, ["nycflights", "c2", True, 1], "c2")


@pytest.mark.airflow
def test_example_of_the_page_on_moves_runs(nycflights: Metastore, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "how-to" / "move-a-namespace.md"
    exec(blocks(page, "python")[0], {})
    assert "('nycflights.flights',)" in capsys.readouterr().out
    assert primary_of(nycflights) == "c2"
    with nycflights.session() as session:
        assert session.sql(blocks(page, "sql")[0].rstrip().rstrip(";")).rows[0][2] is False


ROUTED_DAG_FILE = """
from airflow.sdk import DAG, Param, task
from airflow_hivex.operators.query import HivexQueryOperator

with DAG("nightly", params={"factor": Param(3, type="integer")}, user_defined_macros={"own": lambda: "own"}):
    @task
    def names():
        return []

    make = HivexQueryOperator(task_id="make", sql="CREATE TABLE new AS SELECT id * {{ params.factor }} AS id FROM own")
    after = HivexQueryOperator(task_id="after", sql="SELECT * FROM new; SELECT * FROM nothing")
    make >> after
    HivexQueryOperator(task_id="day", sql="SELECT '{{ ds }}', '{{ macros.ds_add(ds, 1) }}', id FROM {{ own() }}")
    HivexQueryOperator(task_id="apart", sql="SELECT 1;\\nSELECT * FROM own JOIN far ON own.id = far.id")
    HivexQueryOperator(task_id="pinned", sql="SELECT * FROM own", cluster="c2")
    HivexQueryOperator(task_id="moved", sql=["USE CLUSTER c2", "SELECT * FROM own"], cluster="c1")
    HivexQueryOperator(task_id="chained", sql="USE CLUSTER c2; SELECT * FROM own")
    HivexQueryOperator(task_id="marked", sql="SELECT * FROM own WHERE id = :id", parameters={"id": "{{ ds_nodash }}"})
    HivexQueryOperator(task_id="unmarked", sql="SELECT * FROM own WHERE id = :id")
    HivexQueryOperator(task_id="pulled", sql="SELECT {{ ti.xcom_pull(task_ids='names') }}")
    HivexQueryOperator(task_id="broken", sql="SELECT {{ ds")
    HivexQueryOperator(task_id="failing", sql="SELECT {{ 1 / 0 }}")
    HivexQueryOperator.partial(task_id="mapped").expand(sql=["SELECT * FROM own", "SELECT * FROM gone"])
    HivexQueryOperator.partial(task_id="late").expand(sql=names())
    HivexQueryOperator(task_id="output", sql=names())
"""


@pytest.mark.airflow
def test_check_reports_the_statements_that_routing_would_refuse(
    sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[1]"} for name in ("c1", "c2")}
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore:
        with metastore.session(database="default") as session:
            session.sql("CREATE DATABASE a")
            session.sql("CREATE TABLE a.own (id int)")
            session.sql("USE CLUSTER c2")
            session.sql("CREATE TABLE a.far (id int)")
        before = metastore.notification_log.current_event_id()
        dag = tmp_path / "nightly.py"
        dag.write_text(ROUTED_DAG_FILE)
        options = ["--clusters", json.dumps(clusters), "--default-cluster", "c1", "--dag", str(dag)]
        code, rows = check(sqlite_url, capsys, *options)
        assert metastore.notification_log.current_event_id() == before
        assert metastore.catalog.list_tables("a") == ["far", "own"]
    shown = sorted((str(row["object"]).removeprefix("nightly."), row["kind"], row["reason"]) for row in rows)
    assert code == 1
    expected = [
        ("after", "route", "Table a.nothing does not exist"),
        ("after", "unknown route", "nightly.make creates it"),
        ("apart", "route", "c1 (primary of a.own): a.far (primary c2) is not there"),
        ("broken", "statement", "its template cannot be rendered without a run: "),
        ("chained", "route", "The session is pinned to cluster c2"),
        ("failing", "statement", "its template fails without a run: ZeroDivisionError"),
        ("late", "statement", "it is mapped over values that are known in a run only"),
        ("mapped", "route", "Table a.gone does not exist"),
        ("moved", "route", "The session is pinned to cluster c2"),
        ("output", "statement", "it is known in a run only"),
        ("pinned", "route", "The session is pinned to cluster c2"),
        ("pulled", "statement", "'ti' is undefined"),
        ("unmarked", "route", "id"),
    ]
    assert [each[:2] for each in shown] == [each[:2] for each in expected]
    for (_, _, reason), (_, _, fragment) in zip(shown, expected, strict=True):
        assert fragment in str(reason)
    (apart,) = (row for row in rows if row["object"] == "nightly.apart")
    assert (apart["name"], apart["line"], apart["column"]) == ("SELECT", 2, 1)


@pytest.mark.airflow
def test_command_and_operator_import_from_the_home_of_a_namespace(
    nycflights: Metastore,
    warehouse: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*arguments: str) -> tuple[int, list[list[object]]]:
        code = main(["--metastore", url, "namespace", *arguments, "--format", "json"])
        answer = capsys.readouterr().out
        return code, json.loads(answer)["rows"] if answer else []

    url = f"sqlite:///{tmp_path / 'here' / 'metastore.db'}"
    assert run("import", "nycflights")[0] != 0
    assert run("home", "nycflights", "hivex_default")[1][0][:2] == ["nycflights", "hivex_default"]
    assert run("home", "nycflights", "postgresql://u:secret@db/x", "--replace")[0] != 0
    code, rows = run("import", "nycflights", "--dry-run")
    assert (code, [row[:3] for row in rows]) == (
        0,
        [["planned", "database", "nycflights"], ["planned", "transactional table", "nycflights.flights"]],
    )
    code, rows = run("import", "nycflights")
    assert (code, [row[0] for row in rows]) == (0, ["imported", "imported"])
    with Metastore.open(url) as metastore, metastore.session(database="nycflights") as session:
        assert rows_of(session, "flights") == [(1,)]
    assert [row[0] for row in run("home")[1]] == ["nycflights"]
    assert run("home", "nycflights", "--forget") == (0, [])
    assert run("home", "nycflights")[0] != 0
    # A source that is not there is no reason to create a metastore, neither there nor here.
    extra = {"metastore_url": f"sqlite:///{tmp_path / 'typo.db'}"}
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_TYPO", json.dumps({"conn_type": "hivex", "extra": extra}))
    there = tmp_path / "there.db"
    for wrong in ("hivex_typo", f"sqlite:///{tmp_path / 'typo.db'}"):
        command = ["--metastore", f"sqlite:///{there}", "namespace", "import", "nycflights", "--from", wrong]
        assert main(command) != 0
        assert f"There is no metastore in the database sqlite:///{tmp_path / 'typo.db'}" in capsys.readouterr().err
    with pytest.raises(AirflowFailException, match="There is no metastore"):
        HivexImportNamespaceOperator(task_id="typo", namespace="nycflights", source_conn_id="hivex_typo").execute(
            context()
        )
    assert not (tmp_path / "typo.db").exists()
    assert not there.exists()
    # The operator brings it to another name of the same metastore.
    bring = {"task_id": "bring", "namespace": "nycflights", "into": "copied"}
    with pytest.raises(AirflowFailException, match="No metastore is noted"):
        HivexImportNamespaceOperator(**bring).execute(context())
    task = HivexImportNamespaceOperator(source_conn_id="hivex_default", **bring)
    assert task.execute(context())["imported"] == ["copied.flights"]
    assert task.execute(context())["present"] == ["copied.flights"]
    nycflights.links.create("nycflights", "other@default")
    with pytest.raises(AirflowFailException, match="Not imported: other@default"):
        task.execute(context())
