"""Functions of classes in a session of Spark: Hive's classes among them, which Spark calls with support for Hive only.

Spark chooses once for each session what makes an expression of a class. Without support for Hive that knows classes of
Spark alone, though the libraries of Hive may be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job.functions import is_connect

_CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_FIELD = "functionExpressionBuilder"
_OF_HIVE = "org.apache.spark.sql.hive.HiveUDFExpressionBuilder$"
_IMPLEMENTATION = "spark.sql.catalogImplementation"


def is_class(declaration: str) -> bool:
    """Return whether a declaration of a function names a class."""
    return declaration.startswith("CREATE OR REPLACE TEMPORARY FUNCTION") and "` AS '" in declaration


@contextmanager
def hive_classes(spark: SparkSession, declarations: Sequence[str], *, is_shared: bool) -> Iterator[None]:
    """Run the block in a session that calls the classes of Hive, if a declaration names a class.

    A session that is shared with its user is given back as it was.

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
    # The client of Spark Connect alone does not have it.
    from py4j.protocol import Py4JError

    session: Any = spark
    jvm, catalog = session._jvm, session._jsparkSession.sessionState().catalog()
    try:
        # Spark's own loader has both.
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
