"""The rows of the files that LOAD DATA and COPY INTO name, as temporary views of the job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
)

from airflow_hivex.core.errors import AnalysisError
from airflow_hivex.core.job import data_files
from airflow_hivex.core.job.assignment import field, quoted, text_literal
from airflow_hivex.core.job.configuration import READ_OPTIONS
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.plans import UNFIT_COLUMNS, ColumnNaming, LoadedFiles

_WITH_NAMES = ("avro", "orc", "parquet")
"""Formats whose files have the names and types of columns."""
_SPECIAL = re.compile(r"([\\*?\[\]{},^])")
_SPARKS_RECORD = "_corrupt_record"
"""The column that Spark adds to the columns of JSON files, for lines that are not JSON."""
_RECORD, _FILE, _TEXTS = "__record", "__file", "__texts"
_CAST = "hivex.cast"
_LOCALISED = DecimalType(38, 12)
_MOST_CHARACTERS = 100
_NUMBERED = re.compile(r"\d$")
"""Finds names to which Spark may have appended a number, because another column has the same name."""
_CASE = "spark.sql.caseSensitive"
_FOLDER = re.compile(r"(?<=/)([^/=]+)=[^/]*(?=/)")
_WIDE_ENCODING = re.compile(r"utf-?(16|32)(le|be)?")
_NOT_OF_A_RECORD = ("header", "encoding", "charset", "multiline", "linesep", "inferschema", "mode", "enforceschema")


def register(spark: SparkSession, loaded: LoadedFiles) -> list[str]:
    """Create temporary views of the files' rows, and return their names."""
    if loaded.naming is None:
        rows = _described(spark, loaded) if loaded.format in _WITH_NAMES else _undescribed(spark, loaded)
    elif loaded.format in _WITH_NAMES or loaded.format == "text":
        rows = _with_all_columns(spark, loaded)
    elif loaded.splits:
        return _split(spark, loaded, loaded.naming)
    else:
        fields, options = _schema(spark, loaded, loaded.naming)
        rows = _read(spark, loaded, fields, {**options, "mode": "FAILFAST"})
        rows = rows.selectExpr(*map(_value, _spelled_once(fields)), *_of_folders(loaded, fields))
    rows.createOrReplaceTempView(loaded.view)
    return [loaded.view]


def _described(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    """Return the rows of files, with the files' columns. If the table has the same columns, its order is kept."""
    rows = _with_all_columns(spark, loaded)
    names = [column.name for column in loaded.columns]
    if sorted(name.lower() for name in rows.columns) == sorted(name.lower() for name in names):
        return rows.select(*map(quoted, names))
    return rows


def _with_all_columns(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    # The columns of all files are read, so a file with more columns than the first one loses none.
    options = {**(loaded.options if loaded.naming is not None else {}), **READ_OPTIONS, "mergeSchema": "true"}

    def reader() -> DataFrameReader:
        return data_files.source(spark, loaded.format).options(**options)

    try:
        rows = _load(reader(), loaded.paths)
        found = rows.schema.fields
    except Exception as error:
        if loaded.naming is None or not loaded.columns or "CANNOT_MERGE_SCHEMAS" not in str(error):
            raise
        # The types of a column differ. Spark widens each to the type of the target, or names the file and the column.
        of_target = {column.name.lower(): field(column) for column in loaded.columns}
        each_file = (item for path in loaded.paths for item in _load(reader(), [path]).schema.fields)
        found = _spelled_once([of_target.get(item.name.lower(), item) for item in each_file])
        rows = _load(reader().schema(StructType(found)), loaded.paths)
    if loaded.naming is None:
        return rows
    return rows.selectExpr("*", *_of_folders(loaded, found, "_metadata.file_path"))


def _undescribed(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    fields = [field(column) for column in loaded.columns]
    undescribed = data_files.reader(spark, loaded.format, loaded.options, fields)
    return data_files.rows_of(_load(undescribed, loaded.paths), loaded.format, loaded.options, loaded.columns)


def _load(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files. The file names can have characters with a meaning in patterns, such as ``*``.

    Several paths are passed as patterns, because Spark would read files with such names twice. A single path is passed
    unchanged, because Spark logs an error for a single pattern.
    """
    if len(paths) == 1:
        return data_files.load(reader.option("__globPaths__", "false"), paths)
    return data_files.load(reader, [_SPECIAL.sub(r"\\\1", path) for path in paths])


# The rows of CSV and JSON files for COPY INTO. A row that its format or a column's type does not allow does not fit.


def _schema(spark: SparkSession, loaded: LoadedFiles, naming: ColumnNaming) -> tuple[list[StructField], dict[str, str]]:
    """Return a pair: the columns of the files, and the options of the reader."""
    options = _reading_options(loaded.format, loaded.options)
    # The document of a plan has the naming as a text.
    if naming == ColumnNaming.BY_POSITION:
        fields = [field(column) for column in loaded.columns]
    else:
        fields = _fields_of_files(spark, loaded, options, infers=naming == ColumnNaming.INFERRED)
    if loaded.format == "csv" and "locale" in options:
        fields = [_localised(each) for each in fields]
    return fields, options


def _reading_options(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's reader. Lines of a wide encoding are found by a reader that decodes the file."""
    found = {name.lower(): value for name, value in options.items()}
    encoding = found.get("encoding", found.get("charset", "")).lower()
    if _WIDE_ENCODING.fullmatch(encoding):
        found.setdefault(*(("multiline", "true") if format == "csv" else ("linesep", "\n")))
    if format == "csv":
        # Spreadsheets write a quote within quotes twice.
        found.setdefault("escape", found.get("quote", '"'))
    return found


def _fields_of_files(
    spark: SparkSession, loaded: LoadedFiles, options: Mapping[str, str], *, infers: bool
) -> list[StructField]:
    """Return the columns of CSV or JSON files, found without regard to case. Columns of the target have its types.

    The columns of CSV files are those of the first file. Spark compares the headers of the other files with them.
    """
    inferring = {**options, "mode": "PERMISSIVE"}
    if loaded.format == "csv" and infers:
        inferring["inferschema"] = "true"
    reads_all = loaded.format == "json" or inferring.get("inferschema", "").lower() == "true"
    reader = data_files.source(spark, loaded.format).options(**{**READ_OPTIONS, **inferring})
    with _exact_names(spark) if loaded.format == "json" else nullcontext():
        found = _load(reader, loaded.paths if reads_all else loaded.paths[:1]).schema.fields
    if options.get("header", "").lower() == "true" and any(_NUMBERED.search(each.name) for each in found):
        _check_header(reader, loaded.paths[0])
    of_target = {column.name.lower(): field(column) for column in loaded.columns}
    fields = []
    for each in found:
        target = of_target.get(each.name.lower())
        if target is not None:
            wanted = _respelled(target.dataType, each.dataType, each.name)
            cast = {} if wanted == target.dataType else {_CAST: target.dataType.simpleString()}
            fields.append(StructField(each.name, wanted, nullable=True, metadata={**(target.metadata or {}), **cast}))
        elif each.name != _SPARKS_RECORD:
            fields.append(StructField(each.name, each.dataType))
    return fields or [StructField(column.name, StringType()) for column in loaded.columns]


def _respelled(target: DataType, found: DataType, column: str) -> DataType:
    """Return a type of the target with the names of fields as the files spell them.

    Raises:
        AnalysisError: the names of two fields in the files differ only in case.
    """
    match target, found:
        case StructType(), StructType():
            spelled: dict[str, StructField] = {}
            for each in found.fields:
                other = spelled.setdefault(each.name.lower(), each)
                if other is not each:
                    raise AnalysisError(
                        f"the files have two fields in column {column} that differ only in case: {other.name} and "
                        f"{each.name}; write one of them in all files"
                    )
            fields = []
            for item in target.fields:
                own = spelled.get(item.name.lower(), item)
                fields.append(StructField(own.name, _respelled(item.dataType, own.dataType, column), item.nullable))
            return StructType(fields)
        case ArrayType(), ArrayType():
            return ArrayType(_respelled(target.elementType, found.elementType, column), target.containsNull)
    return target


def _check_header(reader: DataFrameReader, path: str) -> None:
    """Refuse a header that has a name twice. Spark would append numbers to such names.

    Raises:
        AnalysisError: the header of the file has a name twice.
    """
    header = _load(reader.options(header="false", inferschema="false"), [path]).first()
    names = [str(name).lower() for name in header or () if name is not None]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AnalysisError(
            f"the header of the file {path} has the column {twice} twice; give one of them another name"
        )


def _localised(item: StructField) -> StructField:
    """Return a column of floating-point numbers as a column of decimals, which Spark reads by the rules of a locale."""
    if not isinstance(item.dataType, DoubleType | FloatType):
        return item
    return StructField(item.name, _LOCALISED, metadata={_CAST: item.dataType.simpleString()})


def _value(item: StructField) -> str:
    return f"{_cast(item)} AS {quoted(item.name)}"


def _cast(item: StructField) -> str:
    name, cast = quoted(item.name), (item.metadata or {}).get(_CAST)
    return name if cast is None else f"CAST({name} AS {cast})"


def _read(
    spark: SparkSession, loaded: LoadedFiles, fields: Sequence[StructField], options: Mapping[str, str]
) -> DataFrame:
    """Return the rows with the columns ``fields`` and with the URIs of their files. Each name is spelled in one way.

    Spark's reader takes the keys of JSON exactly, and its queries take names without regard to case. So rows with keys
    that differ only in case are computed at once, under the first spelling of each name.
    """
    whole = {**READ_OPTIONS, "columnPruning": "false", "enforceSchema": "false", **options}
    reader = data_files.source(spark, loaded.format).options(**whole).schema(StructType(list(fields)))
    once = _spelled_once(fields)
    if len(once) == len(fields):
        return _load(reader, loaded.paths).selectExpr("*", f"_metadata.file_path AS {_FILE}")
    spellings: dict[str, list[str]] = {each.name.lower(): [] for each in once}
    for each in fields:
        spellings[each.name.lower()].append(_cast(each))
    values = [f"coalesce({', '.join(spellings[each.name.lower()])}) AS {quoted(each.name)}" for each in once]
    with _exact_names(spark):
        rows = _load(reader, loaded.paths).selectExpr(*values, f"_metadata.file_path AS {_FILE}")
        return rows.localCheckpoint()


def _spelled_once(fields: Sequence[StructField]) -> list[StructField]:
    """Return the columns without those whose names differ only in case from the name of an earlier column."""
    found: dict[str, StructField] = {}
    for each in fields:
        found.setdefault(each.name.lower(), each)
    return list(found.values())


@contextmanager
def _exact_names(spark: SparkSession) -> Iterator[None]:
    """Have Spark distinguish names of columns that differ only in case, during the block."""
    before = spark.conf.get(_CASE)
    spark.conf.set(_CASE, "true")
    try:
        yield
    finally:
        spark.conf.set(_CASE, before or "false")


def _of_folders(loaded: LoadedFiles, fields: Sequence[StructField], file: str = _FILE) -> list[str]:
    """Return Spark SQL for the columns that the files lack and that folders such as ``day=2024-01-31`` name.

    ``file`` is Spark SQL for the URI of a row's file. Without columns of a target, the values are texts.
    """
    names = {each.name.lower() for each in fields}
    # A list of columns takes the columns of the files by position.
    is_whole = loaded.naming == ColumnNaming.BY_NAME and 0 < len(loaded.columns) <= len(names)
    if loaded.naming == ColumnNaming.BY_POSITION or is_whole:
        return []
    types = {column.name.lower(): column for column in loaded.columns}
    values = []
    for folder in dict.fromkeys(name for path in loaded.paths for name in _FOLDER.findall(path)):
        name = unquote(folder).lower()
        if name in names or (types and name not in types):
            continue
        names.add(name)
        pattern = text_literal(rf"(?i)/\Q{folder}\E=([^/]*)/")
        text = _decoded(f"regexp_extract({_decoded(file)}, {pattern}, 1)")
        value = f"nullif(nullif({text}, ''), {text_literal(DEFAULT_PARTITION)})"
        wanted = field(types[name]).dataType if types else StringType()
        values.append(f"CAST({value} AS {wanted.simpleString()}) AS {quoted(name)}")
    return values


def _decoded(text: str) -> str:
    return f"url_decode(replace({text}, '+', '%2B'))"


def _split(spark: SparkSession, loaded: LoadedFiles, naming: ColumnNaming) -> list[str]:
    """Create a view of the rows that fit, and a view of the rows that do not fit. Return the names of both."""
    fields, options = _schema(spark, loaded, naming)
    lenient = {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": _RECORD}
    rows = _read(spark, loaded, [*fields, StructField(_RECORD, StringType())], lenient)
    fields = _spelled_once(fields)
    # Spark refuses to read the record alone. This condition reads the columns, and is always true.
    columns = ", ".join(quoted(each.name) for each in fields)
    reads_all = f"concat(CAST(hash({columns}) AS STRING), '') <> ''"
    fit = rows.where(f"{_RECORD} IS NULL AND {reads_all}")
    fit = fit.selectExpr(*map(_value, fields), *_of_folders(loaded, fields))
    fit.createOrReplaceTempView(loaded.view)
    unfit = rows.where(f"{_RECORD} IS NOT NULL AND {reads_all}")
    unfit = unfit.selectExpr("*", f"{_texts(loaded.format, fields, options)} AS {_TEXTS}")
    values = (_FILE, *_reason(loaded.format, fields), _RECORD)
    named = (f"{value} AS {name}" for value, name in zip(values, UNFIT_COLUMNS, strict=True))
    unfit.selectExpr(*named).createOrReplaceTempView(loaded.unfit_view)
    return [loaded.view, loaded.unfit_view]


def _texts(format: str, fields: Sequence[StructField], options: Mapping[str, str]) -> str:
    """Return Spark SQL for the texts of the fields of a record: a map of JSON, or a struct for CSV.

    The struct has a struct ``exact`` with the fields ``f0``, ``f1``, ... and with ``other``, which is NULL if the
    record has one field for each column. ``more`` is the first field after these.
    """
    if format == "json":
        return f"from_json({_RECORD}, 'map<string,string>')"
    given = {name: value for name, value in options.items() if name not in _NOT_OF_A_RECORD}
    names = [f"f{number}" for number in range(len(fields))]

    def parsed(columns: Sequence[str], more: Mapping[str, str]) -> str:
        pairs = {**given, "mode": "PERMISSIVE", **more}.items()
        listed = ", ".join(text_literal(each) for pair in pairs for each in pair)
        schema = text_literal(", ".join(f"{name} STRING" for name in columns))
        return f"from_csv({_RECORD}, {schema}, map({listed}))"

    exact = parsed([*names, "other"], {"columnNameOfCorruptRecord": "other"})
    wide = parsed([*names, "more"], {})
    return f"named_struct('exact', {exact}, 'more', {wide}.more)"


def _reason(format: str, fields: Sequence[StructField]) -> tuple[str, str]:
    """Return Spark SQL for the column that does not fit (or NULL), and for the reason."""
    columns, reasons = [], []
    for number, each in enumerate(fields):
        text = f"{_TEXTS}[{text_literal(each.name)}]" if format == "json" else f"{_TEXTS}.exact.f{number}"
        is_unfit = f"{text} IS NOT NULL AND {quoted(each.name)} IS NULL"
        wanted = (each.metadata or {}).get(_CAST) or each.dataType.simpleString()
        columns.append(f"WHEN {is_unfit} THEN {text_literal(each.name)}")
        shown = f'concat("\'", left({text}, {_MOST_CHARACTERS}), "\' is not a valid {wanted}")'
        reasons.append(f"WHEN {is_unfit} THEN {shown}")
    if format == "json":
        is_other, other = f"{_TEXTS} IS NULL", "'the line is not a JSON object'"
    else:
        count = len(fields)
        is_other = f"{_TEXTS}.exact.other IS NOT NULL"
        other = f"concat('the row has ', IF({_TEXTS}.more IS NULL, 'fewer', 'more'), ' than {count} fields')"
    column = f"CASE WHEN {is_other} THEN NULL {' '.join(columns)} END"
    return column, f"CASE WHEN {is_other} THEN {other} {' '.join(reasons)} ELSE 'the row cannot be read' END"
