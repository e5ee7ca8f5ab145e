"""A driver whose tasks run on executors of their own; it runs the statement of each line, and answers in JSON.

``WORK`` is not a statement: a worker does the oldest compaction that waits.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Result
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.warehouse import Warehouse
from tests import spark_options

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {os.environ[spark_options.VARIABLE]}",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # The second failure of a task is the statement's.
    "spark.task.maxFailures": "2",
    # Dozens of executors are lost here, each for no fault of its own.
    "spark.deploy.maxExecutorRetries": "-1",
}


def answer(metastore: Metastore, warehouse: Warehouse, statement: str) -> dict[str, object]:
    """What the statement brought: rows, the number of rows written, or the type and the sentence of its error."""
    try:
        if statement == "WORK":
            done = metastore.compactor.work()
            return {"state": done and done.state.shown, "message": done and done.error_message}
        found = warehouse.sql(statement)
        if isinstance(found, Result):
            return {"written": found.rows_written}
        return {"rows": [list(row) for row in found.collect()]}
    except HivexError as error:
        return {"error": type(error).__name__, "message": str(error)}


def main(url: str, clusters: str) -> None:
    """Open the warehouse on two executors, print the process id of the driver's JVM, then run statements."""
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    with Metastore.open(url, clusters=clusters) as metastore, metastore.session() as session:
        warehouse = session.warehouse(spark)
        sys.stdout.write(f"{gateway.proc.pid}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            sys.stdout.write(json.dumps(answer(metastore, warehouse, line.strip())) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
