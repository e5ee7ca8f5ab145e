"""The variables and functions that the texts of a job name, declared in its session of Spark."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from airflow_hivex.core.job.hive_classes import hive_classes, is_class

_DECLARED = re.compile(r"(?:DECLARE OR REPLACE|CREATE OR REPLACE TEMPORARY) (VARIABLE|FUNCTION) (`(?:[^`]|``)+`)")
_done: WeakKeyDictionary[SparkSession, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(slots=True)
class _Declared:
    """The prelude of the jobs that run in a shared session now, how many they are, and what takes it away again."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    prelude: Sequence[str] = ()
    jobs: int = 0
    objects: ExitStack = field(default_factory=ExitStack)


_lock = threading.Lock()
_shared: WeakKeyDictionary[SparkSession, _Declared] = WeakKeyDictionary()


@contextmanager
def declared(spark: SparkSession, prelude: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    """Run the block in a session that has the objects of a prelude.

    A session of our own serves jobs of one prelude only, and keeps it. Of one that is shared with its user the objects
    are dropped again; the user's own of such a name is an error, and stays. There a job waits for those of other
    threads that have another prelude, whose objects may have the same names.
    """
    if not prelude:
        yield
    elif is_shared:
        with _of_this_time(spark, tuple(prelude)):
            yield
    else:
        with hive_classes(spark, prelude, is_shared=False):
            _keep(spark, tuple(prelude))
            yield


def _keep(spark: SparkSession, prelude: tuple[str, ...]) -> None:
    # The same again while another thread reads them changes nothing. A class of a file is found by the threads
    # of Spark that have loaded the file.
    if _done.get(spark) != prelude or any(is_class(text) and " USING " in text for text in prelude):
        for text in prelude:
            spark.sql(text)
        _done[spark] = prelude


@contextmanager
def _of_this_time(spark: SparkSession, prelude: tuple[str, ...]) -> Iterator[None]:
    with _lock:
        there = _shared.setdefault(spark, _Declared())
    with there.changed:
        there.changed.wait_for(lambda: not there.jobs or there.prelude == prelude)
        if not there.jobs:
            with ExitStack() as objects:
                objects.enter_context(hive_classes(spark, prelude, is_shared=True))
                objects.enter_context(_made(spark, prelude))
                there.objects = objects.pop_all()
            there.prelude = prelude
        there.jobs += 1
    try:
        yield
    finally:
        with there.changed:
            there.jobs -= 1
            if not there.jobs:
                try:
                    there.objects.close()
                finally:
                    there.changed.notify_all()


@contextmanager
def _made(spark: SparkSession, prelude: Sequence[str]) -> Iterator[None]:
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
