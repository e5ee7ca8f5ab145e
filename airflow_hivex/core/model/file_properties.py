"""Table properties for writing and reading files: properties of ORC, of Parquet, and of Hive's text files.

The names of properties are those of Hive. Source: Hive's OrcConf, ParquetOutputFormat, LazySerDeParameters and
serdeConstants; Spark's OrcOptions and ParquetOptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.errors import InvalidObjectError

COMPRESSION = "compression"
"""The option that overrides ``orc.compress`` and ``parquet.compression`` in Spark's writers."""

_COMPRESSIONS = {
    "orc": ("none", "uncompressed", "zlib", "snappy", "lz4", "zstd"),
    "parquet": ("none", "uncompressed", "gzip", "snappy", "lz4", "lz4_raw", "zstd"),
}
"""A dict from format to supported compressions. For ORC, ``job.orc_tail`` can read and write each of them."""

_COMPRESSION_PROPERTIES = {"orc": "orc.compress", "parquet": "parquet.compression"}

_LEAST = {
    "orc.stripe.size": 1,
    "orc.compress.size": 1,
    # ORC refuses smaller numbers, except 0, which means no index.
    "orc.row.index.stride": 1000,
    "parquet.block.size": 1,
    "parquet.page.size": 1,
}
"""A dict from property to its smallest value. The values of these properties are whole numbers."""


def is_file_property(name: str) -> bool:
    """Return whether a table property is an option for writing files."""
    return name.lower().partition(".")[0] in _COMPRESSIONS


def file_options(format: str, properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a writer of files: ``options``, and the properties of the table that are for ``format``.

    The name of such a property begins with the format, as in ``orc.compress``. In the result, the name is in lower
    case.
    """
    own = {name.lower(): value for name, value in properties.items() if name.lower().startswith(f"{format}.")}
    return own | dict(options)


def compression(format: str, options: Mapping[str, str]) -> str | None:
    """Return the name of the compression of files, in lower case, or None if no option names it."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    return given.get(COMPRESSION, given.get(_COMPRESSION_PROPERTIES.get(format, "")))


def check_file_options(table: str, format: str, options: Mapping[str, str]) -> None:
    """Refuse options that no writer accepts.

    Raises:
        InvalidObjectError: a compression is unknown, or a value is not a number or is too small.
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


TEXTFILE = "textfile"
"""The format of files that Hive's LazySimpleSerDe reads, including ROW FORMAT DELIMITED."""

LAZY_SIMPLE_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
"""The class of Hive that reads and writes text files."""

FIELD_DELIM = "field.delim"
COLLECTION_DELIM = "collection.delim"
MAPKEY_DELIM = "mapkey.delim"
LINE_DELIM = "line.delim"
ESCAPE = "escape.delim"
NULL_FORMAT = "serialization.null.format"
HEADER_LINES = "skip.header.line.count"
FOOTER_LINES = "skip.footer.line.count"
_SERIALIZATION_FORMAT = "serialization.format"
# Hive itself wrote this spelling before release 3.
_MISSPELT_COLLECTION_DELIM = "colelction.delim"
_TAKES_REST = "serialization.last.column.takes.rest"
_ENCODING = "serialization.encoding"
_EXTENDED_BOOLEANS = "hive.lazysimple.extended_boolean_literal"
_TIMESTAMP_FORMATS = "timestamp.formats"

TEXT_PROPERTIES = frozenset(
    {
        FIELD_DELIM,
        COLLECTION_DELIM,
        MAPKEY_DELIM,
        LINE_DELIM,
        ESCAPE,
        NULL_FORMAT,
        HEADER_LINES,
        FOOTER_LINES,
        _SERIALIZATION_FORMAT,
        _MISSPELT_COLLECTION_DELIM,
        _TAKES_REST,
        _ENCODING,
        _EXTENDED_BOOLEANS,
        _TIMESTAMP_FORMATS,
    }
)
"""The properties of a SerDe, or of a table, for reading its text files."""

CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1")
"""The supported encodings of text files: in each, the end of a line is one byte, and Spark can decode the text."""

_SPARKS_CHARSETS = ("us-ascii", "iso-8859-1", "utf-8", "utf-16be", "utf-16le", "utf-16", "utf-32")
_CHARSET_OPTIONS = ("encoding", "charset")

_BYTE = re.compile(r"[+-]?[0-9]{1,3}")
# From the fourth level of nesting on, Hive has no names for separators. It skips characters that are frequent in texts.
_DEEPER = "".join(map(chr, (*range(4, 9), 11, *range(14, 27), *range(28, 32))))


def needs_java_charset(options: Mapping[str, str]) -> bool:
    """Return whether the options of a reader or writer name an encoding that only Java decodes, and not Spark itself.

    For example, Excel writes ``windows-1252`` in Europe. Source: Spark's CharsetProvider.
    """
    return any(
        name.lower() in _CHARSET_OPTIONS and value.strip().lower() not in _SPARKS_CHARSETS
        for name, value in options.items()
    )


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The format of the lines of a table's files.

    ``separators`` has one character for each level of nesting: between columns, between the items of a collection,
    between a map's key and its value, and so on. If ``last_takes_rest`` is true, the last column, or the last field of
    a struct, gets the rest of the line.
    """

    separators: str
    null: str = "\\N"
    escape: str | None = None
    last_takes_rest: bool = False
    encoding: str = "UTF-8"
    header_lines: int = 0
    footer_lines: int = 0
    extended_booleans: bool = False
    timestamp_formats: tuple[str, ...] = ()

    @property
    def skips_lines(self) -> bool:
        """Return whether some lines of a file are not rows."""
        return self.header_lines > 0 or self.footer_lines > 0


def text_format(properties: Mapping[str, str]) -> TextFormat:
    """Return the format that the properties of a table and its SerDe describe.

    Raises:
        ValueError: a property is not valid, or files with this format cannot be read. The message is the end of a
            sentence.
    """
    given = {name.lower(): value for name, value in properties.items()}
    fields = given.get(FIELD_DELIM, given.get(_SERIALIZATION_FORMAT))
    collections = given.get(COLLECTION_DELIM, given.get(_MISSPELT_COLLECTION_DELIM))
    separators = (
        _character(FIELD_DELIM, fields, "\x01")
        + _character(COLLECTION_DELIM, collections, "\x02")
        + _character(MAPKEY_DELIM, given.get(MAPKEY_DELIM), "\x03")
    )
    if given.get(LINE_DELIM, "\n") not in ("\n", "10"):
        raise ValueError("lines end with a newline in Hive's text files; LINES TERMINATED BY takes '\\n' only")
    escape = _character(ESCAPE, given[ESCAPE], "\\") if ESCAPE in given else None
    encoding = given.get(_ENCODING, CHARSETS[0]).upper()
    if encoding not in CHARSETS:
        raise ValueError(f"text files in {encoding} are not read; {', '.join(CHARSETS)} are")
    return TextFormat(
        separators=separators + _DEEPER,
        null=given.get(NULL_FORMAT, "\\N"),
        escape=escape,
        last_takes_rest=_is_true(given, _TAKES_REST),
        encoding=encoding,
        header_lines=_count(HEADER_LINES, given),
        footer_lines=_count(FOOTER_LINES, given),
        extended_booleans=_is_true(given, _EXTENDED_BOOLEANS),
        timestamp_formats=tuple(filter(None, given.get(_TIMESTAMP_FORMATS, "").split(","))),
    )


def text_properties(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table that are for reading its text files. Their names become lower case."""
    return {name.lower(): value for name, value in parameters.items() if name.lower() in TEXT_PROPERTIES}


def _character(name: str, value: str | None, default: str) -> str:
    """Return the ASCII character in a property.

    The property has the character or, as in Hive, its number (``'9'`` is a tab).
    """
    if not value:
        return default
    character = chr(int(value)) if _BYTE.fullmatch(value) and 0 <= int(value) <= 127 else value
    if len(character) > 1 or not character.isascii():
        raise ValueError(f"{name} is one ASCII character in Hive's text files, not {value!r}")
    if character in "\r\n":
        raise ValueError(f"{name} cannot be the end of a line")
    return character


def _count(name: str, given: Mapping[str, str]) -> int:
    value = given.get(name, "0")
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{name}={value} is not a whole number")
    return int(value)


def _is_true(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "").lower() == "true"
