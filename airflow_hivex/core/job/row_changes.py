"""UPDATE, DELETE and MERGE: delete events and new rows, in one write.

A delete event has the row id of a deleted row. As in Hive, the delete events for rows of one bucket number are written
to one file, in the order of the row ids. Source: docs/reference/spark.md, "Row changes";
docs/reference/directories.md, "Row layout".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from itertools import count
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    MergeCardinalityError,
    NoSuchColumnError,
)
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import layout, view_queries
from airflow_hivex.core.job.assignment import assign, nothing_in_sql, quoted, text_literal
from airflow_hivex.core.job.constraints import default_of, enforced
from airflow_hivex.core.job.layout import BUCKET, METADATA_COLUMNS, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.new_directories import NewDirectories
from airflow_hivex.core.job.shared_rows import Kept, with_kept
from airflow_hivex.core.job.staging import Save, Staging
from airflow_hivex.core.job.writes import (
    ROW_ID_MASK,
    bucket_number,
    new_partition_text,
    partition_text,
    sort_order,
)
from airflow_hivex.core.model.objects import Column, row_key
from airflow_hivex.core.model.plans import (
    CLAUSE,
    SOURCE_ROW,
    SOURCE_STRUCT,
    ChangePart,
    ChangeRule,
    Changes,
    Write,
    WrittenDirectory,
    assigned_name,
)
from airflow_hivex.core.model.row_ids import WRITER_SHIFT, encode_bucket

_KEYS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)
_KIND = "__kind"
_WRITER = "__writer"
_PARTITION = "__writer_partition_"
_FOUND = "__found_source_row"
_DELETED, _INSERTED = 0, 1
_SAMPLED = 64
_ROW_OVERHEAD = 64
_MOST_BROADCAST_BYTES = 64 << 20


def change_rows(
    spark: SparkSession,
    changes: Changes,
    write: Write,
    arguments: Mapping[str, Any],
    made: list[str],
    save: Save | None = None,
    *,
    views: Sequence[str] = (),
) -> tuple[WrittenDirectory, ...]:
    """Write the changes; return the delta and delete delta directories, at most two for each partition.

    The names of created temporary views are added to ``made``; the caller must drop these views. ``views`` are existing
    temporary views that the statement is allowed to read.

    Raises:
        MergeCardinalityError: several rows of a MERGE's source match one row of the target.
        InvalidObjectError: the source has a column with a name that the job needs.
        TypeMismatchError: a column needs an explicit CAST.
        NoSuchColumnError: for ``SET *`` or ``INSERT *`` the source lacks a column of the target.
    """
    if write.layout not in layout.FULL_ACID:
        raise InvalidOperationError(changes.operation, write.table, f"rows of layout {write.layout!r} are not written")

    def work(kept: Kept) -> tuple[WrittenDirectory, ...]:
        return _written(_Changing(spark, changes, write, arguments, made, views, kept).events(), write, kept, save)

    return with_kept(spark, work)


def matched_rows(
    spark: SparkSession,
    changes: Changes,
    write: Write,
    arguments: Mapping[str, Any],
    made: list[str],
    *,
    views: Sequence[str] = (),
) -> DataFrame:
    """Return the rows for EXPLAIN: the events of an UPDATE or DELETE, or the matching rows of a MERGE. No job runs.

    ``made`` and ``views`` are used as in :func:`change_rows`.
    """
    return _Changing(spark, changes, write, arguments, made, views, Kept(spark)).explained()


class _Changing:
    """The events of one UPDATE, DELETE or MERGE: delete events, and new rows.

    ``kept`` has the rows that Spark must store until the events are written.
    """

    def __init__(
        self,
        spark: SparkSession,
        changes: Changes,
        write: Write,
        arguments: Mapping[str, Any],
        made: list[str],
        views: Sequence[str],
        kept: Kept,
    ) -> None:
        self._spark = spark
        self._changes = changes
        self._write = write
        self._arguments = dict(arguments)
        self._made = made
        self._views = views
        self._kept = kept

    def explained(self) -> DataFrame:
        """Return the rows for EXPLAIN: the events or, if the changes have a source, the matching rows of the target."""
        changes = self._changes
        if changes.source is None:
            return self.events()
        source = self._rows(changes.source)
        _check_names(source)
        # The size is not checked, since the rows would have to be computed for it.
        self._view(source, changes.source_view)
        return _needed(self._rows(changes.matched.sql), changes.matched, self._write)

    def events(self) -> DataFrame:
        changes = self._changes
        if changes.source is None:
            parts = [self._part(self._rows(changes.matched.sql), changes.matched, alone=True)]
            if changes.unmatched is not None:
                parts.append(self._part(self._rows(changes.unmatched.sql), changes.unmatched, alone=True))
            return reduce(lambda one, other: one.union(other), parts)
        source = self._rows(changes.source)
        _check_names(source)
        source = self._kept.keep(source)
        self._view(broadcast_unless_large(source), changes.source_view)
        self._kept.check()
        matched = self._kept.keep(_needed(self._rows(changes.matched.sql), changes.matched, self._write))
        if changes.matched.rules:
            self._check_cardinality(matched)
        # The unmatched rows are the source without the matched rows: both must come from the same computed source.
        self._kept.check()
        parts = [self._part(matched, changes.matched)] if changes.matched.rules else []
        if changes.unmatched is not None:
            found = matched.select(F.col(SOURCE_ROW).alias(_FOUND))
            rest = source.join(found, F.expr(f"{SOURCE_ROW} = {_FOUND}"), "left_anti")
            self._view(rest, changes.source_rest_view)
            parts.append(self._part(self._rows(changes.unmatched.sql), changes.unmatched))
        if changes.unmatched_by_source is not None:
            target = self._spark.table(changes.target_view)
            keys, key = _with_key(matched, self._write)
            rest, _ = _with_key(target, self._write)
            rest = rest.join(keys.select(*key), list(key), "left_anti")
            rest = rest.select(*map(quoted, target.columns))
            self._view(rest, changes.target_rest_view)
            parts.append(self._part(self._rows(changes.unmatched_by_source.sql), changes.unmatched_by_source))
        return reduce(lambda one, other: one.union(other), parts)

    def _rows(self, sql: str) -> DataFrame:
        return view_queries.query(self._spark, sql, self._arguments, (*self._made, *self._views))

    def _view(self, rows: DataFrame, name: str) -> None:
        rows.createOrReplaceTempView(name)
        self._made.append(name)

    def _check_cardinality(self, matched: DataFrame) -> None:
        # As in Hive, this counts all matching rows, also rows that no clause changes.
        rows, key = _with_key(matched, self._write)
        several = rows.groupBy(*key).count().where("count > 1")
        # A count of all of them needs one more shuffle.
        if several.take(1):
            raise MergeCardinalityError(self._write.table, several.count())

    def _part(self, rows: DataFrame, part: ChangePart, *, alone: bool = False) -> DataFrame:
        """Return the events that the rules of ``part`` make from the rows of its query.

        If ``alone`` is true, ``part`` has one rule, which applies to all rows. Otherwise a column of the query has, for
        each row, the number of the rule that applies to the row.
        """
        branches = [
            self._branch(rows if alone else rows.where(F.col(CLAUSE) == number), number, rule)
            for number, rule in enumerate(part.rules)
        ]
        return reduce(lambda one, other: one.union(other), branches)

    def _branch(self, rows: DataFrame, number: int, rule: ChangeRule) -> DataFrame:
        # In SQL: each call of a function of pyspark's goes to the JVM and back, and a table may have many columns.
        write = self._write
        writer = f"{layout.WRITER} AS {_WRITER}"
        partition = [new_partition_text(column, write) for column in write.partition_columns]
        if rule.action == "delete":
            values = [nothing_in_sql(column) for column in write.columns]
            # Always _DELETED, in a form that Spark cannot simplify: with a constant it would see that no row gets a
            # number, and would sort by the kind and the writer only.
            kind = f"CAST({ROW_ID} < 0 AS INT) AS {_KIND}"
            return rows.selectExpr(kind, writer, *_KEYS, *values, *partition)
        columns = (*write.columns, *write.partition_columns)
        if rule.action == "insert":
            given = _inserted(rows, number, rule, write)
            new = enforced(self._assigned(rows.selectExpr(*given), columns, rule), write)
            # In a table without buckets each task writes new rows as a separate writer.
            writer = f"spark_partition_id() % {layout.MOST_WRITERS} AS {_WRITER}"
            if write.num_buckets > 0:
                new, writer = new.withColumn(_WRITER, bucket_number(write)), _WRITER
            names = [quoted(column.name) for column in write.columns]
            no_writer = [nothing_in_sql(column) for column in METADATA_COLUMNS if column.name in _KEYS]
            return new.selectExpr(f"{_INSERTED} AS {_KIND}", writer, *no_writer, *names, *partition)
        key_columns = [column for column in METADATA_COLUMNS if column.name in _KEYS]
        given = [*_KEYS, *_updated(rows, number, rule, write, self._changes.added)]
        new = enforced(self._assigned(rows.selectExpr(*given), (*key_columns, *columns), rule), write, _KEYS)
        twice = new.selectExpr(f"explode(array({_DELETED}, {_INSERTED})) AS {_KIND}", "*")
        names = [quoted(column.name) for column in write.columns]
        values = [f"IF({_KIND} = {_INSERTED}, {name}, NULL) AS {name}" for name in names]
        return twice.selectExpr(_KIND, writer, *_KEYS, *values, *partition)

    def _assigned(self, rows: DataFrame, columns: Sequence[Column], rule: ChangeRule) -> DataFrame:
        """Return the rows, with each value converted to the type of its column.

        A text is converted to another type only if it is a constant of the rule.
        """
        write = self._write
        names = rule.columns or [column.name for column in columns]
        named = {names[i].lower() for i in rule.texts}
        texts = [i for i, column in enumerate(columns) if column.name.lower() in named]
        return assign(rows, columns, write.table, fields_by_name=True, texts=texts, casts=write.casts)


def _check_names(source: DataFrame) -> None:
    """Refuse a source that has a column with a name which is reserved for the job.

    Raises:
        InvalidObjectError: the source has a column with such a name.
    """
    if CLAUSE in (name.lower() for name in source.columns):
        raise InvalidObjectError("column", CLAUSE, "the source of a MERGE cannot have this name; give it an alias")


def _with_key(rows: DataFrame, write: Write) -> tuple[DataFrame, tuple[str, ...]]:
    """Return rows of the target with the columns that identify them, and the names of these columns."""
    names = {f"{_PARTITION}{number}": column for number, column in enumerate(write.partition_columns)}
    if names:
        # Spark Connect takes no empty list of columns.
        rows = rows.withColumns({name: partition_text(key) for name, key in names.items()})
    return rows, row_key(_KEYS, list(names))


def _needed(matched: DataFrame, part: ChangePart, write: Write) -> DataFrame:
    """Return the matched rows without the columns of the target that no rule uses. Spark then does not read them."""
    kept = {column.name.lower() for column in write.partition_columns}
    for rule in part.rules:
        if rule.by_name:
            kept |= {name.lower() for name in write.bucket_columns}
            given = _given_fields(matched) if rule.fills else {}
            kept |= {column.name.lower() for column in write.columns if rule.fills and column.name.lower() not in given}
        elif rule.action == "update":
            assigned = {name.lower() for name in rule.columns or ()}
            kept |= {column.name.lower() for column in write.columns} - assigned
    names = {column.name.lower() for column in write.columns} - kept
    return matched.select(*(quoted(name) for name in matched.columns if name.lower() not in names))


def broadcast_unless_large(source: DataFrame) -> DataFrame:
    """Return the stored source of a MERGE, marked for a broadcast join unless it is large.

    A broadcast join needs no shuffle of the target. The limit is higher than Spark's own limit, because Spark only
    estimates the size of the source, but the stored rows were counted.
    """
    # As one text, because a sum of many columns is an expression so deep that the stack of the JVM can overflow.
    width = "length(CAST(struct(*) AS STRING))"
    # One job, which also computes the stored rows.
    counted = source.selectExpr("count(*)", f"avg(IF({SOURCE_ROW} % {_SAMPLED} = 0, {width}, NULL))")
    rows, width = counted.collect()[0]
    is_small = rows * ((width or 0) + _ROW_OVERHEAD) <= _MOST_BROADCAST_BYTES
    return F.broadcast(source) if is_small else source


def _updated(rows: DataFrame, number: int, rule: ChangeRule, write: Write, added: Sequence[str]) -> list[str]:
    """Return Spark SQL for each column of an updated row: first the data columns, then the partition columns.

    The columns ``added`` do not exist in the target yet. Each of them is NULL unless the rule assigns a value to it.
    """
    columns = (*write.columns, *write.partition_columns)
    own = {column.name.lower(): "NULL" if column.name.lower() in added else quoted(column.name) for column in columns}
    if rule.by_name:
        source = _source_fields(rows, rule, write)
        fixed = {column.name.lower() for column in write.partition_columns} | {
            name.lower() for name in write.bucket_columns
        }
        assigned = {
            column.name.lower(): _unchanged(column, source[column.name.lower()], write)
            if column.name.lower() in fixed
            else source[column.name.lower()]
            for column in columns
            if column.name.lower() in source
        }
        return list((own | assigned).values())
    by_name = {column.name.lower(): column for column in columns}
    values = {
        name.lower(): default_of(by_name[name.lower()], write)
        if i in rule.defaults
        else quoted(assigned_name(number, i))
        for i, name in enumerate(rule.columns or ())
    }
    return list((own | values).values())


def _unchanged(column: Column, value: str, write: Write) -> str:
    own = quoted(column.name)
    message = f"MERGE into {write.table}: SET * would change column {column.name}, which decides where a row is stored"
    return f"IF({own} <=> {value}, {own}, raise_error({text_literal(message)}))"


def _inserted(rows: DataFrame, number: int, rule: ChangeRule, write: Write) -> list[str]:
    """Return Spark SQL for all columns of a new row, with default values for columns that are not given."""
    columns = (*write.columns, *write.partition_columns)
    if rule.by_name:
        source = _source_fields(rows, rule, write)
        return [source.get(column.name.lower()) or default_of(column, write) for column in columns]
    names = rule.columns if rule.columns is not None else tuple(column.name for column in columns)
    values = {name.lower(): quoted(assigned_name(number, i)) for i, name in enumerate(names) if i not in rule.defaults}
    return [values.get(column.name.lower()) or default_of(column, write) for column in columns]


def _given_fields(rows: DataFrame) -> dict[str, str]:
    """Return a dict from the lower-case name of each column to the name as ``rows`` spells it."""
    return {item.name.lower(): item.name for item in rows.schema[SOURCE_STRUCT].dataType.fields}  # type: ignore[attr-defined]


def _source_fields(rows: DataFrame, rule: ChangeRule, write: Write) -> dict[str, str]:
    """Return a dict from the lower-case name of each column of a MERGE's source to Spark SQL for the column's value.

    Raises:
        NoSuchColumnError: the source lacks a column of the target.
    """
    given = _given_fields(rows)
    for column in (*write.columns, *write.partition_columns):
        if column.name.lower() not in given and not rule.fills:
            has = [name for key, name in given.items() if key != SOURCE_ROW]
            raise NoSuchColumnError("the source of the MERGE", column.name, has)
    return {key: f"{quoted(SOURCE_STRUCT)}.{quoted(name)}" for key, name in given.items()}


def _written(events: DataFrame, write: Write, kept: Kept, save: Save | None) -> tuple[WrittenDirectory, ...]:
    keys = [column.name for column in write.partition_columns]
    parted_by = [_KIND, _WRITER, *keys]
    sorted_by = sort_order(write) if write.num_buckets > 0 else []
    order: list[Expression | str] = [*map(quoted, parted_by), *sorted_by, *map(quoted, _KEYS)]
    staging = Staging(write, save)
    made = NewDirectories(write)
    try:
        staging.write(
            spread(events, _WRITER), parted_by, lambda rows: _numbered(rows.sortWithinPartitions(*order), write)
        )
        kept.check()
        for file in staging.files(parted_by):
            kind, writer, *texts = file.values
            deletes = int(kind) == _DELETED
            partition, values = layout.partition_of(
                write, {key.lower(): text for key, text in zip(keys, texts, strict=True)}
            )
            target = made.directory(partition, values, deletes=deletes)
            size_bytes = staging.publish(file, target / layout.bucket_file_name(int(writer)))
            made.count(partition, file.rows, size_bytes, deletes=deletes)
    except BaseException:
        made.discard()
        raise
    finally:
        staging.remove()
    return made.written


def _numbered(rows: DataFrame, write: Write) -> DataFrame:
    """Return the events with the metadata columns of ACID files, such as the row id.

    The caller must not shuffle or sort the result, because files need the order of the row ids.
    """
    is_delete = f"{_KIND} = {_DELETED}"
    bucket = f"{encode_bucket(0, write.statement_id)} | shiftleft({_WRITER}, {WRITER_SHIFT})"
    write_id = layout.number_of_statement(write.write_id)
    columns = [quoted(column.name) for column in (*write.columns, *write.partition_columns)]
    return rows.selectExpr(
        f"IF({is_delete}, {layout.DELETE_OPERATION}, {layout.INSERT_OPERATION}) AS {OPERATION}",
        f"IF({is_delete}, {ORIGINAL_WRITE_ID}, {write_id}) AS {ORIGINAL_WRITE_ID}",
        f"IF({is_delete}, {BUCKET}, {bucket}) AS {BUCKET}",
        f"IF({is_delete}, {ROW_ID}, monotonically_increasing_id() & {ROW_ID_MASK}L) AS {ROW_ID}",
        f"{write_id} AS {WRITE_ID}",
        # In Hive, a delete event has no row.
        *((f"IF({is_delete}, NULL, true) AS {layout.ROW_PLACE}",) if write.layout == layout.HIVE else ()),
        *columns,
        _KIND,
        _WRITER,
    )


# The distribution of small numbers over tasks: each number has a separate task while there are enough tasks. Spark
# shuffles by a hash. The hashes of 0 and 1 have the same remainder modulo 4, so two writers would share one of four
# tasks. Source: Spark's Murmur3Hash with seed 42, as its HashPartitioning uses it.


_SHUFFLED = "spark.sql.shuffle.partitions"
_SEED = 42
_WORD = 0xFFFFFFFF


def spread(rows: DataFrame, number: str) -> DataFrame:
    """Return the rows, shuffled so that each value of ``number`` has its own task if there are enough tasks.

    ``number`` is a Spark SQL expression for a whole number from 0. Spark can merge small tasks.
    """
    tasks = int(str(rows.sparkSession.conf.get(_SHUFFLED)))
    keys = ", ".join(map(str, keys_of_tasks(tasks)))
    return rows.repartition(F.expr(f"array({keys})[{number} % {tasks}]"))


@lru_cache(maxsize=64)
def keys_of_tasks(tasks: int) -> tuple[int, ...]:
    """Return one INT for each task. Spark's hash partitioning sends a row with the INT of a task to this task."""
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(_signed(_hash(key)) % tasks, key)
        if len(found) == tasks:
            break
    return tuple(found[task] for task in range(tasks))


def _hash(value: int) -> int:
    mixed = _rotate(value * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return hashed ^ hashed >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
