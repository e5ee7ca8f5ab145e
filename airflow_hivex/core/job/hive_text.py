"""Hive's text files, with the rules of LazySimpleSerDe: lines of Spark's text source, parsed by expressions.

Spark's own csv source is different: it loses lines of blanks and control characters, distinguishes an empty text from
NULL by quotes, and has no collections. Source: Hive's LazyStruct, LazyArray, LazyMap, LazyUtils and the Lazy
primitives.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import declared_type, quoted
from airflow_hivex.core.model.file_properties import CHARSETS, TextFormat
from airflow_hivex.core.model.objects import Column

LINE = "__line"
"""The only column of the lines that Spark reads and writes."""
_FIELDS = "__fields"

_WHOLE_NUMBER = r"\A([+-]?[0-9]+)(?:\.[0-9]*)?\z"
_FRACTION_ALONE = r"\A[+-]?\.[0-9]+\z"
_NO_BLANKS = r"\A[!-~]+\z"
_DATE = r"\A\s*([+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2})(?:[ T].*)?\z"
_TIMESTAMP = r"\A\s*[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]{1,9})?\s*\z"
_BASE64 = r"\A[A-Za-z0-9+/=_\s-]*\z"
_NOT_OF_BASE64 = r"(?s)\s|=.*"


def rows_of(lines: DataFrame, columns: Sequence[Column], keys: Sequence[Column], form: TextFormat) -> DataFrame:
    """Return the rows of lines: ``columns`` with their names in files, then the partition columns ``keys``.

    A value is NULL if its field is missing, or is not valid for the column's type. Additional fields are ignored, or
    belong to the last column if ``form.last_takes_rest`` is set.
    """
    key_names = [quoted(key.in_files) for key in keys]
    lines = _without_skipped(lines, key_names, form)
    line = quoted(LINE)
    if form.encoding != CHARSETS[0]:
        line = f"decode(CAST({line} AS BINARY), '{form.encoding}')"
    fields = _fields(line, len(columns), 0, form)
    parted = lines.selectExpr(f"{fields} AS {quoted(_FIELDS)}", *key_names)
    values = []
    for number, column in enumerate(columns):
        value = _value(f"get({quoted(_FIELDS)}, {number})", declared_type(column.type), 1, form)
        values.append(f"{value} AS {quoted(column.in_files)}")
    return parted.selectExpr(*values, *key_names)


def lines_of(rows: DataFrame, columns: Sequence[Column], keys: Sequence[str], form: TextFormat) -> DataFrame:
    """Return rows as lines in the column :data:`LINE`, with unchanged partition columns ``keys``."""
    texts = [_written(quoted(column.in_files), declared_type(column.type), 1, form) for column in columns]
    line = f"concat_ws({_text(form.separators[0])}, {', '.join(texts)})"
    return rows.selectExpr(f"{line} AS {quoted(LINE)}", *map(quoted, keys))


def _without_skipped(lines: DataFrame, keys: Sequence[str], form: TextFormat) -> DataFrame:
    """Return the lines without header and footer lines of each file."""
    if not form.skips_lines:
        return lines
    path, start = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    places = lines.select("*", path.alias("__path"), start.alias("__start")).withColumn(
        "__number", F.monotonically_increasing_id()
    )
    names = [quoted(LINE), *keys]
    in_file = ", ".join((*keys, "__path"))
    if form.footer_lines:
        numbered = places.selectExpr(
            *names,
            f"row_number() OVER (PARTITION BY {in_file} ORDER BY __start, __number) AS __first",
            f"row_number() OVER (PARTITION BY {in_file} ORDER BY __start DESC, __number DESC) AS __last",
        )
        return numbered.where(f"__first > {form.header_lines} AND __last > {form.footer_lines}").selectExpr(*names)
    # Without footer lines, only the beginning of a file needs a shuffle.
    beginnings = places.where("__start = 0").selectExpr(
        *names, f"row_number() OVER (PARTITION BY {in_file} ORDER BY __number) AS __first"
    )
    rest = places.where("__start > 0").selectExpr(*names)
    return beginnings.where(f"__first > {form.header_lines}").selectExpr(*names).union(rest)


# -- reading -------------------------------------------------------------------------


def _value(text: str, type: DataType, level: int, form: TextFormat) -> str:
    """Return SQL for a value; ``text`` is SQL for its text. ``level`` is the index of the separator of its items."""
    return f"CASE WHEN {text} != {_text(form.null)} THEN {_parsed(text, type, level, form)} END"


def _parsed(text: str, type: DataType, level: int, form: TextFormat) -> str:
    match type:
        case ArrayType():
            return _array(text, type, level, form)
        case MapType():
            return _map(text, type, level, form)
        case StructType():
            return _struct(text, type, level, form)
        case StringType() | VarcharType() | CharType() | BinaryType():
            return _characters(_unescaped(text, form), type)
        case DateType() | TimestampType() | TimestampNTZType():
            return _moment(text, type, form)
        case BooleanType():
            return _boolean(text, form)
    return _number(text, type)


def _characters(text: str, type: DataType) -> str:
    match type:
        case VarcharType():
            return f"substring({text}, 1, {type.length})"
        case CharType():
            return f"rpad(substring({text}, 1, {type.length}), {type.length}, ' ')"
        case BinaryType():
            return _binary(text)
    return text


def _number(text: str, type: DataType) -> str:
    match type:
        case ByteType() | ShortType() | IntegerType() | LongType():
            name = type.simpleString()
            whole = f"try_cast(regexp_extract({text}, {_text(_WHOLE_NUMBER)}, 1) AS {name})"
            return f"coalesce({whole}, IF({text} RLIKE {_text(_FRACTION_ALONE)}, CAST(0 AS {name}), NULL))"
        case FloatType() | DoubleType():
            return _floating(text, type)
    return f"try_cast(IF({text} RLIKE {_text(_NO_BLANKS)}, {text}, NULL) AS {type.simpleString()})"


def _array(text: str, type: ArrayType, level: int, form: TextFormat) -> str:
    item = f"i{level}"
    items = _split(text, _separator(level, form), form)
    nothing = "CAST(array() AS ARRAY<STRING>)"
    value = _value(item, type.elementType, level + 1, form)
    return f"transform(IF({text} = '', {nothing}, {items}), {item} -> {value})"


def _map(text: str, type: MapType, level: int, form: TextFormat) -> str:
    # The first entry of a key counts, and one without a key does not.
    entry, parts, entries = f"e{level}", f"p{level}", f"m{level}"
    items = _split(text, _separator(level, form), form)
    nothing = "CAST(array() AS ARRAY<STRING>)"
    key = _value(f"get({parts}, 0)", type.keyType, level + 2, form)
    rest = f"IF(size({parts}) > 1, substring({entry}, char_length(get({parts}, 0)) + 2), NULL)"
    value = _let(f"v{level}", rest, _value(f"v{level}", type.valueType, level + 2, form))
    pair = _let(
        parts, _split(entry, _separator(level + 1, form), form), f"named_struct('key', {key}, 'value', {value})"
    )
    found = f"transform(IF({text} = '', {nothing}, {items}), {entry} -> {pair})"
    unique = f"(x, n) -> x.key IS NOT NULL AND array_position({entries}.key, x.key) = n + 1"
    return _let(entries, found, f"map_from_entries(filter({entries}, {unique}))")


def _struct(text: str, type: StructType, level: int, form: TextFormat) -> str:
    parts = f"s{level}"
    values = ", ".join(
        f"{_text(item.name)}, {_value(f'get({parts}, {number})', item.dataType, level + 1, form)}"
        for number, item in enumerate(type.fields)
    )
    return _let(parts, _fields(text, len(type.fields), level, form), f"named_struct({values})")


def _fields(text: str, count: int, level: int, form: TextFormat) -> str:
    """Return SQL for the array of the fields of a row or struct."""
    fields = _split(text, _separator(level, form), form)
    if not form.last_takes_rest:
        return fields
    rest = f"array_join(slice(r{level}, {count}, size(r{level})), {_text(_separator(level, form))})"
    joined = f"concat(slice(r{level}, 1, {count - 1}), array({rest}))"
    return _let(f"r{level}", fields, f"IF(size(r{level}) > {count}, {joined}, r{level})")


def _let(name: str, value: str, body: str) -> str:
    """Return SQL for ``body``, in which ``name`` stands for a value that is computed once."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def _separator(level: int, form: TextFormat) -> str:
    return form.separators[level]


def _split(text: str, separator: str, form: TextFormat) -> str:
    """Return SQL for the parts of a text between unescaped separators. Parts keep their escapes."""
    if form.escape is None or form.escape == separator:
        return f"split({text}, {_text(_pattern(separator))}, -1)"
    escape = _pattern(form.escape)
    other = f"[^{_in_class(separator)}{_in_class(form.escape)}]*+"
    # Possessive, so that Java's matcher neither backtracks nor recurs; a part that ends in an escape ends with it.
    part = f"(?s){_pattern(separator)}({other}(?:{escape}.{other})*+{escape}?+)"
    return f"regexp_extract_all(concat({_text(separator)}, {text}), {_text(part)}, 1)"


def _unescaped(text: str, form: TextFormat) -> str:
    if form.escape is None:
        return text
    escape = form.escape
    # A line has no line end in it, so two characters with a line end can stand for text that must not be read twice.
    marked = f"replace({text}, {_text(escape * 2)}, {_text(chr(10) + '0')})"
    marked = f"replace({marked}, {_text(escape + 'n')}, {_text(chr(10) + '1')})"
    marked = f"replace({marked}, {_text(escape + 'r')}, {_text(chr(13))})"
    plain = _without_escapes(marked, escape)
    return (
        f"replace(replace({plain}, {_text(chr(10) + '0')}, {_text(escape)}), {_text(chr(10) + '1')}, {_text(chr(10))})"
    )


def _without_escapes(text: str, escape: str) -> str:
    pattern = f"(?s){_pattern(escape)}(.)"
    return f"regexp_replace({text}, {_text(pattern)}, '$1')"


def _binary(text: str) -> str:
    # As Apache Commons' codec reads Base64: both alphabets, blanks anywhere, padding optional. Other texts stand for
    # themselves.
    clean = f"regexp_replace(translate({text}, '-_', '+/'), {_text(_NOT_OF_BASE64)}, '')"
    whole = "left(x, char_length(x) - IF(char_length(x) % 4 = 1, 1, 0))"
    decoded = _let("x", clean, f"try_to_binary({whole}, 'base64')")
    plain = f"CAST({text} AS BINARY)"
    is_base64 = f"{text} RLIKE {_text(_BASE64)}"
    return f"CASE WHEN {is_base64} THEN coalesce(nullif({decoded}, X''), {plain}) ELSE {plain} END"


def _boolean(text: str, form: TextFormat) -> str:
    true, false = ("'true', 't', '1'", "'false', 'f', '0'") if form.extended_booleans else ("'true'", "'false'")
    return f"CASE WHEN lower({text}) IN ({true}) THEN true WHEN lower({text}) IN ({false}) THEN false END"


def _floating(text: str, type: DataType) -> str:
    name = type.simpleString()
    special = " ".join(
        f"WHEN '{written}' THEN CAST('{value}' AS {name})"
        for value, forms in (
            ("NaN", ("NaN", "+NaN", "-NaN")),
            ("Infinity", ("Infinity", "+Infinity")),
            ("-Infinity", ("-Infinity",)),
        )
        for written in forms
    )
    # Spark knows more spellings of these values, all with this letter.
    return (
        f"CASE WHEN contains(lower({text}), 'n') THEN CASE trim({text}) {special} END "
        f"ELSE try_cast({text} AS {name}) END"
    )


def _moment(text: str, type: DataType, form: TextFormat) -> str:
    name = type.simpleString()
    if isinstance(type, DateType):
        return f"try_cast(regexp_extract({text}, {_text(_DATE)}, 1) AS DATE)"
    plain = f"try_cast(CASE WHEN {text} RLIKE {_text(_TIMESTAMP)} THEN {text} END AS {name})"
    patterned = [
        f"timestamp_millis(try_cast({text} AS BIGINT))"
        if pattern == "millis"
        else f"try_to_timestamp({text}, {_text(pattern)})"
        for pattern in form.timestamp_formats
    ]
    return f"coalesce({', '.join((*(f'CAST({each} AS {name})' for each in patterned), plain))})" if patterned else plain


# -- writing -------------------------------------------------------------------------


def _written(value: str, type: DataType, level: int, form: TextFormat) -> str:
    """Return SQL for the text of a value in a file."""
    return f"coalesce({_unparsed(value, type, level, form)}, {_text(form.null)})"


def _unparsed(value: str, type: DataType, level: int, form: TextFormat) -> str:
    match type:
        case ArrayType():
            item = f"i{level}"
            texts = f"transform({value}, {item} -> {_written(item, type.elementType, level + 1, form)})"
            return f"array_join({texts}, {_text(_separator(level, form))})"
        case MapType():
            entry = f"e{level}"
            key = _written(f"{entry}.key", type.keyType, level + 2, form)
            item = _written(f"{entry}.value", type.valueType, level + 2, form)
            pair = f"concat({key}, {_text(_separator(level + 1, form))}, {item})"
            return f"array_join(transform(map_entries({value}), {entry} -> {pair}), {_text(_separator(level, form))})"
        case StructType():
            texts = ", ".join(
                _written(f"{value}.{quoted(item.name)}", item.dataType, level + 1, form) for item in type.fields
            )
            return f"IF({value} IS NULL, NULL, concat_ws({_text(_separator(level, form))}, {texts}))"
        case StringType() | VarcharType() | CharType():
            return _escaped(value, form)
        case BinaryType():
            # A setting of Spark splits long texts into lines.
            return _escaped(f"replace(base64({value}), {_text(chr(13) + chr(10))}, '')", form)
    return f"CAST({value} AS STRING)"


def _escaped(text: str, form: TextFormat) -> str:
    if form.escape is None:
        return text
    special = "".join(dict.fromkeys(map(_in_class, form.escape + form.separators)))
    # These two characters have a meaning in a replacement.
    replacement = ("\\" if form.escape in "\\$" else "") + form.escape + "$0"
    # At the beginning of a file readers take this character for a mark of the encoding.
    pattern = f"[{special}]|^\ufeff"
    text = f"regexp_replace({text}, {_text(pattern)}, {_text(replacement)})"
    text = f"replace({text}, {_text(chr(10))}, {_text(form.escape + 'n')})"
    return f"replace({text}, {_text(chr(13))}, {_text(form.escape + 'r')})"


def _pattern(character: str) -> str:
    """Return a regular expression for one character. It has at most one escape, so that Spark splits fast."""
    return character if character.isalnum() or not character.isprintable() or character == " " else f"\\{character}"


def _in_class(character: str) -> str:
    return f"\\x{ord(character):02x}"


def _text(text: str) -> str:
    """Return a text as a literal of Spark SQL.

    A text with quotes, backslashes, or characters other than printable ASCII is written as hexadecimal digits.
    """
    if text.isascii() and text.isprintable() and not set(text) & set("\\'\""):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"
