"""The translation of Hive's SerDes and input formats to table formats with options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.file_properties import (
    COLLECTION_DELIM,
    ESCAPE,
    FIELD_DELIM,
    LINE_DELIM,
    MAPKEY_DELIM,
    NULL_FORMAT,
    TEXTFILE,
    text_properties,
)
from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor


@dataclass(frozen=True, slots=True)
class SerDe:
    """A SerDe that statements can name: the table format of its files, and the options of this format.

    ``stored_as`` are the formats that STORED AS can name together with the SerDe.
    """

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
"""A dict from SerDe property to Spark's option. Properties that are not in the dict are ignored."""

_INPUTS = {
    "org.apache.hadoop.mapred.textinputformat": "textfile",
    "org.apache.hadoop.hive.ql.io.orc.orcinputformat": "orc",
    "org.apache.hadoop.hive.ql.io.parquet.mapredparquetinputformat": "parquet",
    "org.apache.hadoop.hive.ql.io.avro.avrocontainerinputformat": "avro",
}


def serde_of(name: str, properties: Mapping[str, str]) -> SerDe | None:
    """Return the SerDe for the name of Hive's class and its properties, or None for an unknown class."""
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
    """Return a statement's options for Hive's text files. Spark's names of options are replaced by Hive's names."""
    return {_TEXT_OPTIONS.get(name.lower(), name.lower()): value for name, value in options.items()}


def serde_options(format: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return a SerDe's properties, which have Hive's or Spark's names, as options of a table format."""
    if format == TEXTFILE:
        return text_options(properties)
    return {_OPTIONS.get(name.lower(), name): value for name, value in properties.items()}


def format_of_input(name: str) -> str | None:
    """Return the word of STORED AS for Hive's class of an input format, or None for an unknown class."""
    return _INPUTS.get(name.lower())


# -- clauses -----------------------------------------------------------------------------


def read_input_format(cursor: Cursor) -> str:
    """Return the class name of an input format, which must come next.

    Raises:
        UnsupportedStatementError: this release does not read files of the format.
    """
    token = cursor.peek()
    name = read_string(cursor, "the class of an input format")
    if format_of_input(name) is None:
        reason = f"files of input format {name} are not read; name a format, such as ORC"
        raise cursor.unsupported(reason, token)
    return name


def read_serde(cursor: Cursor) -> str:
    """Return the class name of a SerDe, which must come next.

    Raises:
        UnsupportedStatementError: the SerDe is not supported.
    """
    token = cursor.peek()
    name = read_string(cursor, "the class of a SerDe")
    if serde_of(name, {}) is None:
        raise cursor.unsupported(f"{name} is not one of the SerDes that are read here: {', '.join(SERDES)}", token)
    return name


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The file format that a statement names, with its options. ``format`` is None if no format is named.

    ``path`` is the location that the statement gives as Spark's option ``path``. ``input_format``, ``output_format``
    and ``serde_library`` are the classes of Hive that the statement names.
    """

    format: str | None
    options: dict[str, str]
    path: str | None
    input_format: str | None
    output_format: str | None
    serde_library: str | None


_DELIMITED = {
    "field_delim": FIELD_DELIM,
    "escape": ESCAPE,
    "collection_delim": COLLECTION_DELIM,
    "mapkey_delim": MAPKEY_DELIM,
    "line_delim": LINE_DELIM,
    "null_format": NULL_FORMAT,
}
"""A dict from the fields of ROW FORMAT DELIMITED to the properties that they set."""
_HIVE_FORM = ("stored_as", "input_format", "delimited", "serde_library")


def file_format(parts: Parts) -> FileFormat:
    """Return the format that the clauses of a statement name. The clauses are in Spark's or in Hive's form.

    ROW FORMAT DELIMITED and STORED AS TEXTFILE become the format ``textfile``. Its options are properties of Hive's
    SerDe.

    Raises:
        StatementSyntaxError: two clauses contradict each other.
    """
    given = [field for field in ("format", *_HIVE_FORM) if field in parts]
    last = max((parts.token(field) for field in given), key=lambda token: token.start, default=parts.first)
    if "format" in given and len(given) > 1:
        reason = "a format is named by USING, or by Hive's STORED AS and ROW FORMAT, not by both"
        raise parts.cursor.error(reason, last)
    stored_as = format_of_input(parts["input_format"]) if "input_format" in parts else parts["stored_as"]
    if "delimited" in parts and stored_as not in (None, TEXTFILE):
        raise parts.cursor.error("ROW FORMAT DELIMITED goes with STORED AS TEXTFILE only", last)
    serde = serde_of(parts["serde_library"] or "", parts["serde_properties"] or {})
    if serde is not None and stored_as not in (None, *serde.stored_as):
        known = " or ".join(name.upper() for name in serde.stored_as)
        raise parts.cursor.error(f"that SerDe goes with files of {known} only", last)
    options = dict(parts["options"] or {})
    path = next((options.pop(name) for name in tuple(options) if name.lower() == "path"), None)
    name = parts["format"] or stored_as
    if serde is not None:
        name = serde.format
    if name == TEXTFILE or "delimited" in parts:
        name, options = TEXTFILE, text_options(options)
    delimited = {name: parts[field] for field, name in _DELIMITED.items() if field in parts}
    return FileFormat(
        name,
        {**(serde.options if serde is not None else {}), **options, **delimited},
        path,
        parts["input_format"],
        parts["output_format"],
        parts["serde_library"],
    )
