"""Hive's SerDes and input formats as Spark's data sources and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What Hive assumes of delimited text when the statement does not say. It knows no quotes.
HIVE_TEXT = {"sep": "\x01", "nullValue": "\\N"}


@dataclass(frozen=True, slots=True)
class SerDe:
    """A data source of Spark's that reads what a SerDe reads, and the formats (STORED AS) that it goes with."""

    format: str
    stored_as: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


_TEXT = ("textfile",)
_SERDES = {
    "org.apache.hadoop.hive.serde2.opencsvserde": SerDe(
        # An empty value is an empty text there; NULL is never written.
        "csv",
        _TEXT,
        {"sep": ",", "quote": '"', "escape": "\\", "nullValue": "\x00"},
    ),
    "org.apache.hadoop.hive.serde2.lazy.lazysimpleserde": SerDe("csv", _TEXT, HIVE_TEXT),
    "org.apache.hadoop.hive.serde2.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.apache.hive.hcatalog.data.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.openx.data.jsonserde.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.apache.hadoop.hive.ql.io.orc.orcserde": SerDe("orc", ("orc",)),
    "org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde": SerDe("parquet", ("parquet",)),
    "org.apache.hadoop.hive.serde2.avro.avroserde": SerDe("avro", ("avro",)),
}
SERDES = ("OpenCSVSerde", "LazySimpleSerDe", "JsonSerDe", "OrcSerde", "ParquetHiveSerDe", "AvroSerDe")
"""The SerDes that are read, by the names of their classes."""

_OPTIONS = {
    "separatorchar": "sep",
    "quotechar": "quote",
    "escapechar": "escape",
    "field.delim": "sep",
    "escape.delim": "escape",
    "line.delim": "lineSep",
    "serialization.null.format": "nullValue",
    "serialization.encoding": "encoding",
    "avro.schema.literal": "avroSchema",
    "avro.schema.url": "avroSchemaUrl",
}
"""Properties of SerDes that are options of Spark's; others, such as ``serialization.format``, change nothing here."""

_INPUTS = {
    "org.apache.hadoop.mapred.textinputformat": "textfile",
    "org.apache.hadoop.hive.ql.io.orc.orcinputformat": "orc",
    "org.apache.hadoop.hive.ql.io.parquet.mapredparquetinputformat": "parquet",
    "org.apache.hadoop.hive.ql.io.avro.avrocontainerinputformat": "avro",
}


def serde_of(name: str, properties: Mapping[str, str]) -> SerDe | None:
    """The SerDe of a class with its properties, None for one that is not known."""
    found = _SERDES.get(name.lower())
    if found is None:
        return None
    given = {_OPTIONS[key.lower()]: value for key, value in properties.items() if key.lower() in _OPTIONS}
    return SerDe(found.format, found.stored_as, {**found.options, **given})


def format_of_input(name: str) -> str | None:
    """What STORED AS calls the files of an input format, None for one that is not known."""
    return _INPUTS.get(name.lower())
