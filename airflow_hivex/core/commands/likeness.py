"""CREATE TABLE ... LIKE: the definition of another table, without its rows.

As in Spark, the new table has the columns, partition keys, buckets and the comment of its source, and its files have
the same format. As in Hive, it is managed whatever the source is, unless the statement says otherwise, and of the
source's properties it has those alone that say how rows are stored. A statement that names a format takes neither
options nor properties of the source's files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_hivex.core.commands.links import linked
from airflow_hivex.core.commands.table_definitions import EXTERNAL_FORMATS, names_external
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.file_properties import is_file_property
from airflow_hivex.core.model.objects import (
    INSERT_ONLY,
    INSERTED_FORMATS,
    ROW_LAYOUT,
    TRANSACTIONAL_PROPERTIES,
    Table,
)
from airflow_hivex.core.model.table_properties import normalised
from airflow_hivex.core.model.text_files import FOOTER_LINES, HEADER_LINES, TEXTFILE, text_properties
from airflow_hivex.core.parser.statements import CreateTable, CreateTableLike

_SKIPPED_LINES = (HEADER_LINES, FOOTER_LINES)
"""Properties of lines besides the rows; files that are written here have rows alone."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """The statement that makes a table like another one, and whether that table is external."""

    definition: CreateTable
    is_external: bool


def definition_like(context: StatementContext, statement: CreateTableLike) -> Likeness:
    """Return the definition of the new table.

    Raises:
        NoSuchTableError, NoSuchLinkError: the source does not exist.
        InvalidObjectError: the new table would be managed, and files of the source's format are not written.
    """
    if statement.source.namespace is None:
        source: Table = context.services.catalog.get_table(*context.session.qualify(statement.source))
    else:
        _, source = linked(context, statement.source)
    if source.not_read:
        raise InvalidOperationError("CREATE TABLE LIKE", source.full_name, source.not_read)
    new = statement.new
    # The format of the source does not make the new table external, as one that the statement names may.
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
        # Nothing here writes its files, so that nothing puts their rows into buckets.
        return Likeness(definition, is_external=True)
    return Likeness(_managed(".".join(context.session.qualify(new.table)), definition, source), is_external=False)


def _with_storage_of(source: Table, definition: CreateTable, *, is_managed: bool) -> CreateTable:
    """Return the definition of a table whose files are like those of the source."""
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
    """Return the definition as that of a managed table: of ORC files it is full ACID, of others insert-only.

    Raises:
        InvalidObjectError: files of the source's format are not written here.
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
