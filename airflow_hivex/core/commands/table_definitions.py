"""The Table that a CREATE TABLE defines, and the rules for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_hivex.core.commands.constraints import with_checked_constraints
from airflow_hivex.core.commands.links import linked
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.execution.called_functions import check_constraint_functions
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.metadata_changes import check_location
from airflow_hivex.core.model import table_properties
from airflow_hivex.core.model.column_types import (
    BUCKET_TYPES,
    ColumnType,
    Map,
    Primitive,
    field_names,
    is_bucket_type,
    is_partition_type,
    parts,
    primitives,
)
from airflow_hivex.core.model.compaction import check_spark_options
from airflow_hivex.core.model.constraints import is_constraint
from airflow_hivex.core.model.file_properties import (
    CHARSETS,
    FOOTER_LINES,
    HEADER_LINES,
    LAZY_SIMPLE_SERDE,
    TEXTFILE,
    check_file_options,
    file_options,
    is_file_property,
    text_format,
    text_properties,
)
from airflow_hivex.core.model.objects import (
    BUCKETING_VERSION,
    CLUSTER,
    DROPPED_COLUMNS,
    FLAT_LAYOUT,
    HIVE_LAYOUT,
    INSERT_ONLY,
    INSERTED_FORMATS,
    PARTITION_ROW_IDS,
    ROW_LAYOUT,
    TEMPORARY_DATABASE,
    TEMPORARY_NAMESPACE,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
    ClusterStorageDescriptor,
    Column,
    SerDe,
    Skew,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.table_properties import normalised
from airflow_hivex.core.parser.statements import CreateTable, CreateTableLike

EXTERNAL_FORMATS = ("avro", "binaryfile", "csv", "json", "orc", "parquet", "text", TEXTFILE, "xml")
_FIXED_COLUMNS = {
    "text": (Column("value", "string"),),
    "binaryfile": (
        Column("path", "string"),
        Column("modificationtime", "timestamp", stored_name="modificationTime"),
        Column("length", "bigint"),
        Column("content", "binary"),
    ),
}
"""The columns of formats whose files have the same columns in every table."""
RESERVED_COLUMNS = frozenset({"__operation", "__original_write_id", "__bucket", "__row_id", "__write_id", "__row"})
"""Names that columns cannot have: the metadata columns of row layouts, and a helper column of jobs."""
ROW_LAYOUTS = (FLAT_LAYOUT, HIVE_LAYOUT)
"""The valid values of the property ``hivex.row.layout`` of a full ACID table."""
# A job that changes rows uses these names for its own columns.
_OF_JOBS = ("__assigned_", "__clause", "__kind", "__source", "__writer")

_HIVE_FORMATS = {"jsonfile": "json"}
_OF_LOCALES = ("csv", "json", "xml")
_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_MOST_BUCKETS = 4095

_FULL_ACID = "default"
"""The value of ``transactional_properties`` for a full ACID table. It is also the default."""


def describe_table(
    context: StatementContext,
    statement: CreateTable,
    cluster: str | None = None,
    *,
    is_external: bool | None = None,
) -> Table:
    """Return the table that a CREATE TABLE defines, with its primary cluster. Nothing is stored.

    The primary cluster is the first of the following that is given: the pinned cluster; the table's property
    ``hivex.cluster``; the argument ``cluster``, such as the cluster of the statement's query; the same property of the
    database; the default cluster. A table is external if the statement says EXTERNAL, or names a data source and a
    LOCATION (as in Spark). Other tables are managed and transactional. If ``is_external`` is given, it decides instead
    of the clauses.

    Raises:
        InvalidObjectError: columns, formats or properties are not valid for a table.
        UnknownClusterError, LocationOutsideClusterError: the location is not on a configured cluster.
    """
    database, name = context.session.qualify(statement.table)
    full_name = f"{database}.{name}"
    data_source = spark_format(statement.format or "orc")
    columns, keys = _split_columns(full_name, statement)
    columns = _fixed_columns(full_name, data_source, columns)
    check_columns(full_name, (*columns, *keys))
    for key in keys:
        _check_partition_key(full_name, key)
    if not columns:
        reason = (
            "it needs at least one column besides its partition keys; list its columns: they are not taken from files"
        )
        raise InvalidObjectError("table", full_name, reason)
    external = names_external(statement) if is_external is None else is_external
    properties = table_properties.normalised(statement.properties)
    check_spark_options(context.services.settings, full_name, properties)
    table_properties.check_properties(full_name, properties, external=external, bucketed=statement.num_buckets > 0)
    check_no_constraint(full_name, properties)
    if external:
        _check_external(full_name, data_source, properties, statement)
    else:
        if data_source != "orc":
            # Rows with ids are stored as ORC only.
            properties = {TRANSACTIONAL_PROPERTIES: INSERT_ONLY, **properties}
        properties = managed_properties(full_name, data_source, properties)
    chosen = context.services.clusters.get(
        context.session.cluster or properties.get(CLUSTER) or cluster or context.home_cluster(database)
    )
    location = "" if statement.location is None else chosen.relative(statement.location)
    if statement.location is not None and not location:
        raise InvalidObjectError("table", full_name, f"location {statement.location!r} names no folder of its own")
    check_location(context, "table", full_name, statement.location, database, chosen, is_external=external)
    # The storage descriptor has the table's cluster; the property only chooses it.
    properties.pop(CLUSTER, None)
    storage = StorageDescriptor(
        columns=columns,
        primary=ClusterStorageDescriptor(chosen.name, location),
        format=data_source,
        serde_parameters=_options(data_source, statement, managed=not external),
        num_buckets=statement.num_buckets,
        bucket_columns=tuple(each.lower() for each in statement.bucket_columns),
        sort_columns=tuple(replace(each, name=each.name.lower()) for each in statement.sort_columns),
        skew=_skew(full_name, statement, columns),
        input_format=statement.input_format,
        output_format=statement.output_format,
        # Hive always names the class of its text files, however the table was defined.
        serde=SerDe(library=statement.serde_library or (LAZY_SIMPLE_SERDE if data_source == TEXTFILE else None)),
    )
    _check_buckets(full_name, storage)
    if not external:
        check_file_options(full_name, data_source, file_options(data_source, properties, storage.serde_parameters))
    if storage.num_buckets > 0:
        properties.setdefault(BUCKETING_VERSION, "2")
    if database == TEMPORARY_DATABASE and statement.temporary:
        properties[TEMPORARY_NAMESPACE] = context.session.database
    table = Table(
        database=database,
        name=name,
        storage=storage,
        partition_keys=keys,
        type=TableType.EXTERNAL_TABLE if external else TableType.MANAGED_TABLE,
        parameters=properties,
        owner=context.session.user,
        comment=statement.comment,
    )
    check_text(table)
    check_constraint_functions(context, full_name, statement.constraints)
    return with_checked_constraints(table, statement.constraints.with_parents_in(context.session.database))


def spark_format(name: str) -> str:
    """Return Spark's name of a format, for a name from a statement."""
    return _HIVE_FORMATS.get(name, name)


def names_external(statement: CreateTable) -> bool:
    """Return whether a statement defines an external table: it says EXTERNAL, or names a data source and a LOCATION.

    A table with ``transactional`` = ``true`` is a managed table at its LOCATION, as in Hive.
    """
    if statement.external or statement.format is None or statement.location is None:
        return statement.external
    return table_properties.normalised(statement.properties).get(TRANSACTIONAL, "false").lower() != "true"


def check_text(table: Table) -> None:
    """Refuse a table of text files in a form that cannot be read or, if the table is managed, cannot be written.

    Raises:
        InvalidObjectError: a property is not valid, or describes such files.
    """
    if table.storage.format != TEXTFILE:
        return
    try:
        form = text_format(table.read_options)
    except ValueError as error:
        raise InvalidObjectError("table", table.full_name, str(error)) from error
    deepest = max(_depth(column.parsed_type) for column in table.columns)
    if deepest >= len(form.separators):
        reason = f"text files have separators for {len(form.separators) - 1} levels of nesting, not for {deepest}"
        raise InvalidObjectError("table", table.full_name, reason)
    if table.is_external:
        return
    if form.skips_lines:
        reason = "lines that are skipped are for external tables; the files of a managed one have no such lines"
        raise InvalidObjectError("table", table.full_name, reason)
    if form.encoding != CHARSETS[0]:
        raise InvalidObjectError("table", table.full_name, f"managed text files are written in {CHARSETS[0]} only")


def _depth(type: ColumnType) -> int:
    """Return how many nested separators the text of a value of a type needs: one for each level, and two for a map."""
    if isinstance(type, Primitive):
        return 0
    return (2 if isinstance(type, Map) else 1) + max((_depth(part) for part in parts(type)), default=0)


_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=`")


def check_columns(table: str, columns: Iterable[Column]) -> None:
    """Refuse columns without a usable name or type.

    Raises:
        InvalidObjectError: a name occurs twice, is reserved, or needs an alias; or a type cannot be stored.
    """
    seen: set[str] = set()
    for column in columns:
        name = column.name.lower()
        found = next((character for character in name if character in _NOT_IN_NAMES), None)
        if not name or found is not None:
            has = "is empty" if found is None else f"has {'a blank' if found == ' ' else repr(found)}"
            rule = "names of columns have no blank, tab or line break, and none of , ; { } ( ) = `"
            reason = f"the name of column {column.name!r} {has}; {rule}. Choose another name, in a query by AS"
            raise InvalidObjectError("table", table, reason)
        if name in RESERVED_COLUMNS or name.startswith(_OF_JOBS):
            raise InvalidObjectError("table", table, f"column name {name} is reserved for row identities")
        if name in seen:
            raise InvalidObjectError("table", table, f"it has column {name} twice")
        if not all(each.kind.in_files for each in primitives(column.parsed_type)):
            reason = f"column {name} has type {column.type}, which files cannot hold; CAST it to another type"
            raise InvalidObjectError("table", table, reason)
        if any("`" in each for each in field_names(column.parsed_type)):
            # Spark writes NULL in place of their values. Source: OrcUtils.getOrcSchemaString quotes without escapes.
            reason = f"column {name} has type {column.type}: files lose fields with a backquote in their names"
            raise InvalidObjectError("table", table, f"{reason}; rename them")
        seen.add(name)


def check_properties(table: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse changes of properties that decide how the data is stored.

    Raises:
        InvalidObjectError: such a property would change.
    """
    fixed = (
        *(TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, CLUSTER, BUCKETING_VERSION),
        *(DROPPED_COLUMNS, PARTITION_ROW_IDS, TEMPORARY_NAMESPACE, "EXTERNAL"),
    )
    if after.get("EXTERNAL", "").lower() == "false" and TRANSACTIONAL not in before:
        reason = "a managed table is transactional: set 'transactional' = 'true' in the same statement"
        raise InvalidObjectError("table", table, reason)
    for name in fixed:
        if _meaning(before, name) != _meaning(after, name):
            raise InvalidObjectError("table", table, f"property {name} cannot be changed after the table was made")
    check_kept_constraints(table, before, after)
    _check_layout(table, after)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    external = TRANSACTIONAL not in before
    table_properties.check_properties(table, changed, external=external, bucketed=BUCKETING_VERSION in before)


def _meaning(properties: Mapping[str, str], name: str) -> str:
    """Return the value of a property in lower case. A transactional table without the property counts as full ACID."""
    is_kind = name == TRANSACTIONAL_PROPERTIES and properties.get(TRANSACTIONAL, "").lower() == "true"
    return properties.get(name, _FULL_ACID if is_kind else "").lower()


def check_kept_constraints(table: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse changes of properties in which constraints are stored.

    Raises:
        InvalidObjectError: such a property would change.
    """
    check_no_constraint(table, [name for name in {**before, **after} if before.get(name) != after.get(name)])


def check_no_constraint(table: str, properties: Iterable[str]) -> None:
    """Refuse properties in which constraints are stored, which only the clauses for constraints are allowed to set.

    Raises:
        InvalidObjectError: a constraint is stored in one of the properties.
    """
    found = next((name for name in properties if is_constraint(name)), None)
    if found is not None:
        reason = f"property {found} is set by DEFAULT, NOT NULL and CHECK of CREATE TABLE and ALTER TABLE"
        raise InvalidObjectError("table", table, reason)


def _split_columns(table: str, statement: CreateTable) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns and the partition keys. A partition key without a type is one of the listed columns."""
    by_name = {column.name.lower(): column for column in statement.columns}
    keys = []
    for key in statement.partition_keys:
        if key.type:
            keys.append(replace(key, name=key.name.lower()))
        elif key.name.lower() in by_name:
            keys.append(by_name[key.name.lower()])
        else:
            raise NoSuchColumnError(table, key.name, list(by_name))
    named = {key.name.lower() for key in statement.partition_keys if not key.type}
    columns = tuple(
        replace(column, name=column.name.lower()) for column in statement.columns if column.name.lower() not in named
    )
    return columns, tuple(replace(key, name=key.name.lower()) for key in keys)


def _fixed_columns(table: str, format: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of the statement or, if it has none, the columns that all files of the format have.

    Raises:
        InvalidObjectError: the format has other columns.
    """
    fixed = _FIXED_COLUMNS.get(format)
    if fixed is None or not columns:
        return columns or fixed or ()
    if format == "text" and [column.parsed_type for column in columns] == [Primitive("string")]:
        # The column of a line may have any name; files do not name it.
        return columns
    if [(each.name, each.parsed_type) for each in columns] != [(each.name, each.parsed_type) for each in fixed]:
        listed = ", ".join(f"{column.name} {column.type}" for column in fixed)
        raise InvalidObjectError(
            "table", table, f"files of format {format} have the columns ({listed}); leave them out"
        )
    return fixed


def _check_partition_key(table: str, key: Column) -> None:
    if not is_partition_type(key.parsed_type):
        raise InvalidObjectError("table", table, f"partition key {key.name} cannot have type {key.type}")


def check_external_format(table: Table) -> None:
    """Refuse an external table whose files Spark cannot read in the table's format.

    Raises:
        InvalidObjectError: the format cannot be read, has other columns, or lacks an option.
    """
    _fixed_columns(table.full_name, table.storage.format, table.columns)
    _check_format(table.full_name, table.storage.format, table.storage.serde_parameters)


def _check_external(table: str, format: str, properties: Mapping[str, str], statement: CreateTable) -> None:
    _check_format(table, format, statement.options)
    if properties.get(TRANSACTIONAL, "false").lower() == "true":
        raise InvalidObjectError("table", table, "an external table cannot be transactional; leave EXTERNAL out")
    if statement.num_buckets > 0:
        raise InvalidObjectError("table", table, "CLUSTERED BY is for managed tables")


def _check_format(table: str, format: str, options: Mapping[str, str]) -> None:
    if format not in EXTERNAL_FORMATS:
        raise InvalidObjectError("table", table, f"format {format} is not one of {', '.join(EXTERNAL_FORMATS)}")
    if format == "xml" and not any(name.lower() == "rowtag" for name in options):
        reason = "name the element that is a row, by OPTIONS (rowTag 'book')"
        raise InvalidObjectError("table", table, reason)
    locale = next((value for name, value in options.items() if name.lower() == "locale"), None)
    if locale is not None and format in _OF_LOCALES and not _LOCALE.fullmatch(locale):
        reason = (
            f"locale {locale!r} is not a language and a region with a hyphen, such as 'de-DE'; Spark would ignore it"
        )
        raise InvalidObjectError("table", table, reason)


def managed_properties(table: str, format: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties``, with the addition of the properties that every managed table has.

    Raises:
        InvalidObjectError: a transactional table cannot have the properties or the format.
    """
    if properties.get(TRANSACTIONAL, "true").lower() != "true":
        raise InvalidObjectError(
            "table", table, "managed tables are transactional; use CREATE EXTERNAL TABLE for plain files"
        )
    if PARTITION_ROW_IDS in properties:
        reason = f"property {PARTITION_ROW_IDS} is set by an import from Hive alone; leave it out"
        raise InvalidObjectError("table", table, reason)
    kind = properties.get(TRANSACTIONAL_PROPERTIES, _FULL_ACID).lower()
    if kind == INSERT_ONLY:
        return _insert_only_properties(table, format, properties)
    if kind != _FULL_ACID:
        reason = f"transactional_properties={kind} is neither default nor {INSERT_ONLY}"
        raise InvalidObjectError("table", table, reason)
    if format != "orc":
        raise InvalidObjectError(
            "table",
            table,
            f"a full ACID table is stored as ORC, not {format}; leave transactional_properties out, and the table is "
            "insert-only",
        )
    _check_layout(table, properties)
    return {**properties, TRANSACTIONAL: "true", TRANSACTIONAL_PROPERTIES: kind}


def _insert_only_properties(table: str, format: str, properties: Mapping[str, str]) -> dict[str, str]:
    if format not in INSERTED_FORMATS:
        known = ", ".join(INSERTED_FORMATS)
        reason = f"a managed table is stored as one of {known}, not {format}"
        raise InvalidObjectError("table", table, reason)
    _check_layout(table, {**properties, TRANSACTIONAL_PROPERTIES: INSERT_ONLY})
    return {**properties, TRANSACTIONAL: "true", TRANSACTIONAL_PROPERTIES: INSERT_ONLY}


def _check_layout(table: str, properties: Mapping[str, str]) -> None:
    if ROW_LAYOUT in properties and properties.get(TRANSACTIONAL_PROPERTIES, "").lower() == INSERT_ONLY:
        raise InvalidObjectError("table", table, f"an insert-only table has no {ROW_LAYOUT}")
    layout = properties.get(ROW_LAYOUT, FLAT_LAYOUT)
    if layout.lower() not in ROW_LAYOUTS:
        raise InvalidObjectError("table", table, f"{ROW_LAYOUT}={layout} is not one of {', '.join(ROW_LAYOUTS)}")


def _options(data_source: str, statement: CreateTable, *, managed: bool) -> dict[str, str]:
    """Return the options of the table's format. Hive's property for a header line becomes Spark's option."""
    options = dict(statement.options)
    if managed and data_source == "csv" and not any(name.lower() == "nullvalue" for name in options):
        # Spark would read empty texts as NULL.
        options["nullValue"] = "\\N"
    if data_source == "csv" and statement.properties.get("skip.header.line.count") == "1":
        options.setdefault("header", "true")
    return options


def _skew(table: str, statement: CreateTable, columns: Sequence[Column]) -> Skew | None:
    if statement.skew is None:
        return None
    names = [column.name for column in columns]
    found = tuple(name.lower() for name in statement.skew.columns)
    for name in found:
        if name not in names:
            raise NoSuchColumnError(table, name, names)
    return replace(statement.skew, columns=found)


def _check_buckets(table: str, storage: StorageDescriptor) -> None:
    if storage.num_buckets <= 0:
        return
    if storage.num_buckets > _MOST_BUCKETS:
        raise InvalidObjectError("table", table, f"{storage.num_buckets} buckets are more than {_MOST_BUCKETS}")
    types = {column.name: column.parsed_type for column in storage.columns}
    for name in (*storage.bucket_columns, *(column.name for column in storage.sort_columns)):
        if name not in types:
            raise NoSuchColumnError(table, name, list(types))
    for name in storage.bucket_columns:
        if not is_bucket_type(types[name]):
            reason = f"a column of type {types[name]} cannot be used for bucketing; use {', '.join(BUCKET_TYPES)}"
            raise InvalidObjectError("table", table, f"CLUSTERED BY {name}: {reason}")


# CREATE TABLE ... LIKE: the definition of another table, without its rows. As in Spark, the new table has the columns,
# partition keys, buckets and the comment of its source, and its files have the same format. As in Hive, it is managed
# unless the statement says otherwise, and it takes only those properties of its source that say how rows are stored. If
# the statement names a format, it takes neither options nor properties of the source's files.


_SKIPPED_LINES = (HEADER_LINES, FOOTER_LINES)
"""Properties for lines to skip in text files. Files that the warehouse writes have no such lines."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A CREATE TABLE statement with the definition of another table, and whether the new table is external."""

    definition: CreateTable
    is_external: bool


def definition_like(context: StatementContext, statement: CreateTableLike) -> Likeness:
    """Return a CREATE TABLE statement that defines the table of a CREATE TABLE LIKE.

    Raises:
        NoSuchTableError, NoSuchLinkError: the source does not exist.
        InvalidOperationError: the source cannot be read.
        InvalidObjectError: the new table would be managed, and the source's format cannot be written.
    """
    if statement.source.namespace is None:
        source: Table = context.services.catalog.get_table(*context.session.qualify(statement.source))
    else:
        _, source = linked(context, statement.source)
    if source.not_read:
        raise InvalidOperationError("CREATE TABLE LIKE", source.full_name, source.not_read)
    new = statement.new
    # A format that the statement names may make the table external; the source's format does not.
    is_external = names_external(new)
    definition = replace(
        new,
        columns=tuple(replace(column, stored_name=None) for column in source.columns),
        partition_keys=tuple(replace(key, stored_name=None) for key in source.partition_keys),
        comment=source.comment,
        properties=normalised(new.properties),
    )
    if new.format is None and not source.is_view:
        definition = _with_storage_of(source, definition, is_managed=not is_external)
    if is_external:
        # We do not write its files, and so do not put their rows into buckets.
        return Likeness(definition, is_external=True)
    return Likeness(_managed(".".join(context.session.qualify(new.table)), definition, source), is_external=False)


def _with_storage_of(source: Table, definition: CreateTable, *, is_managed: bool) -> CreateTable:
    """Return the definition with the format of the source's files, and the options and properties that belong to it."""
    options = dict(source.storage.serde_parameters)
    properties = {name: value for name, value in source.parameters.items() if is_file_property(name)}
    if source.storage.format == TEXTFILE:
        properties |= text_properties(source.parameters)
    if is_managed:
        for name in _SKIPPED_LINES:
            options.pop(name, None)
            properties.pop(name, None)
        kinds = (TRANSACTIONAL_PROPERTIES, ROW_LAYOUT) if source.is_transactional else ()
        properties |= {name: source.parameters[name] for name in kinds if name in source.parameters}
    properties |= definition.properties
    if properties.get(TRANSACTIONAL_PROPERTIES, "").lower() == INSERT_ONLY and ROW_LAYOUT not in definition.properties:
        properties.pop(ROW_LAYOUT, None)
    return replace(
        definition,
        format=source.storage.format,
        options=options,
        properties=properties,
        input_format=source.storage.input_format,
        output_format=source.storage.output_format,
        serde_library=source.storage.serde.library,
    )


def _managed(name: str, definition: CreateTable, source: Table) -> CreateTable:
    """Return the definition of a managed table with the buckets, sort order and skew of its source.

    Raises:
        InvalidObjectError: files of the source's format cannot be written.
    """
    storage = source.storage
    data_source = definition.format or "orc"
    is_read_only = data_source in EXTERNAL_FORMATS and data_source not in INSERTED_FORMATS
    if is_read_only and data_source == storage.format:
        known = " or ".join(INSERTED_FORMATS)
        reason = f"files of format {data_source}, which {source.full_name} has, are not written; write USING {known}"
        raise InvalidObjectError("table", name, reason)
    return replace(
        definition,
        bucket_columns=storage.bucket_columns,
        sort_columns=storage.sort_columns,
        num_buckets=storage.num_buckets,
        skew=None if storage.skew is None else replace(storage.skew, locations={}),
    )
