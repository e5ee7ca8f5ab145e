"""Reads and writes of DataFrames in a user's own SparkSession. A write is an INSERT or makes a new table."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Self

from airflow_hivex.core.commands.columns import with_merged_columns
from airflow_hivex.core.commands.create_as_select import run_create_table_as_select
from airflow_hivex.core.commands.rows import run_change
from airflow_hivex.core.commands.temporary_tables import check_temporary_views
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchColumnError,
    NoSuchTableError,
    UnsupportedStatementError,
)
from airflow_hivex.core.execution.called_functions import called_definitions, full_expression
from airflow_hivex.core.execution.closed_names import check_statement
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_columns import check_names, selection
from airflow_hivex.core.execution.metadata_changes import ColumnsChangedError, SchemaMerge
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query, run_insert
from airflow_hivex.core.execution.statement_transactions import commit_kept, in_transaction
from airflow_hivex.core.model.objects import Column, StoredTable
from airflow_hivex.core.model.plans import PlannedCheck, assigned_name
from airflow_hivex.core.parser.grammar.constraints import expression_columns
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.queries.reader import random_functions
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    ChangeAction,
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    CreateTable,
    Insert,
    Literal,
    Query,
    Select,
    TableName,
)

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame, GivenSession


def query_frame(context: StatementContext, statement: Select, spark: GivenSession) -> Frame:
    """Return a DataFrame of the rows of a query. Spark reads the rows only when the user's job runs.

    The rows are those of the current snapshot. In a transaction, they are those of the transaction's snapshot.
    """
    from airflow_hivex.core.runners import given

    given.check_session(spark)

    def work(running: Running) -> Frame:
        # The user's own job reads the rows.
        routed = route(context, statement, running, runs_job=False)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        views = () if context.frames is None else tuple(context.frames.views.values())
        plan = context.completed(cluster, plan_query(context, running, routed.statement.query, routed, cluster))
        rows = given.frame(spark, plan, views)
        commit_kept(context, running, (bound.table for bound in routed.bound))
        return rows

    return in_transaction(context, work, read_only=True)


log = logging.getLogger(__name__)

_OTHER_NAMES = {"errorifexists": "error"}
_MOST_TRIES = 20
_ADVICE = "mode append or overwrite writes to it"


class WriteMode(enum.StrEnum):
    """The modes of a write: the modes of Spark's DataFrameWriter, and ``replace_where``."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"
    REPLACE_WHERE = "replace_where"

    @classmethod
    def read(cls, table: str, mode: str) -> Self:
        """Return the write mode with a name. Names can have any spelling that Spark accepts.

        Raises:
            InvalidOperationError: ``mode`` is not a valid mode.
        """
        lower = str(mode).lower()
        name = _OTHER_NAMES.get(lower, lower)
        if name not in list(cls):
            raise InvalidOperationError("A write to", table, f"mode {mode!r} is not one of {', '.join(cls)}")
        return cls(name)

    @property
    def makes_tables(self) -> bool:
        """Return whether the mode is for tables that do not exist yet."""
        return self in (WriteMode.ERROR, WriteMode.IGNORE)


@dataclass(frozen=True, slots=True)
class NewTable:
    """The definition of a table that a write creates, without its columns."""

    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    buckets: int | None = None
    format: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: str,
        partitioned_by: str | Sequence[str],
        clustered_by: str | Sequence[str],
        buckets: int | None,
        format: str | None,
        properties: Mapping[str, str] | None,
    ) -> Self:
        """Return the definition from a user's arguments. One name can be given instead of a list of names.

        Raises:
            InvalidOperationError: the arguments do not define a table.
        """
        if not isinstance(properties, Mapping | None):
            raise InvalidOperationError("A write to", table, f"{properties!r} is not a mapping of properties to values")
        keys, clustered = _names(table, partitioned_by), _names(table, clustered_by)
        texts = [*keys, *clustered, format or "", *chain.from_iterable((properties or {}).items())]
        wrong = [each for each in texts if not isinstance(each, str)]
        if wrong:
            reason = f"{wrong[0]!r} is not a text; names and properties are texts"
            raise InvalidOperationError("A write to", table, reason)
        is_number = isinstance(buckets, int) and not isinstance(buckets, bool) and buckets >= 1
        if (buckets is None) != (not clustered) or (buckets is not None and not is_number):
            reason = "clustered_by names columns, and buckets is how many buckets they make; give both or none"
            raise InvalidOperationError("A write to", table, reason)
        return cls(keys, clustered, buckets, None if format is None else format.lower(), dict(properties or {}))


def _names(table: str, given: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(given, Sequence):
        raise InvalidOperationError("A write to", table, f"{given!r} is not a list of names of columns")
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, slots=True)
class FrameWrite:
    """The target and the options of a write of a DataFrame.

    ``static`` is a dict from partition key to value, for keys with one value for all rows. If ``creates`` is true and
    the table does not exist, the table is created as ``new`` describes it. If ``merges_schema`` is true, columns and
    fields of the DataFrame that the table lacks are added to the table; columns and fields that the DataFrame lacks
    become NULL. ``where`` is the condition of the rows to replace.
    """

    target: TableName
    mode: WriteMode = WriteMode.APPEND
    static: Mapping[str, Literal] = field(default_factory=dict)
    creates: bool = False
    merges_schema: bool = False
    where: str | None = None
    new: NewTable = field(default_factory=NewTable)


def write_frame(context: StatementContext, rows: Frame, write: FrameWrite) -> Result:
    """Commit the rows of a DataFrame to an existing or new table; columns and fields of structs match by name.

    Raises:
        NoSuchColumnError: the DataFrame has other columns than the table.
        AlreadyExistsError: the table exists, and the mode is ``error``.
        InvalidOperationError: the DataFrame belongs to Spark Connect or has two columns of the same name, or the table
            differs from the description in ``new``.
        InvalidParametersError: ``rows`` is not a DataFrame of Spark, or the condition is not a text.
    """
    from airflow_hivex.core.runners import given

    given.check_frame(rows, "rows", "a write")
    _check_where(write)
    given.check_session(given.session_of(rows))
    columns = given.columns_of(rows)
    check_names(str(write.target), columns)
    table = _existing(context, write)
    if table is None and write.creates:
        try:
            return _create(context, rows, columns, write)
        except AlreadyExistsError:
            if write.mode.makes_tables:
                raise
            log.info("Another writer has created %s meanwhile", write.target)
            table = _existing(context, write)
    if table is None:
        raise NoSuchTableError(*context.session.qualify(write.target))
    if write.mode is WriteMode.ERROR:
        raise AlreadyExistsError("table", table.full_name, _ADVICE)
    if write.mode is WriteMode.IGNORE:
        return Result(rows_written=0)
    _check_layout(table, write.new)
    if write.where is not None:
        return replace_where(context, rows, columns, write.target, table, write.where, fills=write.merges_schema)
    for _ in range(_MOST_TRIES):
        try:
            return _insert(context, rows, columns, write, table)
        except ColumnsChangedError:
            log.info("The columns of %s were changed meanwhile, and the write is retried", table.full_name)
            table = context.services.catalog.get_table(*context.session.qualify(write.target))
    reason = f"other statements have changed its columns {_MOST_TRIES} times meanwhile; try again later"
    raise InvalidOperationError("A write to", table.full_name, reason)


def _check_where(write: FrameWrite) -> None:
    """Refuse a condition in another mode than ``replace_where``, and the mode ``replace_where`` without a condition.

    Raises:
        InvalidOperationError: the mode does not allow the condition, or needs one.
        InvalidParametersError: the condition is not a text.
    """
    if write.where is not None and not isinstance(write.where, str):
        raise InvalidParametersError(
            f'where is a {type(write.where).__name__}; give a condition in SQL as a text, such as "day = 3".'
        )
    reason = ""
    if (write.mode is WriteMode.REPLACE_WHERE) != (write.where is not None):
        reason = "where is the condition of the rows that mode replace_where replaces; give both or none"
    elif write.where is not None and (write.creates or write.static):
        reason = "mode replace_where writes to a table that exists, and the DataFrame has all columns of its partitions"
    if reason:
        raise InvalidOperationError("A write to", str(write.target), reason)


def _existing(context: StatementContext, write: FrameWrite) -> StoredTable | None:
    """Return the table, or None if it does not exist and the write is allowed to create it.

    Raises:
        NoSuchTableError: the table does not exist, and the write is not allowed to create it.
    """
    try:
        return context.services.catalog.get_table(*context.session.qualify(write.target))
    except NoSuchTableError:
        if not write.creates:
            raise
        return None


def _create(context: StatementContext, rows: Frame, columns: Sequence[Column], write: FrameWrite) -> Result:
    """Create the table with the rows, in one commit.

    Raises:
        AlreadyExistsError: another writer has created the table meanwhile.
        InvalidOperationError: the session is in a transaction, or ``static`` is not empty.
    """
    from airflow_hivex.core.runners import given

    if context.session.transaction is not None:
        reason = f"it does not exist, and transaction {context.session.transaction.txn_id} is open; create it before"
        raise InvalidOperationError("A write to", str(write.target), reason)
    if write.static:
        reason = "partition gives values to keys of a table that exists; add them to the DataFrame as columns"
        raise InvalidOperationError("A write to", str(write.target), reason)
    new = write.new
    named = [f"{quoted(column.name)} AS {quoted(column.name.lower())}" for column in columns]
    with given.temporary_view(rows, named) as view:
        statement = CreateTable(
            table=write.target,
            partition_keys=tuple(Column(name, "") for name in new.partitioned_by),
            if_not_exists=write.mode is WriteMode.IGNORE,
            format=new.format,
            properties=new.properties,
            bucket_columns=new.clustered_by,
            num_buckets=-1 if new.buckets is None else new.buckets,
            query=_all_of(view),
        )
        check_temporary_views(context, statement)
        runner = given.GivenRunner(given.session_of(rows), [view])
        return run_create_table_as_select(replace(context, runner=runner, kind=statement.kind), statement, waits=True)


def _insert(
    context: StatementContext, rows: Frame, columns: Sequence[Column], write: FrameWrite, table: StoredTable
) -> Result:
    """Add the rows to the table, or overwrite its rows with them, in one commit.

    Raises:
        ColumnsChangedError: another statement has changed the columns meanwhile, and this write changes columns, too.
        InvalidOperationError: the table cannot be written, or would get new columns in a transaction of several
            statements.
    """
    from airflow_hivex.core.runners import given

    if table.not_inserted:
        raise InvalidOperationError("A write to", table.full_name, table.not_inserted)
    merge = None
    if write.merges_schema:
        after = with_merged_columns(table, columns)
        merge = None if after.columns == table.columns else SchemaMerge(table, after)
    if merge is not None and context.session.transaction is not None:
        reason = (
            f"it gets new columns, which others would see before transaction {context.session.transaction.txn_id} "
            "commits; write before or after it"
        )
        raise InvalidOperationError("A write to", table.full_name, reason)
    target = table if merge is None else merge.merged(table)
    dynamic = [key.name for key in table.partition_keys if key.name.lower() not in write.static]
    named = selection(target, columns, write.static, fills=write.merges_schema)
    with given.temporary_view(rows, list(named.values())) as view:
        # Only its own Spark session knows its rows by name.
        runner = given.GivenRunner(given.session_of(rows), [view])
        insert = Insert(
            target=write.target,
            query=_all_of(view),
            overwrite=write.mode is WriteMode.OVERWRITE,
            partition=(*write.static, *dynamic) if write.static else (),
            static=write.static,
            by_name=True,
        )
        check_temporary_views(context, insert)
        return run_insert(replace(context, runner=runner, kind=insert.kind), insert, merge=merge)


def _all_of(view: str) -> Query:
    text = f"SELECT * FROM {view}"  # noqa: S608 - a name of our own
    return Query(text, 0, len(text), ())


def _check_layout(table: StoredTable, new: NewTable) -> None:
    """Refuse to write to an existing table whose layout differs from the layout in ``new``.

    Raises:
        InvalidOperationError: the table has other partition keys or buckets.
    """
    keys = [key.name.lower() for key in table.partition_keys]
    wanted = [name.lower() for name in new.partitioned_by]
    if wanted and wanted != keys:
        has = f"it is partitioned by {', '.join(keys)}" if keys else "it has no partitions"
        reason = f"{has}, and partitioned_by is {', '.join(wanted)}"
        raise InvalidOperationError("A write to", table.full_name, reason)
    storage = table.storage
    buckets = ([name.lower() for name in storage.bucket_columns], storage.num_buckets)
    if new.buckets is not None and ([name.lower() for name in new.clustered_by], new.buckets) != buckets:
        has = f"its rows are in {storage.num_buckets} buckets by {', '.join(storage.bucket_columns)}"
        reason = f"{has if storage.num_buckets > 0 else 'it has no buckets'}, and clustered_by and buckets differ"
        raise InvalidOperationError("A write to", table.full_name, reason)


_KIND = "REPLACE WHERE"


def replace_where(
    context: StatementContext,
    rows: Frame,
    columns: Sequence[Column],
    target: TableName,
    table: StoredTable,
    where: str,
    *,
    fills: bool,
) -> Result:
    """Replace the rows that satisfy a condition by the rows of a DataFrame, which must satisfy the condition, too.

    Raises:
        ReplaceConditionError: a row of the DataFrame does not satisfy the condition.
        ForeignNameError: the condition calls a function of another namespace, and the current namespace is closed.
        NoSuchColumnError: the condition names a column that the table lacks, or the DataFrame has other columns.
        InvalidOperationError: the condition needs more than the columns of one row, or the table does not allow changes
            of rows.
    """
    from airflow_hivex.core.runners import given

    columns_of_where = _columns_of(table, where)
    random = sorted({name for text in (where, *called_definitions(context, where)) for name in random_functions(text)})
    if random:
        reason = f"where calls {random[0]}, whose value is another with each call; name conditions of the columns alone"
        raise InvalidOperationError("A write to", table.full_name, reason)
    condition = PlannedCheck(_KIND, full_expression(context, where), columns_of_where)
    named = selection(table, columns, (), fills=fills)
    database = "" if target.database is None else f"{quoted(target.database)}."
    text = f"DELETE FROM {database}{quoted(target.name)} WHERE ({where}\n)"  # noqa: S608 - it was read as a condition
    deletion = read(text, database=context.session.database)
    assert isinstance(deletion, ChangeRows)
    check_statement(context, deletion, None)
    with given.temporary_view(rows, list(named.values())) as view:
        statement = replace(deletion, operation=_KIND, unmatched=_insertion(view, list(named)))
        check_temporary_views(context, statement)
        runner = given.GivenRunner(given.session_of(rows), [view])
        return run_change(replace(context, runner=runner, kind=statement.kind), statement, condition)


def _columns_of(table: StoredTable, where: str) -> tuple[str, ...]:
    try:
        found = expression_columns(where)
    except UnsupportedStatementError as error:
        reason = f"where is a condition of the columns of one row, without sub-queries and parameters: {error.reason}"
        raise InvalidOperationError("A write to", table.full_name, reason) from error
    names = [column.name for column in (*table.columns, *table.partition_keys)]
    for name in found:
        if name not in [each.lower() for each in names]:
            raise NoSuchColumnError(table.full_name, name, names)
    return found


def _insertion(view: str, names: Sequence[str]) -> ChangeQuery:
    values = ", ".join(f"{quoted(name)} AS {quoted(assigned_name(0, place))}" for place, name in enumerate(names))
    text = f"SELECT {values} FROM {view}"  # noqa: S608 - names of our own
    clause = ChangeClause(ChangeAction.INSERT, tuple(names), len(names))
    return ChangeQuery(Query(text, 0, len(text), ()), (clause,))
