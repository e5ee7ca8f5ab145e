"""How the JVMs of the tests' Spark run, and an archive of the classes that they load.

With the archive a JVM starts in half the time (class-data sharing). ``make test`` makes it, once, in ``.venv``.
Without it, or with one of another Java or another Spark, the JVM loads its classes as ever.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

VARIABLE = "SPARK_SUBMIT_OPTS"
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
# What a short life would not pay back is left out. The cache for compiled code is small without the second compiler:
# a Spark that runs many different queries would fill it, and compile no more.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# Java tells on standard output why it does not use an archive, or what it leaves out of one.
_QUIET = "-Xlog:disable"
_STATEMENTS = (
    "CREATE TABLE t (id bigint, v string) PARTITIONED BY (p string)",
    "INSERT INTO t VALUES (-1, 'a', 'x')",
    "INSERT INTO t SELECT id, concat('v', id), CAST(id % 3 AS string) FROM range(100)",
    "CREATE TABLE b CLUSTERED BY (id) INTO 2 BUCKETS AS SELECT id, v FROM t",
    "UPDATE t SET v = 'new' WHERE id % 7 = 0",
    "DELETE FROM b WHERE id % 5 = 0",
    "MERGE INTO t USING b ON t.id = b.id WHEN MATCHED AND t.id > 50 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = b.v WHEN NOT MATCHED THEN INSERT VALUES (b.id, b.v, 'm')",
    "INSERT OVERWRITE t PARTITION (p) SELECT id, v, p FROM t WHERE id > 3",
    "SELECT p, count(*), sum(id), max(t.v) FROM t JOIN b USING (id) GROUP BY p ORDER BY p",
)


def java_options() -> str:
    """The options of a JVM of the tests."""
    return f"{_OPTIONS} {_QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else _OPTIONS


def make_archive() -> None:
    """Run a few statements, and keep the classes that they have loaded."""
    from pyspark import SparkContext

    from airflow_hivex.core import Metastore

    # Others may read the archive while this one is made.
    new = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ[VARIABLE] = f"{_OPTIONS} {_QUIET} -XX:ArchiveClassesAtExit={new}"
    with tempfile.TemporaryDirectory() as folder:
        clusters = {"c1": {"filesystem": Path(folder).as_uri(), "jobtracker": "local[2]"}}
        with (
            Metastore.open(f"sqlite:///{folder}/metastore.db", clusters=clusters) as metastore,
            metastore.session() as session,
        ):
            for statement in _STATEMENTS:
                session.sql(statement)
        SparkContext.getOrCreate().stop()
    java = SparkContext._gateway.proc
    # It ends with its input, and writes the archive then.
    java.stdin.close()
    java.wait()
    # A Java that cannot make one gets an empty file, which it does not use.
    new.touch()
    new.replace(ARCHIVE)


if __name__ == "__main__":
    make_archive()
