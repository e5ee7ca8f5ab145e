"""SHOW TABLE EXTENDED: the tables of a database, each with its facts as one text."""

from __future__ import annotations

from airflow_hivex.core.commands.described_statistics import partition_rows
from airflow_hivex.core.commands.listings import link_facts, table_facts
from airflow_hivex.core.commands.partition_definitions import partition_name_of
from airflow_hivex.core.errors import NoSuchTableError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.parser.statements import ShowTableExtended

_COLUMNS = ["namespace", "tableName", "isTemporary", "information"]


def show_table_extended(context: StatementContext, statement: ShowTableExtended) -> Result:
    """Return one row for each table or view of a pattern, as Spark does; with a partition, the one of one table.

    Raises:
        NoSuchTableError: with a partition, no table has the name.
        NoSuchPartitionError: the table has no such partition.
    """
    database = statement.database or context.session.database
    catalog = context.services.catalog
    names = catalog.list_tables(database, statement.pattern)
    links = context.services.links.show(database, statement.pattern)
    if statement.partition is not None:
        if names != [statement.pattern.lower()]:
            # As in Spark, a partition is that of one table.
            raise NoSuchTableError(database, statement.pattern)
        table = catalog.get_table(database, names[0], cluster=None)
        name = partition_name_of(statement.kind, table, statement.partition)
        partition = catalog.get_partition(database, names[0], partition_values(name), cluster=None)
        facts = dict(partition_rows(context, table, partition))
        return Result(_COLUMNS, [(database, table.name, False, _text(facts))])
    rows: list[tuple[object, ...]] = []
    for each in names:
        found = catalog.get_table(database, each, cluster=None)
        rows.append((database, each, False, _text({**table_facts(found), **_schema(found)})))
    for link in links:
        shown = context.services.links.source(link)
        source = catalog.get_table(shown.database, shown.name, cluster=None)
        rows.append((database, link.name.in_database, False, _text({**link_facts(link, source), **_schema(source)})))
    return Result(_COLUMNS, sorted(rows, key=lambda row: str(row[1])))


def _schema(table: Table) -> dict[str, str]:
    """Return the columns of a table, and its partition keys."""
    columns = ", ".join(f"{column.name} {column.type}" for column in (*table.columns, *table.partition_keys))
    keys = ", ".join(key.name for key in table.partition_keys)
    return {"Partition Columns": f"[{keys}]", "Schema": columns} if keys else {"Schema": columns}


def _text(facts: dict[str, str]) -> str:
    return "\n".join(f"{fact}: {value}" for fact, value in facts.items()) + "\n"
