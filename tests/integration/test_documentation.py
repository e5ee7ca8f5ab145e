"""What the documentation shows is run here."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.cli.main import _parser
from airflow_hivex.core import Metastore
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.parser.reader import read, split
from tests.evidence import does_all

ROOT = Path(__file__).parents[2]
# Pages that others show, too: GitHub, the package index and the site.
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = sorted([*ROOT_PAGES, *(page for page in (ROOT / "docs").rglob("*.md") if not page.is_symlink())])
SITE = "https://airflow-hivex.readthedocs.io/en/latest/"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, without the indentation of a list that they stand in."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indentation}", "", block, flags=re.MULTILINE) for indentation, block in found]


@pytest.mark.spark
def test_python_of_the_start_page_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in blocks(ROOT / "docs" / "index.md", "python") if "Metastore.open" in block)
    exec(block.replace("/data", str(tmp_path)), {})
    assert capsys.readouterr().out == "[(1,), (2,)]\n"


@pytest.mark.spark
def test_examples_of_the_page_on_transactions_run_one_after_the_other(sqlite_url: str) -> None:
    page = ROOT / "docs" / "transactions.md"
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        for block in blocks(page, "sql"):
            for statement in split(block):
                session.sql(statement)
        for block in blocks(page, "python"):
            exec(block, {"metastore": metastore})
        found = session.sql("SELECT ds, CAST(amount AS STRING) FROM totals ORDER BY ds").rows
    assert found == [("2013-01-01", "29.50"), ("2013-01-02", "31.00")]


@pytest.mark.spark
@pytest.mark.evidence
def test_examples_of_the_page_on_earlier_versions_run_one_after_the_other(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql import SparkSession

    page = ROOT / "docs" / "how-to" / "history.md"
    times = iter(range(1_769_860_800_000, 1_769_870_000_000, 60_000))
    now = [next(times)]
    settings = {"hivex.history.retention": "1d"}
    with Metastore.open(sqlite_url, clock=lambda: now[0], settings=settings) as metastore:
        session = metastore.session()
        session.sql("CREATE TABLE orders (id INT)")
        session.sql("CREATE TABLE archive (id INT)")
        for number in range(2, 20):
            session.sql(f"INSERT INTO orders VALUES ({number})")
            now[0] = next(times)
        now[0] += 3_600_000
        statements = [each for block in blocks(page, "sql") for each in split(block)]
        if not does_all("HIVEX_HISTORY_EXAMPLES"):
            assert session.sql(statements[0]).rows[2][0] == 17
            return
        results = [session.sql(each) for each in statements]
        assert sorted(results[1].rows) == [(number,) for number in range(2, 18)]
        assert sorted(results[2].rows) == [(number,) for number in range(2, 20)]
        assert results[4].rows_written == 16
        warehouse = session.warehouse(SparkSession.builder.getOrCreate().newSession())
        for block in blocks(page, "python"):
            exec(block, {"session": session, "warehouse": warehouse})
        assert session.sql("SELECT count(*) FROM archive").rows == [(18,)]
    assert "insert" in capsys.readouterr().out


def test_examples_of_the_page_on_clusters_run_one_after_the_other(sqlite_url: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "clusters-and-routing.md"
    described, _ = blocks(page, "json")
    clusters = described.replace("/data", str(tmp_path))
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore,
        metastore.session() as session,
    ):
        (statements,) = blocks(page, "sql")
        results = [session.sql(statement) for statement in split(statements)]
    assert [row[:2] for row in results[-1].rows] == [("c1", False), ("c2", False)]


def test_examples_of_the_page_on_namespaces_run_one_after_the_other(sqlite_url: str) -> None:
    page = ROOT / "docs" / "how-to" / "namespaces.md"
    made, changed = (split(block) for block in blocks(page, "sql")[:2])
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        results = [session.sql(statement) for statement in made]
        assert results[-1].rows == [("day=2013-01-02",)]
        session.sql(changed[0])
        assert len(session.snapshot_files("departures@flights").files) == 2


def test_examples_of_the_page_on_the_cache_run_one_after_the_other(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVEX_RAWSTORE_IMPL", raising=False)
    opened, *calls = blocks(ROOT / "docs" / "metadata-cache.md", "python")
    names: dict[str, Any] = {"Metastore": Metastore, "replace": replace}
    exec(opened.replace("postgresql://user@host/hivex", sqlite_url), names)
    with names["metastore"] as metastore:
        with metastore.session() as session:
            session.sql("CREATE DATABASE sales")
            session.sql("CREATE TABLE sales.orders (id INT) PARTITIONED BY (month INT)")
        for block in calls:
            exec(block, names)
        assert metastore.catalog.get_table("sales", "orders").definition.comment == "All orders"
        assert sum(metastore.cache.state().hits.values()) >= 1


@pytest.mark.spark
@pytest.mark.evidence(cases=1, among="examples of pages with Spark")
def test_examples_of_the_page_on_plain_tables_run_one_after_the_other(sqlite_url: str) -> None:
    page = ROOT / "docs" / "how-to" / "convert-a-table.md"
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        root = Path(metastore.clusters.get("local").filesystem.removeprefix("file://"))
        for month in (1, 2):
            (root / f"landing/flights/month={month}").mkdir(parents=True)
            rows = pa.table({"carrier": ["AA"], "delay": pa.array([-month], pa.int32())})
            orc.write_table(rows, root / f"landing/flights/month={month}/a.orc")
        for statement in (each for block in blocks(page, "sql") for each in split(block)):
            session.sql(statement)
        assert session.sql("SELECT carrier, delay FROM flights").rows == [("AA", 0), ("AA", 0)]


@pytest.mark.spark
@pytest.mark.evidence(cases=1, among="examples of pages with Spark")
def test_examples_of_the_page_on_statistics_run_one_after_the_other(sqlite_url: str) -> None:
    page = ROOT / "docs" / "how-to" / "statistics.md"
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        session.sql("CREATE DATABASE nycflights")
        session.sql("USE nycflights")
        session.sql("CREATE TABLE flights (carrier STRING, dep_delay INT) PARTITIONED BY (month INT)")
        session.sql("INSERT INTO flights VALUES ('AA', 5, 1), ('UA', 7, 2)")
        for block in blocks(page, "sql"):
            results = [session.sql(statement).rows for statement in split(block)]
    assert ("max", "5") in [row[:2] for row in results[-1]]


def test_examples_of_the_page_on_compaction_request_and_show(sqlite_url: str) -> None:
    page = ROOT / "docs" / "compaction.md"
    with (
        Metastore.open(sqlite_url, settings={"hive.compactor.wait.timeout": 2001}) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE orders (id INT)")
        session.sql("CREATE TABLE visits (id INT) PARTITIONED BY (ds STRING)")
        session.sql("INSERT INTO visits VALUES (1, '2013-01-01'), (2, '2013-01-02')")
        results = [session.sql(statement) for block in blocks(page, "sql") for statement in split(block)]
        assert sum("initiated" in row for result in results[:4] for row in result.rows) == 3
        (txn_id,) = metastore.transactions.open(type=TxnType.COMPACTION)
        (block,) = blocks(page, "python")
        exec(block, {"metastore": metastore, "txn_id": txn_id, "highest_write_id": 2})
        states = [entry.state for entry in metastore.compactor.show()]
    assert states.count(CompactionState.SUCCEEDED) == 1


def test_examples_of_reads_without_spark_run_one_after_the_other(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "how-to" / "read-without-spark.md"
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        names: dict[str, object] = {"session": session}
        for block in blocks(page, "python"):
            exec(block, names)
        assert names["few"].to_pylist() == [{"id": 1}]  # type: ignore[attr-defined]
    assert capsys.readouterr().out == "1\n1\n"


@pytest.mark.spark
def test_example_of_the_database_api_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "how-to" / "sql-operators.md"
    (block,) = (block for block in blocks(page, "python") if "dbapi.connect" in block)
    exec(block.replace("/data", str(tmp_path)), {})
    assert capsys.readouterr().out == "[('second',)]\n"


def test_examples_of_small_writes_and_of_hives_layout_run_one_after_the_other(sqlite_url: str, tmp_path: Path) -> None:
    pages = ROOT / "docs" / "how-to"
    once, numbered = blocks(pages / "streaming.md", "python")
    (layouts,) = blocks(pages / "hive-files.md", "sql")
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        for block in (once, numbered, numbered):
            exec(block, {"session": session})
        assert session.to_arrow("events").num_rows == 201
        made, changed = split(layouts)
        session.sql(made)
        session.sql("INSERT INTO flights VALUES (1, 'AA', 2013)")
        session.sql(changed)
        session.sql("INSERT INTO flights VALUES (2, 'UA', 2013)")
        assert {file.row_layout for file in session.snapshot_files("flights").files} == {"hive", "flat"}


@pytest.mark.spark
@pytest.mark.evidence(cases=1, among="examples of pages with Spark")
def test_examples_of_copies_and_of_their_lag_run_one_after_the_other(sqlite_url: str, tmp_path: Path) -> None:
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    (copied,) = blocks(ROOT / "docs" / "how-to" / "replicate.md", "sql")
    (lagging,) = blocks(ROOT / "docs" / "how-to" / "lagging-copies.md", "sql")
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE DATABASE nycflights")
        session.sql("CREATE TABLE nycflights.flights (carrier STRING) PARTITIONED BY (year INT, month INT)")
        session.sql("INSERT INTO nycflights.flights VALUES ('AA', 2013, 1), ('UA', 2013, 2)")
        results = [session.sql(statement) for statement in split(copied)]
        assert {row[:4] for row in results[2].rows} == {
            (f"year=2013/month={month}", *copy)
            for month in (1, 2)
            for copy in (("c1", "primary", "current"), ("c2", "secondary", "current"))
        }
        metastore.replicator.replicate("nycflights.flights", "c2")
        session.sql("INSERT INTO nycflights.flights VALUES ('AA', 2013, 1)")
        assert session.sql("SELECT count(*) FROM nycflights.flights").rows == [(3,)]
        results = [session.sql(statement) for statement in split(lagging)]
        assert (results[2].rows, results[2].cluster) == ([(2,)], "c2")


def test_example_of_the_python_api_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "docs" / "reference" / "python-api.md", "python")
    exec(example.replace("/data", str(tmp_path)), {})
    assert capsys.readouterr().out == "2 2\n"


def test_example_of_inspect_runs_as_it_stands() -> None:
    (block,) = (
        block for block in blocks(ROOT / "docs" / "how-to" / "query-operator.md", "python") if "import inspect" in block
    )
    exec(block, {})


def test_examples_of_permanent_functions_and_events_run_as_they_stand(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(ROOT / "docs" / "how-to" / "hive-clients.md", "python")
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        session.sql("CREATE DATABASE shop")
        exec(block, {"metastore": metastore})
        assert metastore.catalog.get_functions() == []
        (events,) = blocks(ROOT / "docs" / "reference" / "events.md", "python")
        exec(events, {"metastore": metastore})
    assert "CREATE_FUNCTION" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_can_be_read(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)
    for block in blocks(page, "sql"):
        for statement in split(block):
            read(statement)
    for block in blocks(page, "json"):
        described: dict[str, Any] = json.loads(block)
        assert Clusters.from_properties(described, default=next(iter(described))).names == tuple(described)


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each command `hivex` in the blocks of a page."""
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE):
        if language not in ("", "console", "text"):
            continue
        for line in re.findall(
            r"^ *(?:\$ )?(?:[A-Z_]+=\S+ )*(?:airflow )?hivex (.*)$", block.replace("\\\n", " "), re.MULTILINE
        ):
            words = re.sub(r"^--conn-id \S+ ", "", re.split(r" [|>&] ?", line)[0])
            if "..." not in words and "--help" not in words:
                yield shlex.split(words, comments=True)


def test_commands_of_pages_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = _parser(None)
    found = [each for page in PAGES for each in commands(page)]
    assert len(found) > 30
    for each in found:
        try:
            parser.parse_args(each)
        except SystemExit:
            pytest.fail(f"{each}: {capsys.readouterr().err}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ROOT_PAGES, ids=lambda page: page.name)
def test_links_of_pages_that_others_show_are_absolute_and_lead_to_pages_of_the_site(page: Path) -> None:
    for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://"), target
        if target.startswith(SITE):
            assert (ROOT / "docs" / f"{target.removeprefix(SITE).rstrip('/') or 'index'}.md").exists(), target


def test_readme_stays_short_and_shows_a_drawing() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 500
    assert "](docs/images/" in text


def test_tests_that_pages_cite_exist() -> None:
    cited = {path for page in PAGES for path in re.findall(r"`(tests/[\w/]+\.py)`", page.read_text())}
    assert [path for path in sorted(cited) if not (ROOT / path).exists()] == []


def test_pages_show_every_drawing_and_describe_it() -> None:
    drawings = {path.resolve() for path in (ROOT / "docs" / "images").glob("*.svg")}
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for described, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
        if described.strip()
    }
    assert drawings - shown == set()
    for drawing in drawings:
        root = ET.parse(drawing).getroot()
        named = {child.get("id"): (child.text or "").strip() for child in root}
        assert [bool(named[each]) for each in str(root.get("aria-labelledby")).split()] == [True, True], drawing
        assert "prefers-color-scheme: dark" in drawing.read_text(), drawing


def test_no_drawing_needs_a_script() -> None:
    assert [page for page in PAGES if blocks(page, "mermaid")] == []


def test_every_extra_that_is_named_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*PAGES, *(ROOT / "airflow_hivex").rglob("*.py")]
    named = {name for file in files for name in re.findall(r"airflow-provider-hivex\[([a-z]+)\]", file.read_text())}
    assert named == set(extras)


def test_page_of_calls_lists_the_calls_that_the_endpoint_serves() -> None:
    from airflow_hivex.core.thrift.calls.registry import calls

    text = (ROOT / "docs" / "reference" / "hive-metastore-calls.md").read_text().partition("## Other calls")[0]
    listed = [
        name
        for paragraph in text.split("\n\n")
        if re.fullmatch(r"(`\w+`,?\s*)+", paragraph)
        for name in re.findall(r"`(\w+)`", paragraph)
    ]
    assert sorted(listed) == [name.decode() for name in calls()]
