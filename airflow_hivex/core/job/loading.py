"""A DataFrame of many paths, at the cost of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

_SEPARATOR = "\0"
"""No path has it."""


def load(reader: Any, paths: Sequence[str]) -> DataFrame:
    """Return a reader of the files below ``paths``.

    Classic PySpark calls the JVM once for each of a list's items; as one text, ten thousand of them cost as little as
    ten. Spark Connect would look for the paths only when the reader is used, so its schema is asked for.

    Raises:
        AnalysisException: as ``DataFrameReader.load``.
    """
    classic = getattr(reader, "_jreader", None)
    if classic is None or len(paths) == 1:
        frame: DataFrame = reader.load(list(paths))
        if classic is None:
            _ = frame.schema
        return frame
    split = getattr(reader._spark._jvm, "java.util.regex.Pattern").compile(_SEPARATOR).split
    loaded: DataFrame = reader._df(classic.load(split(_SEPARATOR.join(paths))))
    return loaded
