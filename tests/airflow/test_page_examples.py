"""The examples of the how-to pages about clusters and namespaces, each page on tables of its own. None runs Spark."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG

from airflow_hivex.core.parser.reader import split
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.notifications.attention import HivexAttentionNotifier
from airflow_hivex.operators.compaction import HivexHousekeepingOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexTransaction
from airflow_hivex.triggers.commits import watched_table
from tests.integration.test_documentation import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hivex.core import Metastore, Session

pytestmark = [pytest.mark.airflow, pytest.mark.evidence(cases=2, among="examples of pages")]


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    """The metastore of the connection, with flights and planes on c1, and airlines on c2."""
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        for statement in (
            "CREATE DATABASE nycflights",
            "CREATE TABLE nycflights.flights (carrier STRING) PARTITIONED BY (year INT, month INT)",
            "INSERT INTO nycflights.flights VALUES ('AA', 2013, 1), ('UA', 2013, 2)",
            "CREATE TABLE nycflights.airlines (carrier STRING, name STRING) TBLPROPERTIES ('hivex.cluster' = 'c2')",
            "INSERT INTO nycflights.airlines VALUES ('AA', 'American')",
            "CREATE TABLE nycflights.planes (tailnum STRING)",
            "INSERT INTO nycflights.planes VALUES ('N14228')",
        ):
            session.sql(statement)
    return metastore


@pytest.fixture
def session(metastore: Metastore) -> Session:
    return metastore.session()


def run_python(page: str) -> dict[str, Any]:
    """Run the blocks of Python of a page one after the other, as a DAG file; return their names."""
    names: dict[str, Any] = {}
    with DAG("page"):
        for block in blocks(ROOT / "docs" / "how-to" / page, "python"):
            exec(block, names)
    return names


def test_examples_of_replication_copy_and_drop_copies(metastore: Metastore, session: Session) -> None:
    names = run_python("replicate.md")
    assert [each.table for each in names["found"].tables] == ["nycflights.flights", "nycflights.planes"]
    (block,) = blocks(ROOT / "docs" / "how-to" / "replicate.md", "sql")
    results = [session.sql(statement) for statement in split(block)]
    assert [row[1] for row in results[2].rows].count("c2") == 2
    assert [copy.cluster for copy in metastore.replicator.copies("nycflights.flights")] == ["c1", "c1"]


def test_examples_of_the_primary_cluster_change_it(session: Session) -> None:
    planned, forced, confirmed = blocks(ROOT / "docs" / "how-to" / "primary-cluster.md", "sql")
    for statement in split(planned):
        session.sql(statement)
    session.sql(planned.replace("c2", "c1"))
    assert run_python("primary-cluster.md")["changed"].cluster == "c2"
    # A lost cluster is tested elsewhere; the statements are those of the page.
    assert "FORCE;" in forced
    assert re.search(r"FORCE CONFIRM '\w+'", confirmed)


def test_examples_of_a_move_change_all_tables(metastore: Metastore, session: Session) -> None:
    statement, _ = blocks(ROOT / "docs" / "how-to" / "move-a-namespace.md", "sql")
    session.sql(statement)
    session.sql(statement.replace("c2", "c1"))
    assert run_python("move-a-namespace.md")["moved"].tables == (
        "nycflights.airlines",
        "nycflights.flights",
        "nycflights.planes",
    )


def test_example_of_a_copy_of_other_tools_registers_it(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    location = metastore.catalog.get_table("nycflights", "airlines").storage.primary.location
    shutil.copytree(tmp_path / "c2" / location, tmp_path / "c1" / location)
    run_python("register-a-copy.md")
    assert {copy.cluster for copy in metastore.replicator.copies("nycflights.airlines")} == {"c1", "c2"}


def test_example_of_the_doctor_finds_nothing(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.sql("CREATE DATABASE shop")
    run_python("doctor.md")
    assert capsys.readouterr().out == ""


def test_examples_of_links_and_quotas_are_operators_and_calls(session: Session) -> None:
    made, _, capacity = blocks(ROOT / "docs" / "how-to" / "namespaces.md", "sql")
    for statement in split(made):
        if not statement.startswith(("CREATE LINK", "SHOW")):
            session.sql(statement)
    names = run_python("namespaces.md")
    assert names["links"].partitions("analysis", "departures@flights") == ["day=2013-01-01"]
    for statement in split(capacity.replace("CLUSTER local", "CLUSTER c1")):
        session.sql(statement)


def test_examples_of_sensors_and_operators_are_dags(session: Session) -> None:
    for page in ("sensors.md", "lagging-copies.md", "query-operator.md", "compaction.md"):
        names: dict[str, Any] = {}
        for block in blocks(ROOT / "docs" / "how-to" / page, "python"):
            if "session(" not in block:
                with DAG("page"):
                    exec(block, names)


def test_examples_of_the_reference_are_dags(session: Session) -> None:
    of_transaction, of_asset, of_notifier = blocks(ROOT / "docs" / "reference" / "operators.md", "python")
    names: dict[str, Any] = {
        each.__name__: each
        for each in (
            DAG,
            HivexAttentionNotifier,
            HivexHousekeepingOperator,
            HivexQueryOperator,
            HivexTransaction,
            SmtpNotifier,
            watched_table,
        )
    }
    with DAG("page") as dag:
        exec(of_transaction, names)
        exec(of_notifier, names)
    exec(of_asset, names)
    assert {"load.orders", "load.lines", "housekeeping"} < set(dag.task_ids)
