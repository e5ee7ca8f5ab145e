"""How the JVMs of the tests' Spark run, and an archive of the classes that they load.

With the archive a JVM starts in half the time (class-data sharing). ``make test`` makes it, once, in ``.venv``.
Without it, or with one of another Java or another Spark, the JVM loads its classes as ever.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "SPARK_SUBMIT_OPTS"
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
# What a short life would not pay back is left out. The cache for compiled code is small without the second compiler:
# a Spark that runs many different queries would fill it, and compile no more.
# A large young generation is collected a third as often: most objects of a statement are gone by then.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:NewSize=512m -XX:ReservedCodeCacheSize=256m"
# Java prints to standard output why it does not use an archive, or what it leaves out of one.
_QUIET = "-Xlog:disable"


def java_options() -> str:
    """The options of a JVM of the tests."""
    return f"{_OPTIONS} {_QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else _OPTIONS


def make_archive() -> None:
    """Run a few statements, and keep the classes that they have loaded."""
    from airflow_hivex.cli import spark

    os.environ[VARIABLE] = f"{_OPTIONS} {_QUIET}"
    spark.make_archive(ARCHIVE)
    # A Java that cannot make one gets an empty file, which it does not use.
    ARCHIVE.touch()


if __name__ == "__main__":
    make_archive()
