"""A notebook: a process with a SparkSession of its own on a standalone cluster, which reads and writes DataFrames.

It runs an operation for each line, and answers with the error of it in JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError
from tests.hosts.hidden_roots import Hosts
from tests.hosts.networks import CHECKOUT, Host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_hivex.core.warehouse import Warehouse


def _rows(spark: SparkSession) -> DataFrame:
    return spark.range(1000).selectExpr("id", "'lost' AS v")


def _keys(spark: SparkSession) -> DataFrame:
    return spark.range(1000).selectExpr("id", "id % 3 AS k")


def _write_batch(session: Session, spark: SparkSession, table: str) -> None:
    with session.transaction_batch(table, 2) as batch:
        batch.write(_rows(spark))


Operation = Callable[["Warehouse", Session, SparkSession, str], object]

READS: dict[str, Operation] = {
    "table": lambda warehouse, _session, _spark, db: warehouse.table(f"{db}.t").count(),
    "external": lambda warehouse, _session, _spark, db: warehouse.table(f"{db}.e").count(),
    "version": lambda warehouse, _session, _spark, db: warehouse.table(f"{db}.t", version=2).count(),
    "query": lambda warehouse, _session, _spark, db: warehouse.sql(f"SELECT max(id) FROM {db}.t").collect(),
    "changes": lambda warehouse, _session, _spark, db: warehouse.changes(f"{db}.t", 2).count(),
    "stream": lambda warehouse, _session, _spark, db: warehouse.for_each_batch(
        f"{db}.t", lambda rows, _number: rows.count(), stream="of hosts"
    ),
}
WRITES: dict[str, Operation] = {
    "append": lambda warehouse, _session, spark, db: warehouse.write(_rows(spark), f"{db}.t"),
    "overwrite": lambda warehouse, _session, spark, db: warehouse.write(_rows(spark), f"{db}.t", "overwrite"),
    "partitions": lambda warehouse, _session, spark, db: warehouse.write(_keys(spark), f"{db}.p"),
    "partition": lambda warehouse, _session, spark, db: warehouse.write(
        spark.range(1000), f"{db}.p", "overwrite", {"k": 1}
    ),
    "external": lambda warehouse, _session, spark, db: warehouse.write(_rows(spark), f"{db}.e", "overwrite"),
    "replace where": lambda warehouse, _session, spark, db: warehouse.write(
        _rows(spark), f"{db}.t", "replace_where", where="id < 1000"
    ),
    "new table": lambda warehouse, _session, spark, db: warehouse.write(_rows(spark), f"{db}.made", "error"),
    "more columns": lambda warehouse, _session, spark, db: warehouse.write(
        _rows(spark).selectExpr("*", "1 AS w"), f"{db}.t", merge_schema=True
    ),
    "numbered batch": lambda warehouse, _session, spark, db: warehouse.write(
        _rows(spark), f"{db}.t", app_id="hosts", batch_id=1
    ),
    "transaction batch": lambda _warehouse, session, spark, db: _write_batch(session, spark, f"{db}.t"),
    "merge": lambda warehouse, _session, spark, db: (
        warehouse.merge(_rows(spark), f"{db}.t", ["id"])
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    "insert": lambda warehouse, _session, spark, db: warehouse.sql(
        f"INSERT INTO {db}.t SELECT * FROM {{rows}}", rows=_rows(spark)
    ),
    "update": lambda warehouse, _session, _spark, db: warehouse.sql(f"UPDATE {db}.t SET v = 'lost'"),
}
OPERATIONS = {f"read: {name}": each for name, each in READS.items()} | {
    f"write: {name}": each for name, each in WRITES.items()
}


def _answer(metastore: Metastore, spark: SparkSession, case: str, operation: str) -> dict[str, object]:
    """Return the facts of the error that an operation raises, or its result."""
    try:
        with metastore.session() as session:
            warehouse = session.warehouse(spark, case)
            return {"result": str(OPERATIONS[operation](warehouse, session, spark, f"on_{case}"))}
    except HivexError as error:
        found = {name: getattr(error, name, None) for name in ("cluster", "host")}
        return {"error": type(error).__name__, "message": str(error), **found}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def main(master: str, conf: str) -> None:
    """Open Spark; run the operation of each line in its warehouse."""
    builder = SparkSession.builder.master(master)
    for key, value in json.loads(conf).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        url, clusters, case, operation = json.loads(line)
        with Metastore.open(url, clusters=clusters, default_cluster=case) as metastore:
            sys.stdout.write(json.dumps(_answer(metastore, spark, case, operation)) + "\n")
            sys.stdout.flush()


@contextmanager
def running(properties: Mapping[str, Any], host: Host) -> Iterator[subprocess.Popen[str]]:
    """Yield a notebook on a host, whose Spark runs on the cluster with these properties."""
    arguments = properties["jobtracker"], json.dumps(properties["spark_conf"])
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    with (
        (host.folder / "notebook.log").open("w") as errors,
        subprocess.Popen(
            [*host.command, sys.executable, "-m", __name__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as process,
    ):
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()


def answer_of(process: subprocess.Popen[str], hosts: Hosts, case: str, operation: str) -> dict[str, Any]:
    """Return the answer of a notebook that runs an operation on the tables of a case."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([hosts.url, hosts.clusters, case, operation]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the notebook has ended; see its log"
    answer: dict[str, Any] = json.loads(line)
    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
