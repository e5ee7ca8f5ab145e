"""Rows of a cursor as data frames of pandas and polars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowOptionalProviderFeatureException

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame

    from airflow_hivex.core.dbapi import Cursor

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def to_pandas(cursor: Cursor, rows: Sequence[tuple[object, ...]], **options: Any) -> PandasFrame:
    """Return rows of a cursor as a frame of pandas.

    :param options: those of ``pandas.DataFrame.from_records``, such as ``index`` and ``coerce_float``; ``index_col``
        is another name of ``index``
    """
    import pandas as pd

    if "index_col" in options:
        options["index"] = options.pop("index_col")
    return pd.DataFrame.from_records([*rows], columns=_names(cursor), **options)


def to_polars(cursor: Cursor, rows: Sequence[Sequence[object]], **options: Any) -> PolarsFrame:
    """Return rows of a cursor as a frame of polars, with the types of the columns where polars has them.

    :param options: those of ``polars.DataFrame``
    :raises AirflowOptionalProviderFeatureException: polars is not installed
    """
    try:
        import polars as pl
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException("polars is not installed. Run: pip install polars") from error
    types = {column[0]: _polars_type(pl, column[1]) for column in cursor.description or ()}
    overrides: Any = {name: known for name, known in types.items() if known is not None}
    return pl.DataFrame(
        list(rows),
        schema=_names(cursor),
        schema_overrides=overrides,
        orient="row",
        **{"infer_schema_length": None} | options,
    )


def _names(cursor: Cursor) -> list[str]:
    return [column[0] for column in cursor.description or ()]


def _polars_type(polars: Any, type: str) -> Any:
    decimal = _DECIMAL.fullmatch(type)
    if decimal:
        return polars.Decimal(int(decimal[1]), int(decimal[2]))
    return {
        "boolean": polars.Boolean,
        "tinyint": polars.Int8,
        "smallint": polars.Int16,
        "int": polars.Int32,
        "bigint": polars.Int64,
        "float": polars.Float32,
        "double": polars.Float64,
        "string": polars.String,
        "binary": polars.Binary,
        "date": polars.Date,
        "timestamp": polars.Datetime("us", "UTC"),
        "timestamp_ntz": polars.Datetime("us"),
    }.get(type)
