"""The prelude of a job: the statements that declare, in its Spark session, the variables and functions it uses."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job.functions import is_connect

_DECLARED = re.compile(r"(?:DECLARE OR REPLACE|CREATE OR REPLACE TEMPORARY) (VARIABLE|FUNCTION) (`(?:[^`]|``)+`)")
_done: WeakKeyDictionary[SparkSession, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(slots=True)
class _Declared:
    """The prelude of the running jobs of a shared session, and the number of these jobs.

    ``objects`` drops the declared variables and functions when the last job ends.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    prelude: Sequence[str] = ()
    jobs: int = 0
    objects: ExitStack = field(default_factory=ExitStack)


_lock = threading.Lock()
_shared: WeakKeyDictionary[SparkSession, _Declared] = WeakKeyDictionary()


@contextmanager
def declared(spark: SparkSession, prelude: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    """Declare the variables and functions of a prelude, and run the block.

    If the session is not shared with its user, the variables and functions are kept after the block.

    In a shared session, the block starts after all jobs with a different prelude have ended. When the last job with
    this prelude ends, the variables and functions are dropped. If the user has a variable or function with one of the
    names, Spark raises an error, and the user's object stays unchanged.
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
    # A repeated declaration changes nothing for other threads that read the objects. Only the threads of Spark that
    # have loaded a file find its class.
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


# Functions of classes in a session of Spark: Hive's classes among them, which Spark calls with support for Hive only.
#
# Spark chooses once for each session what makes an expression of a class. Without support for Hive that knows classes
# of Spark alone, though the libraries of Hive may be there.


_CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_FIELD = "functionExpressionBuilder"
_OF_HIVE = "org.apache.spark.sql.hive.HiveUDFExpressionBuilder$"
_IMPLEMENTATION = "spark.sql.catalogImplementation"


def is_class(declaration: str) -> bool:
    """Return whether a statement declares a function by the name of its Java class."""
    return declaration.startswith("CREATE OR REPLACE TEMPORARY FUNCTION") and "` AS '" in declaration


@contextmanager
def hive_classes(spark: SparkSession, declarations: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    """Let the session call functions that are Java classes of Hive, such as a GenericUDF, and run the block.

    If none of the ``declarations`` names a Java class, the session is not changed. After the block, a session that is
    shared with its user is restored.

    Raises:
        InvalidOperationError: a server of Spark Connect has no support for Hive.
    """
    named = next((text for text in declarations if is_class(text)), None)
    if named is None or spark.conf.get(_IMPLEMENTATION) == "hive":
        yield
        return
    if is_connect(spark):
        name = named.split("`", 2)[1]
        reason = f"the server has no support for Hive; start it with {_IMPLEMENTATION}=hive, or write a function of SQL"
        raise InvalidOperationError("A call of", name, reason)
    # A client of Spark Connect alone does not have this package.
    from py4j.protocol import Py4JError

    session: Any = spark
    jvm, catalog = session._jvm, session._jsparkSession.sessionState().catalog()
    try:
        # Spark's own loader has the classes of both.
        builder = getattr(getattr(jvm, _OF_HIVE), "MODULE$")
        field = jvm.java.lang.Class.forName(_CATALOG).getDeclaredField(_FIELD)
        field.setAccessible(True)
    except (Py4JError, TypeError, AttributeError):
        # A Spark without the libraries of Hive calls its own classes only, and says so.
        yield
        return
    before = field.get(catalog)
    field.set(catalog, builder)
    try:
        yield
    finally:
        if is_shared:
            field.set(catalog, before)
