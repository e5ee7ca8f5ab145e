"""Table properties that say how files are written, such as ``orc.compress``: Hive's names, which Spark's writers know.

Source: Hive's OrcConf and ParquetOutputFormat; Spark's OrcOptions and ParquetOptions.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.errors import InvalidObjectError

COMPRESSION = "compression"
"""The option that Spark's writers put before ``orc.compress`` and ``parquet.compression``."""

_COMPRESSIONS = {
    "orc": ("none", "uncompressed", "zlib", "snappy", "lz4", "zstd"),
    "parquet": ("none", "uncompressed", "gzip", "snappy", "lz4", "lz4_raw", "zstd"),
}
"""By format, what files can be compressed with here; ORC's are those whose tail ``spark.orc_tail`` edits."""

_COMPRESSION_PROPERTIES = {"orc": "orc.compress", "parquet": "parquet.compression"}

_LEAST = {
    "orc.stripe.size": 1,
    "orc.compress.size": 1,
    # ORC refuses less, other than 0: without an index.
    "orc.row.index.stride": 1000,
    "parquet.block.size": 1,
    "parquet.page.size": 1,
}
"""Properties that are whole numbers, and the least of each."""


def is_file_property(name: str) -> bool:
    """Return whether a table property says how files are written."""
    return name.lower().partition(".")[0] in _COMPRESSIONS


def file_options(format: str, properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a writer of ``format``.

    The data source's options, and properties of its own with small letters.
    """
    own = {name.lower(): value for name, value in properties.items() if name.lower().startswith(f"{format}.")}
    return own | dict(options)


def compression(format: str, options: Mapping[str, str]) -> str | None:
    """Return the name of the compression of files, in small letters; None where no option names one."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    return given.get(COMPRESSION, given.get(_COMPRESSION_PROPERTIES.get(format, "")))


def check_file_options(table: str, format: str, options: Mapping[str, str]) -> None:
    """Refuse options that no writer accepts.

    Raises:
        InvalidObjectError: a compression that is not known, or a value that is not a number or is too small.
    """
    chosen = compression(format, options)
    known = _COMPRESSIONS.get(format, ())
    if chosen is not None and known and chosen not in known:
        name = _COMPRESSION_PROPERTIES[format]
        reason = f"its files cannot be compressed with {chosen or 'nothing'} ({name}); {', '.join(known)} are possible"
        raise InvalidObjectError("table", table, reason)
    for name, value in options.items():
        least = _LEAST.get(name.lower())
        if least is None or (value.isdecimal() and int(value) >= least):
            continue
        if name.lower() == "orc.row.index.stride" and value == "0":
            continue
        raise InvalidObjectError("table", table, f"{name}={value} is not a whole number of at least {least}")
