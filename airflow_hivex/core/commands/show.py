"""SHOW, DESCRIBE and EXPLAIN ROUTE: objects and their descriptions as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from airflow_hivex.core.catalog import link_rows
from airflow_hivex.core.catalog.database_rows import finding, matching
from airflow_hivex.core.catalog.history import read_commits
from airflow_hivex.core.catalog.listed_objects import transactions_by_cluster
from airflow_hivex.core.catalog.table_rows import naming
from airflow_hivex.core.commands.described_json import (
    column_rows,
    json_of_partition,
    json_of_table,
    partition_rows,
    properties_text,
    skewed_by,
    statistics_facts,
    statistics_of,
    storage_facts,
)
from airflow_hivex.core.commands.links import as_link, linked, refuse_table
from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.commands.temporary_tables import as_named, describe_temporary_view
from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.errors.secrets import hide_in_properties, hide_in_uri
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.read_versions import check_has_versions
from airflow_hivex.core.execution.routing import route
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.constraints import Constraints, KeyKind, is_constraint
from airflow_hivex.core.model.file_properties import LAZY_SIMPLE_SERDE, TEXTFILE
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import (
    CLUSTER,
    PARTITION_ROW_IDS,
    TEMPORARY_DATABASE,
    TEMPORARY_NAMESPACE,
    TRANSACTIONAL,
    Column,
    StoredPartition,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.texts import quoted_text
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.statements import (
    DescribeDatabase,
    DescribeHistory,
    DescribeTable,
    ExplainRoute,
    Select,
    ShowClusters,
    ShowColumns,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowDatabases,
    ShowTableExtended,
    ShowTableProperties,
    ShowTables,
    TableName,
)
from airflow_hivex.core.runners.running_jobs import count_jobs
from airflow_hivex.core.store.exchange import together

_LINK_WORDS = ("link", "tablelink")
_MOST_ASKED_AT_ONCE = 16


def show_databases(context: StatementContext, statement: ShowDatabases) -> Result:
    """Run SHOW DATABASES: return one name per row."""
    names = context.services.catalog.list_databases(statement.pattern)
    return Result(["database_name"], [(name,) for name in names])


def show_current_namespace(context: StatementContext, statement: ShowCurrentNamespace) -> Result:  # noqa: ARG001 - one form only
    """Run SHOW CURRENT NAMESPACE: return the current database. As in Spark, the catalog is ``spark_catalog``."""
    return Result(["catalog", "namespace"], [("spark_catalog", context.session.database)])


def show_tables(context: StatementContext, statement: ShowTables) -> Result:
    """Run SHOW TABLES and SHOW VIEWS: return one name per row, as in Hive. SHOW TABLES also lists views and links."""
    database = statement.database or context.session.database
    of_links = link_rows.described(link_rows.links_in(normalise(database)))
    of_tables = naming(database, TableType.VIRTUAL_VIEW if statement.views else None)
    with context.services.store.read() as connection:
        holders, tables, links = together(connection, finding(database), of_tables, of_links)
    if not holders:
        raise NoSuchDatabaseError(normalise(database))
    shown = [] if statement.views else [link.name.in_database for link in link_rows.described_from(links)]
    names = matching([*(row.name for row in tables), *shown], statement.pattern)
    # As in Spark, temporary views are listed with the views of any database.
    temporary = [*context.session.objects.views]
    if not statement.views:
        temporary += context.session.objects.tables
    temporary = matching(temporary, statement.pattern)
    return Result(["tab_name"], [(name,) for name in sorted({*names, *temporary})])


_CLUSTER_COLUMNS = (
    "cluster",
    "filesystem",
    "jobtracker",
    "is_default",
    "is_pinned",
    "health",
    "spark",
    "free_bytes",
    "running_jobs",
    "transactions",
)


def show_clusters(context: StatementContext, statement: ShowClusters) -> Result:  # noqa: ARG001 - one form only
    """Run SHOW CLUSTERS: return one row for each configured cluster. Columns mark the default and the pinned cluster.

    Column ``health`` is ``usable``, or the reason why a job cannot run on the cluster now. ``spark`` is the release of
    its Spark, and ``free_bytes`` its free space, if they are known. ``running_jobs`` counts the jobs of this process.
    ``transactions`` counts the transactions, of any process, that hold locks on tables of the cluster; a transaction
    that only waits for such a lock does not count. All clusters are checked at the same time, so that several clusters
    that do not answer cost only one time-out.
    """
    services = context.services
    clusters = services.clusters
    names = list(clusters)
    with services.store.read() as connection:
        transactions = transactions_by_cluster(connection)

    def state(name: str) -> tuple[Health, int | None]:
        return context.health(name, runs_job=True), services.health.free_bytes(name)

    with ThreadPoolExecutor(min(len(names), _MOST_ASKED_AT_ONCE)) as pool:
        states = list(pool.map(state, names))
    rows: list[tuple[object, ...]] = [
        (
            name,
            clusters.get(name).shown_filesystem,
            clusters.get(name).shown_jobtracker,
            name == clusters.default,
            name == context.session.cluster,
            "usable" if health.problem is None else str(health.problem),
            health.version,
            free,
            count_jobs(name),
            transactions.get(name, 0),
        )
        for name, (health, free) in zip(names, states, strict=True)
    ]
    return Result(list(_CLUSTER_COLUMNS), rows)


def describe_database(context: StatementContext, statement: DescribeDatabase) -> Result:
    """Run DESCRIBE DATABASE: return the values of the database as rows (name, value). EXTENDED adds the properties."""
    database = context.services.catalog.get_database(statement.name)
    rows: list[tuple[object, ...]] = [
        ("Namespace Name", database.name),
        ("Comment", database.description or ""),
        ("Location", database.location),
        ("Owner", database.owner or ""),
    ]
    if statement.extended:
        rows.append(("Properties", properties_text(hide_in_properties(database.parameters))))
    return Result(["info_name", "info_value"], rows)


def describe_table(context: StatementContext, statement: DescribeTable) -> Result:
    """Run DESCRIBE: return the columns, then the partition keys under a heading.

    EXTENDED also describes the table or partition. DESCRIBE of one column returns rows (name, value).
    """
    temporary = context.session.objects.view(statement.table)
    if temporary is not None:
        return describe_temporary_view(temporary, statement.table.name, statement)
    table, link = _described_table(context, statement)
    # Errors and facts have the name of the link.
    named = table if link is None else as_link(table, link)
    partition = None
    if statement.partition is not None:
        partition = _partition(context, table, named, statement.partition, link)
    if statement.as_json and partition is not None:
        return json_of_partition(named, partition, statistics_of(context, table, partition), link)
    if statement.as_json:
        statistics = statistics_of(context, table) if link is None else None
        return json_of_table(as_named(context.session, table), statistics, link)
    if statement.column is not None:
        hides = link is not None and partition is None and _hides(context, link, table)
        answer = column_rows(
            context, table, statement.column, partition, extended=statement.extended, named=named, is_known=not hides
        )
        return Result(["info_name", "info_value"], answer)
    rows: list[tuple[object, ...]] = [
        (column.name, column.type, column.comment) for column in (*table.columns, *table.partition_keys)
    ]
    if table.is_partitioned:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [(key.name, key.type, key.comment) for key in table.partition_keys]
    if statement.extended and partition is not None:
        rows += [("", "", ""), ("# Detailed Partition Information", "", "")]
        rows += [(fact, value, "") for fact, value in partition_rows(context, table, partition, named)]
    elif statement.extended:
        facts = (
            table_facts(as_named(context.session, table)) | statistics_facts(context, table)
            if link is None
            else link_facts(link, table)
        )
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(fact, value, "") for fact, value in facts.items()]
    return Result(["col_name", "data_type", "comment"], rows)


def _described_table(context: StatementContext, statement: DescribeTable) -> tuple[StoredTable, Link | None]:
    """Return the described table or view, and None. For a link, return its source table and the link.

    Raises:
        NoSuchTableError, NoSuchDatabaseError, NoSuchLinkError: the object does not exist.
        TableIsNotALinkError, ViewIsNotALinkError: DESCRIBE LINK names a table or view.
    """
    link: Link | None = None
    if statement.as_link and statement.table.namespace is None:
        refuse_table(context, "DESCRIBE LINK", statement.table, if_exists=False)
    if statement.table.namespace is None:
        database, name = context.session.qualify(statement.table)
    else:
        link, source = linked(context, statement.table)
        database, name = source.database, source.name
    try:
        return context.services.catalog.get_table(database, name, cluster=None), link
    except NoSuchTableError:
        if statement.table.database is None and name in _LINK_WORDS and statement.column is not None:
            # This is DESCRIBE LINK name, if no table is called LINK.
            refuse_table(context, "DESCRIBE LINK", TableName(statement.column), if_exists=False)
        raise


def show_create_table(context: StatementContext, statement: ShowCreateTable) -> Result:
    """Run SHOW CREATE TABLE: return one row with a statement that creates the same table, view or link."""
    if statement.table.namespace is not None:
        return Result(["createtab_stmt"], [(_create_link_statement(linked(context, statement.table)[0]),)])
    clusters = context.services.clusters
    table = context.services.catalog.get_table(*context.session.qualify(statement.table))
    if table.not_read:
        raise InvalidOperationError("SHOW CREATE TABLE", table.full_name, table.not_read)
    if table.is_view:
        return Result(["createtab_stmt"], [(create_statement(table),)])
    primary = table.storage.primary
    # The metastore itself puts tables right below the location of their database.
    is_placed = primary.location.rpartition("/")[0] != context.services.catalog.get_database(table.database).location
    if primary.cluster in clusters:
        table = table.with_location(clusters.get(primary.cluster).uri(primary.location))
    if primary.cluster != clusters.default:
        table = replace(table, parameters={**table.parameters, CLUSTER: primary.cluster})
    temporary = table.database == TEMPORARY_DATABASE
    if temporary:
        own = {key: value for key, value in table.parameters.items() if key != TEMPORARY_NAMESPACE}
        table = replace(table, parameters=own)
    if statement.as_serde:
        _check_hive_clauses(table)
    text = create_statement(
        as_named(context.session, table),
        temporary=temporary,
        as_serde=statement.as_serde,
        with_location=is_placed and not temporary,
    )
    return Result(["createtab_stmt"], [(text,)])


def explain_route(context: StatementContext, statement: ExplainRoute) -> Result:
    """Run EXPLAIN ROUTE: return one row for each candidate cluster, in the order in which the router tries them.

    Columns mark the chosen cluster, and describe why the cluster is a candidate and which data it lacks.
    """
    found = route(context, statement.statement, may_lag=isinstance(statement.statement, Select)).route
    rows: list[tuple[object, ...]] = [
        (
            candidate.cluster,
            candidate.cluster == found.cluster,
            candidate.why,
            "; ".join(lack.describe() for lack in candidate.lacks),
        )
        for candidate in found.candidates
    ]
    return Result(["cluster", "chosen", "why", "lacks"], rows, cluster=found.cluster, route=found)


_STORED_AS = {
    "orc": "STORED AS ORC",
    "parquet": "STORED AS PARQUET",
    "avro": "STORED AS AVRO",
    "json": "ROW FORMAT SERDE 'org.apache.hive.hcatalog.data.JsonSerDe'\nSTORED AS TEXTFILE",
}
"""Hive's clauses for the formats that Hive and Spark share, by Spark's names of the formats."""


def _check_hive_clauses(table: Table) -> None:
    """Refuse a table whose format or options cannot be written in clauses of Hive.

    Raises:
        InvalidOperationError: only Spark has the table's format, or one of its options.
    """
    storage = table.storage
    if storage.format != TEXTFILE and (storage.format not in _STORED_AS or storage.serde_parameters):
        reason = f"Hive has no clauses for its format {storage.format} and options; leave AS SERDE out"
        raise InvalidOperationError("SHOW CREATE TABLE ... AS SERDE", table.full_name, reason)


def create_statement(
    table: Table, *, temporary: bool = False, as_serde: bool = False, with_location: bool = False
) -> str:
    """Return a CREATE TABLE statement that defines ``table``. ``as_serde`` writes the format in Hive's clauses.

    The location of a managed table is included only if ``with_location`` is true.
    """
    if table.is_view:
        return _create_view_statement(table)
    constraints = Constraints.of(table.parameters)

    def described(column: Column) -> str:
        return _column(column.name, column.type, column.comment) + _constraints_of(constraints, column.name)

    lines = [described(column) for column in table.columns]
    lines += [f"CONSTRAINT `{name}` CHECK ({text})" for name, text in constraints.checks.items()]
    tables = (each for each in constraints.keys.items() if each[1].kind is not KeyKind.NOT_NULL)
    lines += [f"CONSTRAINT `{name}` {key.sql}" for name, key in tables]
    columns = ",\n".join(f"  {line}" for line in lines)
    name = ".".join(f"`{part}`" for part in ((table.name,) if temporary else (table.database, table.name)))
    kind = f"{'TEMPORARY ' if temporary else ''}{'EXTERNAL ' if table.is_external else ''}TABLE"
    created = f"CREATE {kind} {name} (\n{columns})"
    comment = [f"COMMENT {quoted_text(table.comment)}"] if table.comment else []
    placed = _partition_and_bucket_clauses(table, described)
    files = _format_clauses(table, as_serde=as_serde)
    # Hive reads clauses in this order only.
    parts = [created, *comment, *placed, *files] if as_serde else [created, *files, *placed, *comment]
    if table.is_external or with_location:
        parts.append(f"LOCATION {quoted_text(hide_in_uri(table.location))}")
    # The property names the rows that have ids of Hive; a new table has no such rows.
    shown = (key for key in table.parameters if key != PARTITION_ROW_IDS and not is_constraint(key))
    parameters = {key: table.parameters[key] for key in shown}
    if parameters:
        parts.append(f"TBLPROPERTIES ({properties_text(hide_in_properties(parameters))})")
    return "\n".join(parts)


def _format_clauses(table: Table, *, as_serde: bool) -> list[str]:
    storage = table.storage
    if storage.format == TEXTFILE:
        properties = f" WITH SERDEPROPERTIES ({properties_text(storage.serde_parameters)})"
        row_format = f"ROW FORMAT SERDE '{LAZY_SIMPLE_SERDE}'{properties if storage.serde_parameters else ''}"
        return [row_format, "STORED AS TEXTFILE"]
    if as_serde:
        return [_STORED_AS[storage.format]]
    if not (table.is_external or table.is_insert_only):
        return []
    options = f"OPTIONS ({properties_text(hide_in_properties(storage.serde_parameters))})"
    return [f"USING {storage.format}", *([options] if storage.serde_parameters else [])]


def _partition_and_bucket_clauses(table: Table, described: Callable[[Column], str]) -> list[str]:
    storage = table.storage
    parts = []
    if table.is_partitioned:
        parts.append(f"PARTITIONED BY ({', '.join(described(key) for key in table.partition_keys)})")
    if storage.num_buckets > 0:
        by = ", ".join(f"`{name}`" for name in storage.bucket_columns)
        order = ", ".join(f"`{c.name}` {'ASC' if c.ascending else 'DESC'}" for c in storage.sort_columns)
        parts.append(
            f"CLUSTERED BY ({by}){f' SORTED BY ({order})' if order else ''} INTO {storage.num_buckets} BUCKETS"
        )
    if storage.skew is not None:
        parts.append(skewed_by(storage.skew, in_directories=storage.stored_as_sub_directories))
    return parts


def _constraints_of(constraints: Constraints, column: str) -> str:
    default = constraints.defaults.get(column)
    not_null = " NOT NULL" if column in constraints.not_null else ""
    for name, key in constraints.keys.items():
        if key.kind is KeyKind.NOT_NULL and column in key.columns:
            not_null += f" CONSTRAINT `{name}` {key.sql}"
    return not_null + ("" if default is None else f" DEFAULT {default}")


def hive_create_statement(table: Table, location: str) -> str:
    """Return a CREATE TABLE statement with which Hive itself reads full ACID files of the table at ``location``."""
    plain = replace(table, parameters={}, comment=None, type=TableType.MANAGED_TABLE)
    parts = [create_statement(plain), "STORED AS ORC", f"LOCATION {quoted_text(location)}"]
    return "\n".join([*parts, f"TBLPROPERTIES ({quoted_text(TRANSACTIONAL)} = 'true')"])


def _create_view_statement(view: Table) -> str:
    columns = ", ".join(
        f"{quoted(column.name)}{f' COMMENT {quoted_text(column.comment)}' if column.comment else ''}"
        for column in view.columns
    )
    parts = [f"CREATE VIEW `{view.database}`.`{view.name}` ({columns})"]
    if view.comment:
        parts.append(f"COMMENT {quoted_text(view.comment)}")
    if view.parameters:
        parts.append(f"TBLPROPERTIES ({properties_text(view.parameters)})")
    return "\n".join([*parts, f"AS {view.view_original_text}"])


def table_facts(table: Table) -> dict[str, str]:
    """Return a dict from keys of Spark's DESCRIBE to facts of a table or view."""
    storage = table.storage
    facts = {
        "Database": table.database,
        "Table": table.name,
        "Owner": table.owner or "",
        "Owner Type": table.owner_type.value,
        "Created Time": "" if table.created_at is None else table.created_at.isoformat(),
        "Type": table.type.value,
        "Provider": storage.format,
        "Location": hide_in_uri(table.location),
        "Primary Cluster": storage.primary.cluster,
        "Secondary Clusters": ", ".join(copy.cluster for copy in storage.secondaries),
        "Table Properties": f"[{properties_text(hide_in_properties(table.parameters))}]",
    }
    if table.is_view:
        for fact in ("Provider", "Location", "Primary Cluster", "Secondary Clusters"):
            del facts[fact]
        facts |= {"View Original Text": table.view_original_text or "", "View Text": table.view_expanded_text or ""}
    if table.comment:
        facts["Comment"] = table.comment
    keys = Constraints.of(table.parameters).keys
    if keys:
        facts["Keys"] = "; ".join(
            f"{name}: {key.sql}{f' of `{key.columns[0]}`' if key.kind is KeyKind.NOT_NULL else ''}"
            for name, key in keys.items()
        )
    if storage.serde_parameters:
        facts["Storage Properties"] = f"[{properties_text(hide_in_properties(storage.serde_parameters))}]"
    return facts | storage_facts(storage)


def _create_link_statement(link: Link) -> str:
    static = "STATIC " if link.is_static else ""
    properties = f"\nLINKPROPERTIES ({properties_text(link.properties)})" if link.properties else ""
    return f"CREATE {static}LINK TO `{link.name.table}`@`{link.name.namespace}`{properties}"


def _partition(
    context: StatementContext,
    table: StoredTable,
    named: Table,
    specification: Mapping[str, Literal],
    link: Link | None,
) -> StoredPartition:
    """Return a partition of a table or link. ``named`` is the table, renamed to the link's name if there is a link.

    Raises:
        NoSuchPartitionError: the table or link does not have the partition.
    """
    name = partition_name_of("DESCRIBE ... PARTITION", named, specification)
    found = context.services.catalog.get_partitions_by_names(table.database, table.name, [name])
    if not found or (link is not None and not link.shows(found[0].id)):
        raise NoSuchPartitionError(named.database, named.name, name)
    return found[0]


def _hides(context: StatementContext, link: Link, source: StoredTable) -> bool:
    """Return whether a link hides partitions of its source, so that the source's statistics also count hidden rows."""
    if not source.is_partitioned:
        return False
    shown = context.services.links.partitions(link.name.database, link.name.in_database)
    return set(shown) != set(context.services.catalog.list_partition_names(source.database, source.name))


def link_facts(link: Link, source: Table) -> dict[str, str]:
    """Return a dict from keys of Spark's DESCRIBE to facts of a link.

    The facts about the storage are those of the source table. The owner and the times are those of the link itself.
    """
    facts = table_facts(source)
    own = {
        "Database": link.name.database,
        "Table": link.name.in_database,
        "Owner": link.owner or "",
        "Created Time": "" if link.created_at is None else link.created_at.isoformat(),
        "Type": link.type.value,
        "Link Target": ".".join(link.source),
        "Link Properties": f"[{properties_text(link.properties)}]",
    }
    others = ("Owner Type", "Table Properties", "Comment")
    return own | {fact: value for fact, value in facts.items() if fact not in (*own, *others)}


def _column(name: str, type: str, comment: str | None) -> str:
    return f"`{name}` {type}{f' COMMENT {quoted_text(comment)}' if comment else ''}"


def show_columns(context: StatementContext, statement: ShowColumns) -> Result:
    """Run SHOW COLUMNS: return one name per row, partition keys last. A link has the columns of its source table."""
    temporary = context.session.objects.view(statement.table)
    if temporary is not None:
        names = [column.name for column in temporary.columns]
    else:
        table = _table(context, statement.table)
        names = [column.name for column in (*table.columns, *table.partition_keys)]
    wanted = matching(names, statement.pattern)
    shown = wanted if statement.is_sorted else [name for name in names if name in wanted]
    return Result(["col_name"], [(name,) for name in shown])


def show_table_properties(context: StatementContext, statement: ShowTableProperties) -> Result:
    """Run SHOW TBLPROPERTIES: return one property per row, sorted by name. A link has its own properties.

    Raises:
        InvalidObjectError: the table has no property of that name.
    """
    if statement.table.namespace is None:
        table = _table(context, statement.table)
        kind, name, properties = "table", table.full_name, table.parameters
    else:
        link, _ = linked(context, statement.table)
        kind, name, properties = "link", str(link.name), link.properties
    shown = sorted(hide_in_properties(properties).items())
    if statement.key is not None:
        shown = [each for each in shown if each[0] == statement.key]
        if not shown:
            raise InvalidObjectError(kind, name, f"it has no property {statement.key}")
    return Result(["key", "value"], [(key, value) for key, value in shown])


def _table(context: StatementContext, name: TableName) -> Table:
    if name.namespace is None:
        return context.services.catalog.get_table(*context.session.qualify(name))
    return linked(context, name)[1]


_COLUMNS = ["namespace", "tableName", "isTemporary", "information"]


def show_table_extended(context: StatementContext, statement: ShowTableExtended) -> Result:
    """Run SHOW TABLE EXTENDED: return one row for each table, view or link that matches a pattern, as in Spark.

    If the statement names a partition, return one row for this partition.

    Raises:
        NoSuchTableError: the statement names a partition, and no table has the name.
        NoSuchPartitionError: the table has no such partition.
    """
    database = statement.database or context.session.database
    catalog = context.services.catalog
    names = catalog.list_tables(database, statement.pattern)
    links = context.services.links.show(database, statement.pattern)
    if statement.partition is not None:
        if names != [statement.pattern.lower()]:
            # As in Spark, a PARTITION clause needs the name of one table.
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
    """Return a dict from keys of Spark to texts about the columns and partition keys of a table."""
    columns = ", ".join(f"{column.name} {column.type}" for column in (*table.columns, *table.partition_keys))
    keys = ", ".join(key.name for key in table.partition_keys)
    return {"Partition Columns": f"[{keys}]", "Schema": columns} if keys else {"Schema": columns}


def _text(facts: dict[str, str]) -> str:
    return "\n".join(f"{fact}: {value}" for fact, value in facts.items()) + "\n"


_HISTORY_COLUMNS = (
    "write_id",
    "txn_id",
    "committed_at",
    "user",
    "agent_info",
    "operation",
    "rows_added",
    "rows_deleted",
    "size_bytes",
)


def describe_history(context: StatementContext, statement: DescribeHistory) -> Result:
    """Run DESCRIBE HISTORY: return the recorded commits of a table, the newest first. Times are texts in UTC."""
    services = context.services
    table = services.catalog.get_table(*context.session.qualify(statement.table))
    check_has_versions("DESCRIBE HISTORY", table)
    with services.store.read() as connection:
        found = read_commits(connection, table.id, statement.limit)
    rows: list[tuple[object, ...]] = []
    for each in found:
        committed_at = each.committed_at.isoformat(sep=" ", timespec="milliseconds")
        rows.append(
            (
                *(each.write_id, each.txn_id, committed_at, each.user, each.agent_info, each.operation),
                *(each.rows_added, each.rows_deleted, each.size_bytes),
            )
        )
    return Result(columns=list(_HISTORY_COLUMNS), rows=rows)
