"""Changes of rows: INSERT, UPDATE, DELETE and MERGE, each as one job; schema evolution; TRUNCATE and RESTORE."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from airflow_hivex.core.catalog.specifications import covered, typed_specification
from airflow_hivex.core.commands.columns import with_merged_columns
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchPartitionError,
)
from airflow_hivex.core.execution import planning, read_versions, resuming
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_columns import reshaped
from airflow_hivex.core.execution.frame_inputs import rendered
from airflow_hivex.core.execution.insert_targets import InsertedRows, change_operation, check_change, check_changeable
from airflow_hivex.core.execution.locking import acquire, check_not_outrun
from airflow_hivex.core.execution.metadata_changes import ColumnsChangedError, SchemaMerge
from airflow_hivex.core.execution.routing import RoutedQuery, chosen_cluster, route, take_snapshot, writing_cluster
from airflow_hivex.core.execution.select_and_insert import explained, plan_query, run_describe_query, run_insert
from airflow_hivex.core.execution.statement_transactions import OutrunError, in_transaction
from airflow_hivex.core.execution.writing import (
    begin_write,
    end_write,
    end_writes,
    run_once,
    with_empty_bases,
)
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.column_types import Primitive
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import SOURCE_ROW, ChangePart, ChangeRule, Changes, Plan, PlannedCheck, Write
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.versions import TableVersion
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    DescribeQuery,
    ExplainChanges,
    Insert,
    Query,
    RestoreTable,
    TableName,
    TextEdit,
    Truncate,
)
from airflow_hivex.core.transactions import pending_writes

# INSERT and MERGE WITH SCHEMA EVOLUTION: columns that only the query or the source has are added to the table, in the
# commit of the rows. The columns of the query are looked up first, and the statement is retried if another one has
# changed the table's columns meanwhile.


_MOST_TRIES = 20

Evolved = Callable[[StoredTable], Table]
Run = Callable[[SchemaMerge | None], Result]


def run_insert_statement(context: StatementContext, statement: Insert) -> Result:
    """Run an INSERT, and return the number of written rows. WITH SCHEMA EVOLUTION also adds columns to the table.

    Raises:
        InvalidObjectError: the new columns cannot be columns of the table.
        InvalidOperationError: the statement adds columns in a transaction of several statements, or other statements
            change the columns at every retry.
    """
    if not statement.evolves:
        return run_insert(context, statement)

    def evolved(table: StoredTable) -> Table:
        if table.not_inserted:
            raise InvalidOperationError(statement.kind, table.full_name, table.not_inserted)
        given = _columns_of(context, _with_types_of_new_columns(statement, table))
        return with_merged_columns(table, given if statement.by_name else _by_position(statement, table, given))

    return with_new_columns(
        context, statement.kind, statement.target, evolved, lambda merge: run_insert(context, statement, merge=merge)
    )


def run_change_statement(context: StatementContext, statement: ChangeRows) -> Result:
    """Run an UPDATE, DELETE or MERGE; return the numbers of changed rows. MERGE WITH SCHEMA EVOLUTION adds columns.

    Raises:
        InvalidObjectError, InvalidOperationError: as :func:`run_insert_statement`.
    """
    if not statement.evolves:
        return run_change(context, statement)
    evolved = _evolved_by(context, statement)
    return with_new_columns(
        context, statement.kind, statement.target, evolved, lambda merge: run_change(context, statement, merge=merge)
    )


def run_explain_statement(context: StatementContext, statement: ExplainChanges) -> Result:
    """Return Spark's plan of an UPDATE, DELETE or MERGE. Columns that a MERGE would add count as columns of the table.

    Raises:
        InvalidObjectError, InvalidOperationError: as :func:`run_insert_statement`.
    """
    changes = statement.statement
    if not changes.evolves:
        return run_explain_changes(context, statement)
    evolved = _evolved_by(context, changes)
    return with_new_columns(
        context, changes.kind, changes.target, evolved, lambda merge: run_explain_changes(context, statement, merge)
    )


def with_new_columns(context: StatementContext, kind: str, target: TableName, evolved: Evolved, run: Run) -> Result:
    """Return the result of ``run``, which gets the new columns that ``evolved`` finds (None: no new columns).

    If another statement changes the table's columns meanwhile, both functions are called again.

    Raises:
        InvalidOperationError: the statement adds columns in a transaction of several statements, or other statements
            change the columns at every retry.
    """
    named = context.session.qualify(target)
    for _ in range(_MOST_TRIES):
        table = context.services.catalog.get_table(*named)
        after = evolved(table)
        if after.columns == table.columns:
            return run(None)
        if context.session.transaction is not None:
            reason = "it gets new columns, which others would see before the transaction commits; write outside of it"
            raise InvalidOperationError(kind, table.full_name, reason)
        try:
            return run(SchemaMerge(table, after))
        except ColumnsChangedError:
            log.info("The columns of %s were changed meanwhile, and the %s is retried", table.full_name, kind)
    reason = f"other statements have changed its columns {_MOST_TRIES} times meanwhile; try again later"
    raise InvalidOperationError(kind, ".".join(named), reason)


def _columns_of(context: StatementContext, query: Query) -> list[Column]:
    return [Column(str(row[0]), str(row[1])) for row in run_describe_query(context, DescribeQuery(query)).rows]


def _with_types_of_new_columns(statement: Insert, table: StoredTable) -> Query:
    """Return a query from which Spark can find the types of the new columns of an INSERT ... VALUES.

    In all rows except the first, values of existing columns are replaced by NULL. Otherwise Spark might find no common
    type for the values of an existing column, and refuse the query.
    """
    query = statement.query
    if query.values is None:
        return query
    own = [column for column in table.columns if isinstance(column.parsed_type, Primitive)]
    names = {column.name.lower() for column in (*own, *table.partition_keys)}
    width = len(query.values.cells[0])
    if statement.by_name:
        known = {i for i, name in enumerate(query.values.names) if name.lower() in names}
    else:
        known = {i for i, column in enumerate(table.columns[:width]) if column in own}
    edits = [TextEdit(*row[i], "NULL") for row in query.values.cells[1:] for i in known]
    others = [
        edit
        for edit in query.qualifiers
        if not any(each.start <= edit.start and edit.end <= each.end for each in edits)
    ]
    return replace(query, qualifiers=(*others, *edits))


def _by_position(statement: Insert, table: StoredTable, given: Sequence[Column]) -> list[Column]:
    """Return the columns of a query: the first ones have the table's column names, new ones have their own names.

    Raises:
        InvalidOperationError: the query has values of partition keys.
        InvalidObjectError: a new column has the name of a column of the table.
        ColumnCountMismatchError: the query has fewer columns than the table.
    """
    dynamic = [key.name for key in table.partition_keys if key.name.lower() not in statement.static]
    if dynamic:
        reason = (
            f"new columns by position would stand behind partition key {dynamic[0]} in the query, and before it in the "
            "table; write BY NAME behind the table"
        )
        raise InvalidOperationError("INSERT WITH SCHEMA EVOLUTION", table.full_name, reason)
    names = [column.name for column in table.columns]
    if len(given) < len(names):
        raise ColumnCountMismatchError(table.full_name, len(names), len(given), names)
    known = {column.name.lower() for column in (*table.columns, *table.partition_keys)}
    for column in given[len(names) :]:
        if column.name.lower() in known:
            reason = f"it has a column {column.name} already; give the new one another name, or write BY NAME"
            raise InvalidObjectError("table", table.full_name, reason)
    renamed = (replace(column, name=name) for column, name in zip(given, names, strict=False))
    return [*renamed, *given[len(names) :]]


def _evolved_by(context: StatementContext, statement: ChangeRows) -> Evolved:
    """Return a function that adds to a table the columns of a MERGE that only its source has.

    ``SET *`` and ``INSERT *`` add all of these columns. Other clauses add only the columns that they copy or assign. A
    new column has the type that it has in the source.
    """
    assert statement.source is not None
    source = [column for column in _columns_of(context, statement.source) if column.name != SOURCE_ROW]
    takes_all = any(clause.by_name for clause in statement.clauses)
    copied = {name.lower() for clause in statement.clauses for name in clause.copied}
    assigned = {name.lower() for clause in statement.clauses for name in clause.columns or ()}

    def evolved(table: StoredTable) -> Table:
        check_changeable(statement, table)
        known = {column.name.lower() for column in table.columns}
        wanted = copied | (assigned - known)
        return with_merged_columns(table, [column for column in source if takes_all or column.name.lower() in wanted])

    return evolved


log = logging.getLogger(__name__)


def run_change(
    context: StatementContext,
    statement: ChangeRows,
    condition: PlannedCheck | None = None,
    merge: SchemaMerge | None = None,
) -> Result:
    """Run an UPDATE, DELETE or MERGE; return the numbers of written and deleted rows. An updated row counts in both.

    All inserted rows must satisfy ``condition``. If ``merge`` is given, the commit adds its columns to the table. If
    the statement writes a streaming batch that was already written to the table, nothing changes.
    """

    def work(running: Running) -> Result:
        running.check_may_write(statement.operation)
        locks = () if merge is None else merge.locks(context)
        routed = route(context, statement, running, locks=locks)
        target = routed.target if merge is None else merge.merged(routed.target)
        check_change(statement, target)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        write = begin_write(context, running, target, cluster, operation=change_operation(context, statement))
        plan = _plan(
            context, running, _with_new_types(routed, merge), cluster, replace(write.write, condition=condition)
        )
        written = context.run(cluster, plan, resuming.resumable(context, running, write.pending, write.table, plan))
        also = None if merge is None else merge.storing(context, running)
        end_writes(context, running, [(write, written.directories)], also=also)
        return Result(
            cluster=cluster.name,
            txn_id=running.txn_id,
            rows_written=written.rows_written,
            rows_deleted=written.rows_deleted,
            route=routed.route,
        )

    return run_once(context, work, Result(rows_written=0, rows_deleted=0))


def run_explain_changes(
    context: StatementContext, statement: ExplainChanges, merge: SchemaMerge | None = None
) -> Result:
    """Return Spark's plan of an UPDATE, DELETE or MERGE on the cluster that would run it. Nothing is locked or run."""

    def work(running: Running) -> Result:
        routed = route(context, statement.statement, declarations=running.functions)
        target = routed.target if merge is None else merge.merged(routed.target)
        check_change(statement.statement, target)
        cluster = chosen_cluster(context, routed)
        write = planning.write(target, cluster, TableWrite(running.txn_id, 0, cluster.name))
        plan = _plan(context, running, _with_new_types(routed, merge), cluster, write)
        return explained(context, running, plan, statement.mode, routed, cluster)

    return in_transaction(context, work, read_only=True)


def _with_new_types(routed: RoutedQuery[ChangeRows], merge: SchemaMerge | None) -> RoutedQuery[ChangeRows]:
    """Return the statement with the types that the table's existing columns get by the schema evolution.

    New columns are not added to the target. In conditions and values, the name of a new column means the column of the
    source.
    """
    if merge is None:
        return routed
    target, *others = routed.bound
    merged = merge.merged(target.table)
    kept = merged.columns[: len(target.table.columns)]
    table = replace(merged, storage=replace(merged.storage, columns=kept))
    return replace(routed, bound=(replace(target, table=table), *others))


def _plan(
    context: StatementContext,
    running: Running,
    routed: RoutedQuery[ChangeRows],
    cluster: Cluster,
    write: Write,
) -> Plan:
    tag, statement = running.tag, routed.statement
    there = {column.name for column in routed.bound[0].table.columns}
    views = [f"{tag}_{number}" for number in range(len(routed.bound))]
    target, others = views[0], iter(views[1:])
    names = {name: f"{tag}_{name}" for name in ("source", "source_rest", "target_rest")}
    # In the order of ChangeRows.others.
    source = None if statement.source is None else rendered(context, statement.source, others)
    fills = statement.evolves
    matched = _part(context, statement.matched, others, target=target, source=names["source"], fills=fills)
    unmatched = by_source = None
    if statement.unmatched is not None:
        source_rest = names["source_rest"]
        unmatched = _part(context, statement.unmatched, others, target=target, source=source_rest, fills=fills)
    if statement.unmatched_by_source is not None:
        by_source = _part(
            context,
            statement.unmatched_by_source,
            others,
            target=names["target_rest"],
            source=names["source"],
            fills=fills,
        )
    parts = (statement.source, *(part.query for part in _parts(statement)))
    parameters = {name for query in parts if query is not None for name in query.parameters}
    scans = (
        planning.scan(bound, cluster, view, row_ids=view == target, row_id=row_id)
        for bound, view, row_id in zip(routed.bound, views, routed.row_ids, strict=True)
    )
    return planning.plan_job(
        context,
        running,
        cluster,
        scans,
        parameters=parameters,
        write=write,
        changes=Changes(
            operation=statement.operation,
            matched=matched,
            target_view=target,
            source=source,
            source_view=names["source"],
            source_rest_view=names["source_rest"],
            unmatched=unmatched,
            unmatched_by_source=by_source,
            target_rest_view=names["target_rest"],
            added=tuple(column.name.lower() for column in write.columns if column.name not in there),
        ),
    )


def _parts(statement: ChangeRows) -> list[ChangeQuery]:
    parts = (statement.matched, statement.unmatched, statement.unmatched_by_source)
    return [part for part in parts if part is not None]


def _part(
    context: StatementContext, part: ChangeQuery, others: Iterator[str], *, target: str, source: str, fills: bool
) -> ChangePart:
    own = {place: view for place, view in ((part.target, target), (part.source, source)) if place is not None}
    rules = tuple(_rule(clause, fills=fills) for clause in part.clauses)
    return ChangePart(rendered(context, part.query, others, own=own), rules)


def _rule(clause: ChangeClause, *, fills: bool) -> ChangeRule:
    return ChangeRule(
        clause.action.value, clause.columns, clause.values, clause.by_name, clause.defaults, fills, clause.texts
    )


def run_restore(context: StatementContext, statement: RestoreTable) -> Result:
    """Make an earlier version the current state of a table; return the number of its rows.

    RESTORE runs as an INSERT OVERWRITE of all partitions, so the versions in between stay readable.
    """
    table = context.services.catalog.get_table(*context.session.qualify(statement.table))
    if table.not_written:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_written)
    snapshot = context.services.catalog.snapshot([(table.database, table.name)])
    version = read_versions.find(context, snapshot, table, statement.version, None).version
    insert = _overwrite(table, version)

    def work(running: Running) -> Result:
        running.check_may_write(statement.kind)
        routed = route(context, insert, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        write = begin_write(context, running, routed.target, cluster, InsertedRows(overwrite=True))
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        names = _existing_partitions(context, running, routed.target) if routed.target.is_partitioned else []
        end_write(context, running, write, with_empty_bases(context, running, write, written, names))
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )

    return in_transaction(context, work)


def _overwrite(table: StoredTable, version: TableVersion) -> Insert:
    """Return an INSERT OVERWRITE with the rows of a version. Columns and fields that the version lacks become NULL."""
    then = {column.in_files.lower(): column for column in version.columns or table.columns}
    values = [
        reshaped(table.full_name, quoted(then[column.in_files.lower()].name), then[column.in_files.lower()], column)
        if column.in_files.lower() in then
        else f"CAST(NULL AS {column.type})"
        for column in table.columns
    ]
    values += [quoted(key.name) for key in table.partition_keys]
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    text = f"SELECT {', '.join(values)} FROM {name} VERSION AS OF {version.write_id}"  # noqa: S608 - quoted names
    insert = read(f"INSERT OVERWRITE TABLE {name} {text}", database=table.database)
    assert isinstance(insert, Insert)
    return insert


def _existing_partitions(
    context: StatementContext, running: Running, table: StoredTable, among: Predicate | None = None
) -> list[str]:
    """Return the sorted names of partitions that can match ``among``, with those that this transaction has added."""
    names = set(context.services.catalog.list_partition_names(table.database, table.name, among))
    if running.joined is not None:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, running.txn_id)
        names.update(name for name in own.get(table.id, {}) if name is not None)
    return sorted(names)


def run_truncate(context: StatementContext, statement: Truncate) -> Result:
    """Run TRUNCATE TABLE: remove all rows of a table or of partitions. The removed rows are not counted.

    Raises:
        RoutingError: the session is pinned to another cluster than the table's primary one.
    """

    def work(running: Running) -> Result:
        running.check_may_write("TRUNCATE TABLE")
        table = context.services.catalog.get_table(*context.session.qualify(statement.table))
        if table.not_written:
            raise InvalidOperationError("TRUNCATE TABLE", table.full_name, table.not_written)
        cluster = writing_cluster(context, table)
        chosen = None if statement.specification is None else _covered_partitions(context, running, table, statement)
        locks = context.services.statement_locks.truncate(table, chosen)
        resources = [(table.id, partition) for partition in (chosen if chosen is not None else [None])]
        write_ids_of = [table.id] if table.is_transactional else ()
        if acquire(context, running, locks, write_ids_of=write_ids_of) is None:
            check_not_outrun(context, running, resources)
        take_snapshot(context, running)
        if context.services.catalog.get_table(table.database, table.name).id != table.id:
            raise OutrunError(f"table {table.full_name} was dropped and created again while the statement waited")
        names: Sequence[str | None] = [None]
        if table.is_partitioned:
            # The lock on the whole table also covers partitions that were added before the statement acquired it.
            names = chosen if chosen is not None else _covered_partitions(context, running, table, statement)
        write = begin_write(context, running, table, cluster, InsertedRows(overwrite=True))
        from airflow_hivex.core.job.new_directories import write_empty_bases

        written = write_empty_bases(write.write, [(name, nullable_values(name)) for name in names])
        end_write(context, running, write, written)
        return Result(cluster=cluster.name, txn_id=running.txn_id)

    return in_transaction(context, work)


def _covered_partitions(
    context: StatementContext, running: Running, table: StoredTable, statement: Truncate
) -> list[str]:
    """Return the sorted names of partitions that the statement covers, with those that its transaction has added.

    Raises:
        NoSuchPartitionError: the specification covers no partition.
    """
    exact = None
    if statement.specification is not None:
        exact = typed_specification("TRUNCATE TABLE ... PARTITION", table, statement.specification)
    found = _existing_partitions(context, running, table, exact)
    if exact is not None:
        found = covered(found, exact, table.partition_keys)
    if exact is not None and not found:
        raise NoSuchPartitionError(table.database, table.name, "that the specification covers")
    return found
