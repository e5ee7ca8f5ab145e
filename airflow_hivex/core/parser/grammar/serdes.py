"""Hive's SerDes and input formats as formats of tables and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.file_properties import (
    COLLECTION_DELIM,
    ESCAPE,
    FIELD_DELIM,
    NULL_FORMAT,
    TEXTFILE,
    text_properties,
)


@dataclass(frozen=True, slots=True)
class SerDe:
    """The table format that a SerDe reads, and the formats of STORED AS that allow the SerDe."""

    format: str
    stored_as: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


_TEXT = ("textfile",)
_SERDES = {
    "org.apache.hadoop.hive.serde2.opencsvserde": SerDe(
        # In this format an empty value is an empty text, and no value is NULL. Texts hardly ever have this control
        # character.
        "csv",
        _TEXT,
        {"sep": ",", "quote": '"', "escape": "\\", "nullValue": "\x1a"},
    ),
    "org.apache.hadoop.hive.serde2.lazy.lazysimpleserde": SerDe(TEXTFILE, _TEXT),
    "org.apache.hadoop.hive.serde2.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.apache.hive.hcatalog.data.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.openx.data.jsonserde.jsonserde": SerDe("json", (*_TEXT, "jsonfile")),
    "org.apache.hadoop.hive.ql.io.orc.orcserde": SerDe("orc", ("orc",)),
    "org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde": SerDe("parquet", ("parquet",)),
    "org.apache.hadoop.hive.serde2.avro.avroserde": SerDe("avro", ("avro",)),
}
SERDES = ("OpenCSVSerde", "LazySimpleSerDe", "JsonSerDe", "OrcSerde", "ParquetHiveSerDe", "AvroSerDe")
"""The supported SerDes, by the names of their classes."""

_OPTIONS = {
    "separatorchar": "sep",
    "quotechar": "quote",
    "escapechar": "escape",
    "serialization.encoding": "encoding",
    "avro.schema.literal": "avroSchema",
    "avro.schema.url": "avroSchemaUrl",
}
"""Properties of SerDes that are options of Spark; other properties, such as ``serialization.format``, are ignored."""

_INPUTS = {
    "org.apache.hadoop.mapred.textinputformat": "textfile",
    "org.apache.hadoop.hive.ql.io.orc.orcinputformat": "orc",
    "org.apache.hadoop.hive.ql.io.parquet.mapredparquetinputformat": "parquet",
    "org.apache.hadoop.hive.ql.io.avro.avrocontainerinputformat": "avro",
}


def serde_of(name: str, properties: Mapping[str, str]) -> SerDe | None:
    """Return the SerDe of a class with its properties, None for an unknown class."""
    found = _SERDES.get(name.lower())
    if found is None:
        return None
    if found.format == TEXTFILE:
        return SerDe(found.format, found.stored_as, text_properties(properties))
    given = {_OPTIONS[key.lower()]: value for key, value in properties.items() if key.lower() in _OPTIONS}
    return SerDe(found.format, found.stored_as, {**found.options, **given})


_TEXT_OPTIONS = {"sep": FIELD_DELIM, "delimiter": FIELD_DELIM, "escape": ESCAPE, "nullvalue": NULL_FORMAT}
_TEXT_OPTIONS |= {"fielddelim": FIELD_DELIM, "escapedelim": ESCAPE, "collectiondelim": COLLECTION_DELIM}


def text_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a statement for Hive's text files.

    Spark's names of some properties become Hive's names.
    """
    return {_TEXT_OPTIONS.get(name.lower(), name.lower()): value for name, value in options.items()}


def serde_options(format: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a SerDe, by Hive's or Spark's names, as options of a table's format."""
    if format == TEXTFILE:
        return text_options(properties)
    return {_OPTIONS.get(name.lower(), name): value for name, value in properties.items()}


def format_of_input(name: str) -> str | None:
    """Return the name of an input format in STORED AS, None for an unknown one."""
    return _INPUTS.get(name.lower())
