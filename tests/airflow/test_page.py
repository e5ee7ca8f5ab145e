"""The routes of the page Hivex, through a real application of Airflow with real users."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from anyio import to_thread

from airflow_hivex.core.errors import HivexError, TransactionAbortedError
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.hooks.configuration import EXTRAS
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.plugins.page.admission import MOST_CALLS
from airflow_hivex.plugins.page.application import create_application
from tests.airflow.page_clients import HEADERS, application, client_of, post, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.models.dagrun import DagRun
    from fastapi.testclient import TestClient

    from airflow_hivex.core import Metastore

pytestmark = pytest.mark.airflow
ODD = "<b onclick=\"x('y')\">'; --"
READS = (
    "overview",
    "clusters",
    "storage",
    "transactions",
    "locks",
    "waits",
    "cleaning",
    "statements",
    "statements/summary",
    "statements/grown",
    "compactions",
    "compactions/charts",
    "tables",
    "namespaces",
    "cache",
)


@pytest.fixture(scope="module")
def app(airflow_database: None) -> Any:
    return application()


@pytest.fixture
def viewer(app: Any) -> TestClient:
    return client_of(app, "viewer")


@pytest.fixture
def editor(app: Any) -> TestClient:
    return client_of(app, "op")


@pytest.fixture
def anonymous(app: Any) -> TestClient:
    return client_of(app, None)


@pytest.fixture
def metastore(warehouse: dict[str, Any], sqlite_template: Path) -> Iterator[Metastore]:
    """The metastore of the connection, as a task has it."""
    from airflow_hivex.core import Metastore

    shutil.copy(sqlite_template, warehouse["metastore_url"].removeprefix("sqlite:///"))
    with Metastore.open(
        warehouse["metastore_url"], clusters=warehouse["cluster_properties"], default_cluster="c1"
    ) as opened:
        yield opened


def audit(event: str) -> list[dict[str, Any]]:
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(select(Log).where(Log.event == f"hivex.{event}").order_by(Log.id)).all()
        return [{"owner": row.owner, "name": row.owner_display_name, **json.loads(row.extra or "{}")} for row in rows]


def test_anonymous_caller_gets_nothing(metastore: Metastore, anonymous: TestClient) -> None:
    for path in (*(f"api/{each}" for each in READS), "static/hivex.js", "docs", "openapi.json"):
        answer = anonymous.get(f"/hivex/{path}", params={"conn_id": "hivex_default"})
        assert answer.status_code == 401 or (path in ("docs", "openapi.json") and answer.status_code == 404), path
    (txn_id,) = metastore.transactions.open()
    assert post(anonymous, "transactions/abort", {"txn_id": txn_id}).status_code == 401
    assert metastore.transactions.get(txn_id).state.name == "OPEN"


def test_viewer_reads_each_tab(metastore: Metastore, viewer: TestClient) -> None:
    for path in READS:
        read(viewer, path)
    assert read(viewer, "connections")["connections"][0] == {"conn_id": "hivex_default", "may_edit": False}


def test_viewer_reads_each_tab_of_a_metastore_on_postgresql(
    warehouse: dict[str, Any], postgresql_url: str, viewer: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_hivex.core import Metastore
    from airflow_hivex.hooks.hivex import close_metastores

    extra = {**warehouse, "metastore_url": postgresql_url}
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    with (
        Metastore.open(postgresql_url, clusters=warehouse["cluster_properties"], default_cluster="c1") as opened,
        opened.session() as session,
    ):
        session.sql("CREATE TABLE t (a INT)")
        session.sql("INSERT INTO t VALUES (1)")
        opened.transactions.open(user=ODD)
    try:
        for path in READS:
            read(viewer, path)
        for path in ("table", "table/copies", "table/partitions", "table/directories", "compactions/explain"):
            read(viewer, path, database="default", table="t")
        assert [each["user"] for each in read(viewer, "transactions", search="ONCLICK")["rows"]] == [ODD]
    finally:
        close_metastores()


def test_bundle_is_served_to_users(metastore: Metastore, viewer: TestClient) -> None:
    answer = viewer.get("/hivex/static/hivex.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/javascript")
    for module in re.findall(r'from "\./([^"]+)"', answer.text):
        assert viewer.get(f"/hivex/static/{module}").status_code == 200, module
    for path in ("../application.py", "..%2Fapplication.py", "nothing.js"):
        assert viewer.get(f"/hivex/static/{path}").status_code == 404


def test_viewer_changes_nothing(metastore: Metastore, viewer: TestClient) -> None:
    (txn_id,) = metastore.transactions.open()
    for path, body in (
        ("transactions/abort", {"txn_id": txn_id}),
        ("locks/release", {"lock_id": 1}),
        ("compactions/request", {"database": "default", "table": "t"}),
        ("compactions/withdraw", {"id": 1}),
    ):
        before = len(audit(path.replace("/", "_")))
        answer = post(viewer, path, body)
        assert answer.status_code == 403, path
        assert len(audit(path.replace("/", "_"))) == before
    assert metastore.transactions.get(txn_id).state.name == "OPEN"


@pytest.mark.parametrize(
    "forged",
    [
        {"headers": {"Content-Type": "text/plain", **HEADERS}},
        {"headers": {"Content-Type": "application/x-www-form-urlencoded", **HEADERS}},
        {"headers": {"Content-Type": "application/json"}},
        {"headers": {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site", **HEADERS}},
        {"headers": {"Content-Type": "application/json", "Sec-Fetch-Site": "same-site", **HEADERS}},
        {"headers": {"Content-Type": "application/json", "Origin": "http://evil.example", **HEADERS}},
    ],
    ids=["text", "form", "no header", "another site", "a sibling site", "another origin"],
)
def test_forged_request_changes_nothing(metastore: Metastore, editor: TestClient, forged: dict[str, Any]) -> None:
    (txn_id,) = metastore.transactions.open()
    answer = editor.post(
        "/hivex/api/transactions/abort?conn_id=hivex_default", content=json.dumps({"txn_id": txn_id}), **forged
    )
    assert answer.status_code in (403, 415)
    assert editor.get(f"/hivex/api/transactions/abort?conn_id=hivex_default&txn_id={txn_id}").status_code == 405
    assert metastore.transactions.get(txn_id).state.name == "OPEN"


def test_editor_aborts_a_transaction_on_the_record(metastore: Metastore, editor: TestClient) -> None:
    (txn_id,) = metastore.transactions.open(user="etl")
    answer = post(editor, "transactions/abort", {"txn_id": txn_id, "reason": ODD}, Origin="http://localhost:8080")
    assert answer.json() == {"message": f"Transaction {txn_id} is aborted."}
    with pytest.raises(TransactionAbortedError, match="aborted by a op in the Airflow UI"):
        metastore.commit(txn_id)
    entry = audit("abort_transaction")[-1]
    assert (entry["name"], entry["txn_id"], entry["reason"], entry["outcome"]) == ("a op", txn_id, ODD, "done")
    failed = post(editor, "transactions/abort", {"txn_id": 4711})
    assert failed.status_code == 404
    assert "4711" in failed.json()["error"]["message"]
    assert audit("abort_transaction")[-1]["outcome"] == "failed"


def test_editor_releases_a_waiting_request_only(metastore: Metastore, editor: TestClient) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT)")
    one, other = metastore.transactions.open(2)
    exclusive = [LockComponent("default", "t", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)]
    held = metastore.locks.acquire(exclusive, txn_id=one)
    waits = metastore.locks.acquire(exclusive, txn_id=other, wait=False)
    (edge,) = read(editor, "waits")["rows"]
    assert (edge["txn_id"], edge["for_txn_id"], edge["resource"]) == (other, one, "default/t")
    refused = post(editor, "locks/release", {"lock_id": held.lock_id})
    assert refused.status_code == 409
    assert f"transaction {one}" in refused.json()["error"]["message"]
    assert post(editor, "locks/release", {"lock_id": waits.lock_id}).status_code == 200
    assert [each.lock_id for each in metastore.locks.show()] == [held.lock_id]
    again = post(editor, "locks/release", {"lock_id": waits.lock_id})
    assert again.status_code == 409
    assert "has been released already" in again.json()["error"]["message"]


def test_lists_are_paged_sorted_and_searched(metastore: Metastore, viewer: TestClient) -> None:
    for name in ("anna", ODD, "bert"):
        metastore.transactions.open(user=name)
    first = read(viewer, "transactions", limit=2, order_by="user")
    last = read(viewer, "transactions", limit=2, offset=2, order_by="user")
    assert first["total"] == last["total"] == 3
    assert [each["user"] for each in (*first["rows"], *last["rows"])] == sorted(["anna", ODD, "bert"])
    assert read(viewer, "transactions", offset=10)["total"] == 3
    assert [each["user"] for each in read(viewer, "transactions", search="onclick=")["rows"]] == [ODD]
    assert read(viewer, "transactions", search="%")["rows"] == []
    for wrong in ({"limit": 501}, {"limit": 0}, {"offset": -1}, {"order_by": "id; drop table txns"}, {"state": "x"}):
        answer = viewer.get("/hivex/api/transactions", params={"conn_id": "hivex_default", **wrong})
        assert answer.status_code in (409, 422), wrong
        assert "error" in answer.json()


def test_owner_is_the_task_instance(metastore: Metastore, viewer: TestClient, store_dag: Any) -> None:
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    with DAG("hivex.page.dag") as dag:
        EmptyOperator(task_id="load")
    store_dag(dag)
    metastore.transactions.open(agent_info="hivex.page.dag.load.sales[3] manual__2026-01-01T00:00:00+00:00 2")
    (row,) = read(viewer, "transactions")["rows"]
    assert row["task"] == {
        "dag_id": "hivex.page.dag",
        "task_id": "load.sales",
        "run_id": "manual__2026-01-01T00:00:00+00:00",
        "map_index": 3,
        "try_number": 2,
    }


def test_compaction_is_requested_explained_and_withdrawn(metastore: Metastore, editor: TestClient) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT)")
        session.sql("INSERT INTO t VALUES (1)")
    answer = post(editor, "compactions/request", {"database": "default", "table": "t", "type": "major"}).json()
    assert answer["is_accepted"]
    assert not post(editor, "compactions/request", {"database": "default", "table": "t"}).json()["is_accepted"]
    (row,) = read(editor, "compactions", state="initiated")["rows"]
    assert (row["id"], row["table"], row["type"], row["is_over"]) == (answer["id"], "t", "major", False)
    assert read(editor, "compactions/charts")["deltas"][0]["deltas"] == 1
    assert read(editor, "compactions/explain", database="default", table="t")["answer"]
    assert post(editor, "compactions/withdraw", {"id": answer["id"]}).json()["is_accepted"]
    assert read(editor, "compactions")["rows"][0]["state"] == "aborted"
    assert audit("request_compaction")[-1]["message"]
    assert post(editor, "compactions/request", {"database": "default", "table": "nothing"}).status_code == 404


def test_effect_of_a_compaction_is_seen_before_its_old_files_are_deleted(
    metastore: Metastore, viewer: TestClient
) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE merged (a INT) TBLPROPERTIES ('transactional' = 'true')")
        for number in range(3):
            session.sql(f"INSERT INTO merged VALUES ({number})")
    place = {"database": "default", "table": "merged"}

    def deltas() -> list[int]:
        rows = read(viewer, "compactions/charts")["deltas"]
        return [row["deltas"] for row in rows if row["table"] == "merged"]

    size = sum(row["size_bytes"] for row in read(viewer, "table/directories", **place)["rows"])
    assert deltas() == [3]
    metastore.compactor.request("default", "merged")
    (waiting,) = read(viewer, "compactions", state="initiated")["rows"]
    assert (waiting["duration_s"], waiting["kept_until"]) == (None, None)
    assert metastore.compactor.work() is not None
    (merged,) = read(viewer, "compactions", state="ready for cleaning")["rows"]
    assert merged["duration_s"] >= 0
    assert merged["kept_until"] >= merged["committed_at"]
    assert deltas() == []
    listed = read(viewer, "table/directories", **place)["rows"]
    assert sorted((row["kind"], row["is_obsolete"]) for row in listed) == [("base", False)] + [("delta", True)] * 3
    (copy,) = read(viewer, "table/copies", **place)["rows"]
    assert (copy["directories"], copy["is_current"]) == (1, True)
    (storage,) = (row for row in read(viewer, "storage")["rows"] if row["cluster"] == "c1")
    assert storage["obsolete_bytes"] == size


def test_transactions_of_a_task_are_listed_in_any_state(metastore: Metastore, viewer: TestClient) -> None:
    agent = "nightly.load scheduled__2026 1"
    committed, aborted, joined, other = metastore.transactions.open(4, user="etl", agent_info="other.task run 1")
    (own,) = metastore.transactions.open(user="etl", agent_info=agent)
    metastore.transactions.commit(committed)
    metastore.transactions.abort(aborted)
    found = read(viewer, "transactions/of", agent=agent, txn_id=[committed, aborted, joined, 999_999])
    states = [(row["id"], row["state"]) for row in found["rows"]]
    assert states == [(own, "open"), (joined, "open"), (aborted, "aborted"), (committed, "committed")]
    assert found["ended"] == [999_999]
    assert other not in {row["id"] for row in found["rows"]}


def test_statements_are_filtered_and_counted(metastore: Metastore, viewer: TestClient) -> None:
    load = TaskTry("nightly", "load", "r1", 1)
    with metastore.session(user="ann", agent_info=load) as session:
        session.sql("CREATE TABLE t (a INT)")
        session.sql("INSERT INTO t VALUES (1), (2)")
        with pytest.raises(HivexError):
            session.sql("SELECT * FROM nothing")
    summary = read(viewer, "statements/summary", hours=24)
    assert (summary["total"], summary["unsuccessful"], summary["dags"]) == (3, 1, ["nightly"])
    listed = read(viewer, "statements", order_by="rows_written", descending=True, dag_id="nightly", table="default.t")
    assert [each["kind"] for each in listed["rows"]] == ["INSERT", "CREATE TABLE"]
    assert (listed["rows"][0]["rows_written"], listed["rows"][0]["outcome"]) == (2, "succeeded")
    assert listed["rows"][0]["task"]["task_id"] == "load"
    (failed,) = read(viewer, "statements", status="unsuccessful", agent=str(load))["rows"]
    assert failed["error_code"] == "NO_SUCH_TABLE"
    assert read(viewer, "statements/grown")["rows"][0]["rows_added"] == 2


def test_waiting_lock_is_reported_with_its_table_and_holder(metastore: Metastore, viewer: TestClient) -> None:
    agent = "nightly.load scheduled__2026 1"
    with metastore.session() as session:
        session.sql("CREATE DATABASE shop")
        session.sql("CREATE TABLE shop.orders (a INT) PARTITIONED BY (day STRING)")
        session.sql("ALTER TABLE shop.orders ADD PARTITION (day = '1')")
    first, second = metastore.transactions.open(2, user="etl", agent_info=agent)
    wanted = [LockComponent("shop", "orders", "day=1", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)]
    metastore.locks.acquire(wanted, txn_id=first, user="etl", agent_info=agent)
    metastore.locks.acquire(wanted, txn_id=second, user="etl", agent_info=agent, wait=False)
    (wait,) = read(viewer, "waits")["rows"]
    assert (wait["name"], wait["agent_info"], wait["for_agent_info"]) == ("shop.orders day=1", agent, agent)
    overview = read(viewer, "overview")
    assert overview["blocked"]["table"] == "shop.orders"
    (item,) = (each for each in overview["attention"] if each["tab"] == "transactions")
    assert item["sentence"].endswith(
        f"transaction {second} of task nightly.load waits for shop.orders day=1, "
        f"which transaction {first} of task nightly.load has locked."
    )
    assert item["table"] == "shop.orders"


def test_table_is_described(metastore: Metastore, viewer: TestClient) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT COMMENT '<i>x</i>') PARTITIONED BY (p STRING)")
        session.sql("INSERT INTO t VALUES (1, 'x<y'), (2, 'z')")
        session.sql("CREATE EXTERNAL TABLE v (a INT) STORED AS ORC")
    named = {"database": "default", "table": "t"}
    assert [each["name"] for each in read(viewer, "tables", order_by="name")["rows"]] == ["t", "v"]
    table = read(viewer, "table", **named)
    assert table["columns"] == [{"name": "a", "type": "int", "comment": "<i>x</i>"}]
    partitions = read(viewer, "table/partitions", search="x", **named)
    assert [(each["deltas"], each["rows"]) for each in partitions["rows"]] == [(1, 1)]
    name = partitions["rows"][0]["name"]
    (directory,) = read(viewer, "table/directories", partition=name, **named)["rows"]
    assert (directory["clusters"], directory["rows"]) == (["c1"], 1)
    (copy,) = read(viewer, "table/copies", **named)["rows"]
    assert (copy["cluster"], copy["is_primary"], copy["is_current"]) == ("c1", True, True)
    assert read(viewer, "table", database="default", table="v")["type"] == "EXTERNAL_TABLE"
    assert viewer.get("/hivex/api/table?conn_id=hivex_default&database=default&table=%27").status_code == 404


def test_table_has_its_links_and_its_commits_over_time(metastore: Metastore, viewer: TestClient) -> None:
    with metastore.session() as session:
        for text in (
            "CREATE DATABASE other",
            "CREATE TABLE other.source (a INT)",
            "CREATE TABLE t (a INT) PARTITIONED BY (p INT)",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
            "INSERT INTO t VALUES (3, 1)",
            "CREATE VIEW v AS SELECT * FROM t",
        ):
            session.sql(text)
    metastore.links.create("default", "source@other")
    metastore.links.create("other", "t@default", static=True)
    metastore.replicator.replicate("t", "c2")
    named = {"database": "default", "table": "t"}
    table = read(viewer, "table", **named)
    assert table["links"] == [{"namespace": "other", "link": "t@default", "type": "static"}]
    assert table["links_out"] == [{"link": "source@other", "source": "other.source", "type": "dynamic"}]
    assert (table["links_in_all"], table["links_out_in_all"]) == (1, 1)
    for by, number in (("day", 30), ("hour", 48)):
        # Neither a copy nor a change of the primary cluster is a commit.
        metastore.primaries.change("t", "c2")
        found = read(viewer, "table/commits", by=by, **named)
        assert len(found["starts"]) == number
        # An hour may end between the two statements.
        assert {each["start"] for each in found["rows"]} <= set(found["starts"])
        sums = {key: sum(row[key] for row in found["rows"]) for key in ("commits", "compactions", "rows")}
        assert sums == {"commits": 2, "compactions": 0, "rows": 3}
    view = {"database": "default", "table": "v"}
    assert read(viewer, "table", **view)["is_transactional"] is False
    assert read(viewer, "table/commits", **view)["rows"] == []
    assert viewer.get("/hivex/api/table/commits?database=default&table=t&by=year").status_code == 422


def test_task_has_its_statements_transactions_and_directories(
    metastore: Metastore, viewer: TestClient, anonymous: TestClient, run_dag: Callable[..., DagRun]
) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT) PARTITIONED BY (p STRING)")
    with DAG("tab", schedule=None) as dag:
        HivexQueryOperator(task_id="write", sql="USE default; INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'y')")
        EmptyOperator(task_id="other")
    run = run_dag(dag)
    key = {"dag_id": "tab", "run_id": run.run_id, "task_id": "write"}
    fields = read(viewer, "task/fields", **key)
    assert (fields["hivex_conn_id"], fields["statements"][0]) == ("hivex_default", "USE default")
    work = read(viewer, "task", **key)
    (transaction,) = work["transactions"]
    assert (transaction["state"], transaction["agent_info"]) == ("committed", f"tab.write {run.run_id} 1")
    assert work["locks"] == []
    directories = [(each["table"], each["partition"], each["kind"], each["rows"]) for each in work["directories"]]
    assert directories == [("default.t", "p=x", "delta", 1), ("default.t", "p=y", "delta", 2)]
    (txn_id,) = metastore.transactions.open(user="etl", agent_info=f"tab.write {run.run_id} 1")
    wanted = [LockComponent("default", "t", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)]
    metastore.locks.acquire(wanted, txn_id=txn_id, user="etl")
    work = read(viewer, "task", **key)
    assert [each["id"] for each in work["transactions"]] == [transaction["id"], txn_id]
    assert [(each["resource"], each["txn_id"]) for each in work["locks"]] == [("default/t", txn_id)]
    assert read(viewer, "task/fields", **key | {"task_id": "other"})["hivex_conn_id"] is None
    for path in ("task", "task/fields"):
        parameters = {"conn_id": "hivex_default", **key}
        assert viewer.get(f"/hivex/api/{path}", params=parameters | {"task_id": ODD}).status_code == 404
        assert viewer.get(f"/hivex/api/{path}", params=parameters | {"map_index": "x"}).status_code == 422
        assert anonymous.get(f"/hivex/api/{path}", params=parameters).status_code == 401


def test_capacity_of_a_namespace_is_known_by_cluster_and_day(metastore: Metastore, viewer: TestClient) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT)")
        session.sql("INSERT INTO t VALUES (1)")
    metastore.replicator.replicate("t", "c2")
    metastore.capacity.record()
    found = read(viewer, "namespace", namespace="default")["history"]
    sizes = {each["cluster"]: (each["bytes"], each["secondary_bytes"]) for each in found}
    (own, none), (nothing, copied) = sizes["c1"], sizes["c2"]
    assert own == copied > none == nothing == 0


def test_route_of_a_statement_is_explained(metastore: Metastore, viewer: TestClient) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a INT)")
    route = post(viewer, "route", {"statement": "SELECT * FROM t"}).json()
    assert route["cluster"] == "c1"
    pinned = post(viewer, "route", {"statement": "SELECT * FROM t", "cluster": "c2"}).json()
    assert pinned["cluster"] is None
    assert any("t (primary c1)" in lack for each in pinned["candidates"] for lack in each["lacks"])
    wrong = post(viewer, "route", {"statement": "SELEC"})
    assert wrong.status_code == 409
    assert wrong.json()["error"]["message"]


def test_state_of_a_metastore_is_reported(
    warehouse: dict[str, Any],
    viewer: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sqlite_template: Path,
) -> None:
    def code_of(url: str) -> str:
        connection = {"conn_type": "hivex", "extra": {**warehouse, "metastore_url": url}}
        monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps(connection))
        answer = viewer.get("/hivex/api/overview?conn_id=hivex_default")
        assert answer.status_code == 503
        assert "Traceback" not in answer.text
        return str(answer.json()["error"]["code"])

    assert code_of(f"sqlite:///{tmp_path / 'new.db'}") == "STORE_MISSING"
    assert not (tmp_path / "new.db").exists()
    assert code_of("postgresql://someone@127.0.0.1:1/nothing") == "STORE_UNAVAILABLE"
    other = shutil.copy(sqlite_template, tmp_path / "other.db")
    _set_revision(other, "9999")
    assert code_of(f"sqlite:///{other}") == "STORE_TOO_NEW"
    for conn_id in ("nothing", "x'<y>"):
        answer = viewer.get("/hivex/api/overview", params={"conn_id": conn_id})
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "NO_SUCH_CONNECTION"


def test_silent_database_keeps_few_threads_and_no_other_warehouse(
    app: Any, metastore: Metastore, warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch, viewer: TestClient
) -> None:
    def connect(conn_id: str, url: str) -> None:
        connection = {"conn_type": "hivex", "extra": {**warehouse, "metastore_url": url}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))

    async def ask() -> tuple[list[Any], list[Any], int]:
        transport = httpx.ASGITransport(create_application(patience_s=4), raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=viewer.headers
        ) as client:
            slow = [asyncio.create_task(client.get("/api/overview?conn_id=silent")) for _ in range(MOST_CALLS + 4)]
            # The places of the silent one are taken when the first calls have been given up.
            await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
            others = [await client.get(f"/api/{path}?conn_id=hivex_default") for path in ("overview", "namespaces")]
            threads = to_thread.current_default_thread_limiter().borrowed_tokens
            return await asyncio.gather(*slow), others, threads

    with socket.create_server(("127.0.0.1", 0)) as silent:
        connect("silent", f"postgresql://u:secret@127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=5")
        refused, others, threads = asyncio.run(ask())
    assert [answer.status_code for answer in others] == [200, 200]
    assert {answer.status_code for answer in refused} == {503}
    codes = Counter(answer.json()["error"]["code"] for answer in refused)
    assert codes == {"WAREHOUSE_SLOW": MOST_CALLS, "WAREHOUSE_BUSY": 4}
    assert threads <= MOST_CALLS
    assert "secret" not in "".join(answer.text for answer in refused)


def _set_revision(path: Any, revision: str) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE hivex_alembic_version SET version_num = ?", (revision,))


# The route of Airflow calls what another part of Airflow has deprecated.
@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")
def test_connection_has_its_form_and_its_test_button(
    metastore: Metastore, warehouse: dict[str, Any], editor: TestClient, viewer: TestClient
) -> None:
    (form,) = [each for each in editor.get("/ui/connections/hook_meta").json() if each["connection_type"] == "hivex"]
    assert set(form["extra_fields"]) == set(EXTRAS)
    assert form["standard_fields"]["host"]["title"] == "Metastore database host"

    def tested(client: TestClient, **extra: Any) -> Any:
        body = {"connection_id": "tested", "conn_type": "hivex", "extra": json.dumps(warehouse | extra)}
        return client.post("/api/v2/connections/test", json=body)

    answer = tested(editor)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] is True, answer.text
    assert "the metastore answers" in answer.json()["message"]
    broken = tested(editor, default_cluster="c9").json()
    assert (broken["status"], "c9" in broken["message"]) == (False, True)
    assert tested(viewer).status_code == 403


def test_page_is_in_the_navigation(metastore: Metastore, editor: TestClient) -> None:
    (plugin,) = [each for each in editor.get("/api/v2/plugins").json()["plugins"] if each["name"] == "hivex"]
    assert plugin["react_apps"][0]["destination"] == "nav"
    assert plugin["fastapi_apps"][0]["url_prefix"] == "/hivex"
