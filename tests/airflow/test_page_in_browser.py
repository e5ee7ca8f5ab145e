"""The page Hivex in a headless Chromium, against a real api-server. Screenshots are kept in ``build/screenshots``."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest
from airflow.sdk import DAG

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.hooks.hivex import close_metastores
from airflow_hivex.operators.query import HivexQueryOperator
from tests import evidence
from tests.airflow.page_server import api_server, chromium, log_in
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.airflow]
SHARE = pytest.mark.evidence(cases=1, among="the page in a browser")
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
ODD = 'etl "quoted" <img src=x onerror=alert(1)>'
TABS = {
    "overview": "What needs attention",
    "history": "What has run",
    "transactions": "Who waits for whom",
    "compactions": "Queue and history",
    "tables": "Tables and views",
    "routing": "Where would a statement run?",
    "namespaces": "Capacity",
    "cache": "This process",
}
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]


class Pages(NamedTuple):
    """A browser, an api-server, and the metastore that it shows."""

    browser: Browser
    url: str
    metastore: Metastore
    connection: str


@pytest.fixture(scope="module")
def pages(
    airflow_database: None, airflow_home: Path, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "metastore.db").write_bytes(sqlite_template.read_bytes())
    extra = {
        "metastore_url": f"sqlite:///{folder / 'metastore.db'}",
        "cluster_properties": {
            name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")
        },
        "default_cluster": "c1",
    }
    connection = json.dumps({"conn_type": "hivex", "extra": extra})
    with (
        Metastore.open(
            str(extra["metastore_url"]),
            clusters=extra["cluster_properties"],  # type: ignore[arg-type]
            default_cluster="c1",
        ) as metastore,
        api_server(airflow_home, {"AIRFLOW_CONN_HIVEX_DEFAULT": connection}) as url,
        chromium() as browser,
    ):
        _fill(metastore)
        yield Pages(browser, url, metastore, connection)


def _fill(metastore: Metastore) -> None:
    with metastore.session(user=ODD) as session:
        session.sql("CREATE TABLE flights (a INT COMMENT '<b onclick=\"x()\">') PARTITIONED BY (p STRING)")
        session.sql("INSERT INTO flights PARTITION (p = 'x<y') VALUES (1)")
        session.sql("CREATE TABLE airlines (a INT)")
        session.sql("CREATE DATABASE mart")
        session.sql("USE mart")
        session.sql("CREATE LINK TO airlines@default")
        session.sql("CREATE TABLE routes (a INT)")
        session.sql("USE default")
        session.sql("CREATE LINK TO routes@mart")
    first, second = metastore.transactions.open(2, user=ODD, timeout=86_400)
    wanted = [LockComponent("default", "flights", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)]
    metastore.locks.acquire(wanted, txn_id=first, user=ODD)
    metastore.locks.acquire(wanted, txn_id=second, user=ODD, wait=False)
    metastore.compactor.request("default", "airlines")
    metastore.capacity.record()


def _open(pages: Pages, user: str, **look: Any) -> tuple[Page, list[str]]:
    """Return a page of a user, and the list to which its errors are added."""
    page = log_in(pages.browser, pages.url, user, **look).new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.on("response", lambda answer: errors.append(answer.url) if answer.status >= 400 else None)
    return page, errors


def _go(page: Page, pages: Pages, tab: str, more: str = "") -> None:
    page.goto(f"{pages.url}/plugin/hivex?tab={tab}{more}")
    page.get_by_role("heading", name=re.compile(re.escape(TABS[tab]))).first.wait_for(timeout=60_000)
    page.wait_for_function("!document.querySelector('.hivex [role=status].hivex-soft')", timeout=60_000)


@SHARE
def test_each_tab_shows_in_both_themes_and_widths(pages: Pages) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width, scheme in evidence.drawn("looks of the page", LOOKS, 1):
        page, errors = _open(pages, "editor", width=width, scheme=scheme)
        for tab in (*TABS, "table", "namespace"):
            if tab == "namespace":
                page.goto(f"{pages.url}/plugin/hivex?tab=namespaces&namespace=default")
                page.get_by_role("table", name="Bytes on c1 by day").wait_for()
            elif tab == "table":
                page.goto(f"{pages.url}/plugin/hivex?tab=tables&table=default.flights")
                page.get_by_role("img", name="Commits: 1 in all").wait_for()
                page.get_by_role("button", name="mart.routes").wait_for()
            else:
                _go(page, pages, tab)
            page.screenshot(path=SCREENSHOTS / f"{tab}-{width}-{scheme}.png")
            is_wide = "document.querySelector('.hivex').scrollWidth - document.querySelector('.hivex').clientWidth"
            assert page.evaluate(is_wide) <= 0, f"{tab} does not fit into {width} pixels"
        assert not page.locator(".hivex img").count(), "a name was read as HTML"
        assert errors == []
        page.context.close()


@SHARE
def test_editor_aborts_in_the_page_and_viewer_cannot(pages: Pages) -> None:
    viewer, errors = _open(pages, "viewer")
    _go(viewer, pages, "transactions")
    viewer.get_by_role("table", name="Transactions").get_by_text(ODD).first.wait_for()
    assert not viewer.get_by_role("button", name="Abort").count()
    assert errors == []
    viewer.context.close()

    (txn_id,) = pages.metastore.transactions.open(user="doomed", timeout=86_400)
    editor, errors = _open(pages, "editor")
    _go(editor, pages, "transactions")
    row = editor.get_by_role("table", name="Transactions").get_by_role("row").filter(has_text="doomed")
    row.get_by_role("button", name="Abort").click()
    dialog = editor.get_by_role("dialog", name="Abort")
    assert pages.metastore.transactions.get(txn_id).state is TxnState.OPEN, "it asks first"
    dialog.get_by_label("Reason").fill("a reason of mine")
    dialog.get_by_role("button", name="Abort").click()
    dialog.get_by_text(f"Transaction {txn_id} is aborted.").wait_for()
    dialog.get_by_role("button", name="Close").click()
    row.wait_for(state="detached")
    found = pages.metastore.transactions.get(txn_id)
    assert found.state is TxnState.ABORTED
    assert found.reason == "aborted by editor in the Airflow UI: a reason of mine"
    assert errors == []
    editor.context.close()


@SHARE
def test_table_route_and_compaction_are_found_by_keyboard(pages: Pages) -> None:
    page, errors = _open(pages, "editor")
    _go(page, pages, "tables")
    page.get_by_role("button", name="default.flights").press("Enter")
    page.get_by_role("combobox", name="Period").select_option("48 hours")
    page.get_by_text("As a table").press("Enter")
    page.get_by_role("table", name="Commits").get_by_role("cell", name="1", exact=True).first.wait_for()
    page.get_by_role("button", name="p=x<y").press("Enter")
    page.get_by_role("heading", name="Directories of p=x<y").wait_for()
    page.get_by_text('<b onclick="x()">').wait_for()
    page.get_by_role("tab", name="Tables").press("ArrowRight")
    page.get_by_role("textbox", name="Statement").fill("SELECT * FROM airlines")
    page.get_by_role("textbox", name="Statement").press("Tab")
    page.get_by_role("button", name="Find the route").press("Enter")
    page.get_by_text("Cluster c1.").wait_for()
    page.get_by_role("tab", name="Compactions").click()
    page.get_by_role("textbox", name="Table", exact=True).fill("default.airlines")
    page.get_by_role("button", name="Explain").press("Enter")
    page.get_by_role("table", name="Filters and thresholds").wait_for()
    assert page.url == f"{pages.url}/plugin/hivex?tab=compactions"
    page.go_back()
    page.get_by_role("tab", name="Routing", selected=True).wait_for()
    assert errors == []
    page.context.close()


@SHARE
def test_compaction_lock_and_dialog_show_what_an_operator_needs(pages: Pages) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    metastore = pages.metastore
    for number, (width, scheme) in enumerate(evidence.drawn("looks of the work of an operator", LOOKS, 1)):
        table = f"orders_{number}"
        with metastore.session() as session:
            session.sql(f"CREATE TABLE mart.{table} (a INT) TBLPROPERTIES ('transactional' = 'true')")
            for value in range(4):
                session.sql(f"INSERT INTO mart.{table} VALUES ({value})")
        agent = f"nightly.load_{number} scheduled__2026-11-27 1"
        holder, waiter = metastore.transactions.open(2, user="etl", agent_info=agent, timeout=86_400)
        wanted = [LockComponent("mart", table, type=LockType.EXCLUSIVE, operation=DataOperation.UPDATE)]
        metastore.locks.acquire(wanted, txn_id=holder, user="etl", agent_info=agent)
        metastore.locks.acquire(wanted, txn_id=waiter, user="etl", agent_info=agent, wait=False)
        page, errors = _open(pages, "editor", width=width, scheme=scheme)

        def shoot(name: str, page: Page = page, look: str = f"{width}-{scheme}") -> None:
            page.screenshot(path=SCREENSHOTS / f"{name}-{look}.png", full_page=True)

        _go(page, pages, "overview")
        page.get_by_role("button", name="default.flights").first.wait_for()
        shoot("overview-blocked")
        _go(page, pages, "transactions")
        waits = page.get_by_role("table", name="Waiting requests").get_by_role("row").filter(has_text=f"mart.{table}")
        waits.wait_for()
        shoot("blocked-lock")
        page.get_by_role("button", name="Abort").first.click()
        dialog = page.get_by_role("dialog", name="Abort")
        dialog.wait_for()
        box = dialog.bounding_box()
        assert box is not None
        assert box["height"] < 400, "a dialog is as high as its content"
        shoot("dialog")
        dialog.get_by_role("button", name="Cancel").click()
        page.goto(f"{pages.url}/plugin/hivex?tab=namespaces")
        tab = page.get_by_role("tab", name="Namespaces", selected=True)
        tab.wait_for()
        page.wait_for_function(
            "(() => { const box = document.getElementById('hivex-tab-namespaces').getBoundingClientRect();"
            " return box.left >= 0 && box.right <= innerWidth; })()"
        )
        page.goto(f"{pages.url}/plugin/hivex?tab=transactions&agent={quote(agent)}&txns=999999")
        own = page.get_by_role("table", name="Transactions of the task")
        own.get_by_text(str(holder), exact=True).wait_for()
        metastore.transactions.abort(waiter)
        metastore.transactions.abort(holder)
        own.get_by_text("aborted").first.wait_for(timeout=60_000)
        shoot("transactions-of-task")

        _go(page, pages, "compactions")
        deltas = page.get_by_role("table", name="Delta directories that readers must merge").get_by_role("row")
        deltas = deltas.filter(has_text=f"mart.{table}")
        deltas.get_by_text("4", exact=True).wait_for()
        shoot("compaction-before")
        deltas.get_by_role("button", name="Compact").click()
        dialog = page.get_by_role("dialog", name="Compact")
        dialog.get_by_text("major compaction").wait_for()
        shoot("compact-dialog")
        dialog.get_by_role("button", name="Compact").click()
        dialog.get_by_text("is in the queue").wait_for()
        dialog.get_by_role("button", name="Close").click()
        queue = page.get_by_role("table", name="Compactions").get_by_role("row").filter(has_text=f"mart.{table}")
        queue.get_by_text("waiting").wait_for()
        while (done := metastore.compactor.work()) and done.table != table:
            pass
        page.get_by_role("button", name="Refresh now").click()
        queue.get_by_text("merged").first.wait_for(timeout=60_000)
        queue.get_by_text("old files").wait_for()
        assert "—" not in queue.get_by_role("cell").nth(6).inner_text(), (
            "the duration is known once the merge has ended"
        )
        deltas.wait_for(state="detached")
        name = queue.get_by_text(f"mart.{table}")
        assert name.evaluate("(element) => element.getClientRects().length") == 1, "a name is not broken"
        shoot("compaction-after")
        page.goto(f"{pages.url}/plugin/hivex?tab=tables&table=mart.{table}")
        page.get_by_text("replaced; kept for readers").first.wait_for()
        page.get_by_role("button", name="Compact").wait_for()
        shoot("table-after")
        _go(page, pages, "overview")
        page.get_by_text("merged, old files kept for readers").wait_for()
        shoot("overview-after")
        assert errors == []
        page.context.close()


@SHARE
def test_four_questions_about_the_night_take_two_clicks_each(pages: Pages) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    load = TaskTry("nightly", "sales.load", "scheduled__2026-11-27T00:00:00+00:00", 1)
    report = TaskTry("nightly", "report", "scheduled__2026-11-27T00:00:00+00:00", 2)
    metastore = pages.metastore
    with metastore.session(user="etl") as session:
        session.sql("CREATE TABLE IF NOT EXISTS mart.sales (id INT, amount DECIMAL(10, 2))")
    with metastore.session(user="etl", agent_info=load) as session:
        session.sql("INSERT INTO mart.sales VALUES (1, 9.90), (2, 5.50), (3, 0.10)")
    with metastore.session(user="etl", agent_info=report) as session, pytest.raises(HivexError):
        session.sql("INSERT INTO mart.report SELECT id, sum(amount) AS total FROM mart.sales GROUP BY id")
    (holder,) = metastore.transactions.open(user="ann", timeout=86_400)
    lock = LockComponent("mart", "sales", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)
    metastore.locks.acquire([lock], txn_id=holder, user="ann")

    def delayed() -> None:
        with metastore.session(user="etl", agent_info=load) as session:
            session.sql("INSERT INTO mart.sales VALUES (4, 1.00)")

    waiting = metastore.transaction_listing.counts().waiting
    thread = threading.Thread(target=delayed)
    thread.start()
    wait_until(lambda: metastore.transaction_listing.counts().waiting > waiting)
    metastore.transactions.abort(holder)
    thread.join()
    for width, scheme in evidence.drawn("looks of the history", LOOKS, 1):
        page, errors = _open(pages, "viewer", width=width, scheme=scheme)

        def shoot(name: str, page: Page = page, look: str = f"{width}-{scheme}") -> None:
            page.screenshot(path=SCREENSHOTS / f"history-{name}-{look}.png", full_page=True)
            is_wide = "document.querySelector('.hivex').scrollWidth - document.querySelector('.hivex').clientWidth"
            assert page.evaluate(is_wide) <= 0, f"{name} does not fit into the look {look}"

        page.goto(f"{pages.url}/plugin/hivex")
        statements = page.get_by_role("table", name="Statements").get_by_role("row")

        def ask(question: str, page: Page = page) -> None:
            page.get_by_role("tab", name="Overview").click()
            page.get_by_role("tab", name="History").click()
            page.get_by_role("button", name=question).click()

        page.get_by_role("tab", name="Overview").wait_for(timeout=60_000)
        ask("What has run")
        statements.filter(has_text="sales.load").first.wait_for()
        shoot("all")
        ask("What failed")
        row = statements.filter(has_text="NO_SUCH_TABLE").first
        row.get_by_text("nightly.report").wait_for()
        row.locator("summary").click()
        row.get_by_text("Table mart.report does not exist").wait_for()
        shoot("failed")
        ask("What waited longest")
        statements.nth(1).get_by_text("INSERT INTO mart.sales VALUES (4, 1.00)").first.wait_for()
        shoot("waited")
        ask("Which tables grew")
        page.get_by_role("table", name="Tables that grew").get_by_role("row").nth(1).get_by_text(
            "mart.sales"
        ).wait_for()
        shoot("grown")
        page.get_by_role("button", name="Its statements").first.click()
        statements.filter(has_text="mart.sales").first.wait_for()
        page.goto(f"{pages.url}/plugin/hivex?tab=history&agent={quote(str(report))}")
        page.get_by_text(f"Only statements of the task {report}").wait_for()
        statements.nth(1).get_by_text("mart.report").first.wait_for()
        assert statements.count() == 2
        shoot("task")
        assert errors == []
        page.context.close()


@SHARE
def test_task_instance_has_a_tab_with_its_work(
    pages: Pages, run_dag: Callable[..., DagRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", pages.connection)
    with pages.metastore.session() as session:
        session.sql("CREATE TABLE IF NOT EXISTS airports (a INT)")
    with DAG("fill_airports", schedule=None) as dag:
        HivexQueryOperator(task_id="fill", sql="INSERT INTO airports VALUES (1), (2)")
    try:
        run = run_dag(dag)
    finally:
        close_metastores()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width, scheme in evidence.drawn("looks of the tab", LOOKS, 1):
        page, errors = _open(pages, "viewer", width=width, scheme=scheme)
        page.goto(f"{pages.url}/dags/fill_airports/runs/{quote(run.run_id)}/tasks/fill")
        page.get_by_role("link", name="Warehouse").click()
        written = page.get_by_role("table", name="Directories that the task has written")
        written.get_by_role("cell", name="default.airports").wait_for(timeout=60_000)
        assert written.get_by_role("row").count() == 2
        rows = page.get_by_role("table", name="Transactions of all tries").get_by_role("row")
        rows.filter(has_text="committed").get_by_role("cell", name=re.compile(r"^(Rows written\s*)?2$")).wait_for()
        page.get_by_role("button", name="Find the current route").click()
        page.get_by_text("Cluster c1.").wait_for()
        page.screenshot(path=SCREENSHOTS / f"task-{width}-{scheme}.png")
        assert errors == []
        page.context.close()
