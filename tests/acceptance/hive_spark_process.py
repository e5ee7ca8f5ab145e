"""A program: Spark with its own Hive support makes tables in a Hive metastore, and writes the rows of each as JSON.

Its arguments are the address of the metastore, and the folder for the tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

TABLES = {
    "parted": (
        "(Id BIGINT COMMENT 'the number', Name STRING, price DECIMAL(5,2), code VARCHAR(9), parts "
        "ARRAY<STRUCT<x: INT, y: MAP<STRING, DOUBLE>>>, ds STRING, hr INT) USING parquet PARTITIONED BY (ds, hr)",
        "VALUES (1L, 'a', 1.5BD, 'x', array(named_struct('x', 1, 'y', map('k', 0.5D))), '2024-01-01', 7), "
        "(2L, NULL, NULL, NULL, NULL, 'a b/c', 8), (3L, 'c', 3BD, 'z', array(), NULL, NULL)",
    ),
    "times": (
        "(at TIMESTAMP, day DATE, local TIMESTAMP_NTZ, bytes BINARY, small TINYINT) USING orc",
        "VALUES (TIMESTAMP '2024-02-29 12:34:56.789Z', DATE '2024-02-29', TIMESTAMP_NTZ '2024-02-29 12:34:56', "
        "X'00FF', 1Y)",
    ),
    "lines": ("(id INT, name STRING) USING csv OPTIONS (header 'true', sep ';')", "VALUES (1, 'a;b'), (2, 'c')"),
    "objects": ("(id INT, tags ARRAY<STRING>) USING json", "VALUES (1, array('a')), (2, NULL)"),
    "bucketed": ("(id INT, name STRING) USING parquet CLUSTERED BY (id) INTO 3 BUCKETS", "VALUES (1, 'a'), (2, 'b')"),
    "of_hive": (
        "(id INT, Name STRING) PARTITIONED BY (ds DATE) STORED AS ORC",
        "VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', DATE '2024-01-02')",
    ),
    "text_of_hive": (
        "(id INT, name STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'",
        "VALUES (1, 'a'), (2, NULL)",
    ),
    "parquet_of_hive": ("(id INT, parts MAP<STRING, INT>) STORED AS PARQUET", "VALUES (1, map('a', 1)), (2, NULL)"),
}
VIEWS = {
    "seen": "SELECT Id, upper(Name) AS called FROM parted WHERE hr < 8",
    "joined": "WITH t AS (SELECT id FROM lines) SELECT o.* FROM objects o JOIN t USING (id)",
}


def as_json(table: str, columns: Sequence[str]) -> str:
    """The query of a table's rows, each as one text."""
    values = ", ".join(f"`{name}` AS c{number}" for number, name in enumerate(columns))
    return f"SELECT to_json(struct({values})) FROM {table}"


def main(address: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.hive.metastore.uris", address)
        .config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
        .config("spark.sql.warehouse.dir", folder)
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sql(f"CREATE DATABASE made_by_spark LOCATION '{folder}/made_by_spark.db'")
    spark.sql("USE made_by_spark")
    for name, (definition, rows) in TABLES.items():
        spark.sql(f"CREATE TABLE {name} {definition}")
        spark.sql(f"INSERT INTO {name} {rows}")
    spark.sql("CREATE TABLE selected USING parquet AS SELECT * FROM of_hive")
    for name, query in VIEWS.items():
        spark.sql(f"CREATE VIEW {name} AS {query}")
    spark.sql("ANALYZE TABLE of_hive COMPUTE STATISTICS FOR COLUMNS id, Name")
    columns = {name: spark.table(name).columns for name in (*TABLES, "selected", *VIEWS)}
    found = {name: sorted(row[0] for row in spark.sql(as_json(name, columns[name])).collect()) for name in columns}
    sys.stdout.write(json.dumps({"columns": columns, "rows": found}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
