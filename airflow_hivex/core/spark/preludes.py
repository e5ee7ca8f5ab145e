"""The variables and temporary functions that the texts of a job name, declared in its session of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from airflow_hivex.core.spark.hive_classes import hive_classes, is_class

_DECLARED = re.compile(r"(?:DECLARE OR REPLACE|CREATE OR REPLACE TEMPORARY) (VARIABLE|FUNCTION) (`(?:[^`]|``)+`)")
_done: WeakKeyDictionary[SparkSession, tuple[str, ...]] = WeakKeyDictionary()


@contextmanager
def declared(spark: SparkSession, prelude: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    """Run the block in a session that has the objects of a prelude.

    A session of our own serves jobs of one prelude only, and keeps it. Of one that is shared with its user the objects
    are dropped again; the user's own of such a name is an error, and stays.
    """
    if not prelude:
        yield
        return
    with hive_classes(spark, prelude, is_shared=is_shared), _made(spark, prelude, is_shared=is_shared):
        yield


@contextmanager
def _made(spark: SparkSession, prelude: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    if not is_shared:
        # The same again while another thread reads them changes nothing. A class of a file is found by the threads
        # of Spark that have loaded the file.
        if _done.get(spark) != tuple(prelude) or any(is_class(text) and " USING " in text for text in prelude):
            for text in prelude:
                spark.sql(text)
            _done[spark] = tuple(prelude)
        yield
        return
    made: list[str] = []
    try:
        for text in prelude:
            found = _DECLARED.match(text)
            assert found is not None
            kind, name = found.groups()
            spark.sql(text.replace(" OR REPLACE", "", 1))
            made.append(f"DROP TEMPORARY {kind} IF EXISTS {name}")
        yield
    finally:
        for text in made:
            spark.sql(text)
