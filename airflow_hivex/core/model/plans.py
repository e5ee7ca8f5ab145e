"""The plan of a job, and the result of a job. All runners use the same JSON documents for them.

A runner can run a plan without the metastore. Locations are full URIs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.objects import Column, SortColumn

VERSION = 1
PRELUDE = "hivex.prelude"


@dataclass(frozen=True, slots=True)
class WriteIdFilter:
    """The visible write ids of a scan: all ids up to ``high_watermark``, without the ids in ``exceptions``."""

    high_watermark: int
    exceptions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginalFiles:
    """Files without metadata columns. The rows of each bucket get consecutive row ids.

    ``place`` is the URI of the partition's directory. ``files`` are pairs of a name below ``place`` and a number of
    rows. If ``folder`` is not None, the job lists the files of this folder below ``place``. Such a folder is a delta
    into which Hive's LOAD DATA has moved files.
    """

    place: str
    write_id: int = 0
    statement_id: int = 0
    files: tuple[tuple[str, int], ...] = ()
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class ScanPart:
    """Directories that are read together. All files have the row ``layout``; None means a table without transactions.

    If ``values`` is None, the names of directories in ``paths``, below ``base_path``, contain the partition values.
    Otherwise all directories belong to the partition with the values ``values``, whose location does not contain them
    (ADD PARTITION ... LOCATION). ``files`` is the number of files that the directories must have, or None if the number
    is not known. If ``growing`` is true, ``files`` is the least number, because a delta of a streaming batch can get
    more files at any time. The layout ``original`` means files without metadata columns whose rows need row ids. These
    files are in ``originals``.
    """

    paths: tuple[str, ...]
    base_path: str
    layout: str | None = None
    values: tuple[str | None, ...] | None = None
    files: int | None = None
    growing: bool = False
    originals: tuple[OriginalFiles, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """One table of the query, which the job reads and registers under the name ``view``.

    The rows are those of all ``parts``; an empty table has no part. Parts can have different layouts. ``base_path`` is
    the table's location. ``filter`` is set only if a directory has write ids that the snapshot must not see.
    ``deletes`` are the delete delta directories, which name the deleted rows of all parts. If ``row_ids`` is true, the
    result has the metadata columns before all others. If ``row_id`` is not None, the result has a last column of this
    name with Hive's ROW__ID. Row ids with write ids up to ``partition_row_ids`` are unique only within their partition.
    """

    view: str
    table: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    format: str
    base_path: str
    parts: tuple[ScanPart, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    is_transactional: bool = False
    filter: WriteIdFilter | None = None
    deletes: tuple[ScanPart, ...] = ()
    row_ids: bool = False
    row_id: str | None = None
    partition_row_ids: int = 0


class ColumnNaming(enum.StrEnum):
    """The columns in which the rows of COPY INTO are read."""

    BY_POSITION = "position"
    """The columns of the target. The files have no names of columns."""
    BY_NAME = "name"
    """The columns of the files. A column has the type of the target's column of its name; other columns are texts."""
    INFERRED = "inferred"
    """As ``BY_NAME``, but Spark finds the types of columns that the target lacks."""


UNFIT_COLUMNS = ("file", "column_name", "reason", "record")
"""The columns of rows that do not fit: URI of the file, column or NULL, reason, and the text of the row."""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The files of LOAD DATA or COPY INTO. The query reads them under the name ``view``. ``paths`` are their URIs.

    ``columns`` are the columns of the target, in its order. ``options`` are the options of Spark's reader. ``naming``
    is set for COPY INTO. A row that its format or a column's type does not allow is an error or, if ``splits`` is true,
    a row of ``unfit_view`` with the columns :data:`UNFIT_COLUMNS`.
    """

    view: str
    format: str
    paths: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    naming: ColumnNaming | None = None
    splits: bool = False

    @property
    def unfit_view(self) -> str:
        """Return the name of the view with the rows that do not fit."""
        return f"{self.view}_unfit"


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A CHECK of a table: its name, its condition in Spark SQL, and the columns in the condition, in lower case."""

    name: str
    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """The target of the plan's query: one base or delta directory for each partition with new rows.

    - ``static`` has the texts of the values of the static partition columns (None for NULL).
    - By default the query returns ``columns`` in their order, and then the dynamic partition columns. If ``by_name`` is
      true, each column of the query belongs to the column of the same name. ``input_columns`` are the columns that the
      column list of an INSERT names.
    - If ``overwrite`` is true, the directories are named ``base_W``, otherwise ``delta_W_W_S``.

    - ``format`` and ``options`` describe the files. The format is ``orc`` in all layouts except ``plain``.
    - ``defaults`` has values in Spark SQL for columns that are not given, and ``not_null`` the columns that are never
      NULL, by lower-case names. ``condition`` must be true for all inserted rows.
    - ``batch`` is the lowest and the highest write id of a streaming batch, whose transactions share a delta.

    - ``compacted`` is set for a compaction: the lowest and the highest write id that it covers, and its transaction.
    - If ``is_external`` is true, values are stored in the form that other programs expect, because they read the files.

    - ``texts`` are the positions of the query's columns that are constant texts. Each of these texts is cast to its
      column's type. If ``casts`` is true, all values are cast, and invalid values become NULL, as with Spark's store
      assignment policy LEGACY.
    """

    path: str
    table: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    write_id: int
    statement_id: int = 0
    overwrite: bool = False
    layout: str = "flat"
    format: str = "orc"
    options: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str | None] = field(default_factory=dict)
    input_columns: tuple[str, ...] = ()
    by_name: bool = False
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[SortColumn, ...] = ()
    num_buckets: int = -1
    batch: tuple[int, int] | None = None
    compacted: tuple[int, int, int] | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: tuple[str, ...] = ()
    checks: tuple[PlannedCheck, ...] = ()
    is_external: bool = False
    condition: PlannedCheck | None = None
    texts: tuple[int, ...] = ()
    casts: bool = False

    @property
    def batch_suffix(self) -> str:
        """Return the suffix in the names of the transaction's files in the delta of its streaming batch."""
        return "" if self.batch is None else f"_{self.write_id - self.batch[0]}"


CLAUSE = "__clause"
"""The column of a :class:`ChangePart` with the number of the clause that applies to a row, or NULL for no clause."""
SOURCE_ROW = "__source_row"
"""The column with the number of a row of a MERGE's source."""
SOURCE_STRUCT = "__source"
"""The column of a :class:`ChangePart` with the source's row as a struct, if a clause assigns columns by name."""


def assigned_name(clause: int, value: int) -> str:
    """Return the name of the column, in the query of a :class:`ChangePart`, that has an assigned value.

    ``clause`` is the number of the clause, and ``value`` is the number of the value in it. Both count from 0.
    """
    return f"__assigned_{clause}_{value}"


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """The action of a clause of an UPDATE, DELETE or MERGE on a row. ``columns`` are the assigned columns.

    ``values`` is the number of values of an INSERT without a list of columns. If ``by_name`` is true, each column gets
    the value of the source's column of the same name. If ``fills`` is also true, the source is allowed to lack columns.
    These columns stay unchanged in an updated row, and get their default values in an inserted row. ``defaults`` are
    the positions of values that are DEFAULT, and ``texts`` those of values that are constant texts or NULL.
    """

    action: str
    columns: tuple[str, ...] | None = None
    values: int = 0
    by_name: bool = False
    defaults: tuple[int, ...] = ()
    fills: bool = False
    texts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangePart:
    """A query, and the rules for its rows. The column ``__clause`` of the query has the number of each row's rule."""

    sql: str
    rules: tuple[ChangeRule, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """An UPDATE, DELETE or MERGE. ``matched`` reads ``target_view``, the view of the target with row ids.

    In a MERGE, the rows of the query ``source`` are the view ``source_view``, which ``matched`` also reads.
    ``unmatched`` reads ``source_rest_view``, the rows of the source without a match. Without a ``source``,
    ``unmatched`` returns the inserted rows. ``unmatched_by_source`` reads ``target_rest_view``, the rows of the target
    without a match. ``added`` are written columns that ``target_view`` lacks.
    """

    operation: str
    matched: ChangePart
    target_view: str
    source: str | None = None
    source_view: str = ""
    source_rest_view: str = ""
    unmatched: ChangePart | None = None
    unmatched_by_source: ChangePart | None = None
    target_rest_view: str = ""
    added: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Return all texts of the changes in Spark SQL."""
        parts = (self.matched, self.unmatched, self.unmatched_by_source)
        return (*(part.sql for part in parts if part is not None), self.source or "")


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """A list of VALUES. Each value is cast separately to the type of its column.

    ``cells`` are the values in Spark SQL, row by row. ``types`` has Spark's type of each constant, and None for each
    other value. ``names`` are the names of the columns, if an alias gives them.
    """

    cells: tuple[tuple[str, ...], ...]
    types: tuple[tuple[str | None, ...], ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A query that is computed once. Several queries read its rows as ``view``."""

    view: str
    sql: str


@dataclass(frozen=True, slots=True)
class PlannedInsert:
    """One of several INSERTs of a job: its query, and its target."""

    sql: str
    write: Write


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The even distribution of rows over ``buckets`` files by a compaction. None keeps the number of files.

    ``order_by`` is the text after ORDER BY in Spark SQL, or None for the order of the current row ids. The rows get
    consecutive row ids from ``first_row_id``, which no other row of the table has, in any version or partition.
    """

    buckets: int | None = None
    order_by: str | None = None
    first_row_id: int = 0


@dataclass(frozen=True, slots=True)
class Compaction:
    """The compaction of a plan's only scan: its rows are written unchanged into one directory of a table or partition.

    The plan's ``write`` names the directory. If ``write.overwrite`` is true, the directory is a base without the
    deleted rows. Otherwise the compaction makes a delta, and merges the scan's delete deltas into one delete delta. If
    ``is_of_one_layout`` is true, all files have the row layout of ``write``, so the job can copy parts of files.
    ``rows`` and ``size_bytes`` are the registered sizes of the scan's directories. A ``rebalance`` gives different row
    ids to the rows of a base.
    """

    deletes: tuple[ScanPart, ...] = ()
    is_of_one_layout: bool = False
    rows: int = 0
    size_bytes: int = 0
    rebalance: Rebalance | None = None


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """A file that a job copies: its URI, the URI of its copy, its size in bytes, and the number of its task."""

    source: str
    target: str
    size_bytes: int
    task: int


@dataclass(frozen=True, slots=True)
class FileCopies:
    """Files that a job copies. ``bytes_per_second`` limits all tasks together. Existing files are never replaced.

    The result has one row for each file: number, outcome, checksum, and the location and text of a problem.
    """

    files: tuple[PlannedCopy, ...]
    bytes_per_second: int | None = None


COPIED = "copied"
KEPT = "kept"
"""The outcome of a file that already had an equal copy."""
IN_THE_WAY = "in the way"
"""The outcome of a file that is not copied, because a different file exists at the URI of the copy."""
WRONG_SIZE = "wrong size"
"""The outcome of a file that is not copied, because its size differs from the size in the plan."""
FAILED = "failed"
"""The outcome of a file that could not be read or written."""


@dataclass(frozen=True, slots=True)
class PlannedRoot:
    """The root of a cluster's file system, which all processes of a job must see.

    ``path`` is the path of a local folder, or of a folder that each host mounts. ``marker`` is the path of the marker
    file, whose content is ``root_id``. ``path`` and ``marker`` are empty if the URI alone identifies the file system,
    or if the root has no marker yet.
    """

    cluster: str
    filesystem: str
    path: str = ""
    marker: str = ""
    root_id: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One job: scans, the Spark SQL over their views, and the target of its rows.

    - A runner cancels the job by its ``tag``. Spark's UI shows its ``name``.
    - ``sql`` is a query; the job returns at most ``max_rows`` of its rows (None: all), or writes them to ``write``.
      ``parameters`` has values for the ``:name`` markers. ``values`` are the values of ``sql`` if it is a list of
      VALUES.
    - Instead of ``sql`` a plan can have ``changes`` with the target ``write``; ``inserts``, which can read ``sources``;
      a ``compaction``; ``copies``; or a ``command`` about functions, whose rows are returned.
    - ``explain`` is a mode of EXPLAIN. If it is set, no query runs, and the result has the texts of Spark's plans.

    - ``loaded`` are files of LOAD DATA.
    - ``scheduler_pool`` is the pool of the job in Spark's fair scheduler.

    - ``roots`` are the roots of the clusters whose files the job reads or writes.
    - ``prelude`` has the statements that declare the variables and temporary functions in the texts.
    """

    tag: str
    name: str
    sql: str
    scans: tuple[Scan, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    max_rows: int | None = None
    write: Write | None = None
    changes: Changes | None = None
    sources: tuple[Source, ...] = ()
    inserts: tuple[PlannedInsert, ...] = ()
    compaction: Compaction | None = None
    copies: FileCopies | None = None
    scheduler_pool: str = ""
    loaded: LoadedFiles | None = None
    explain: str | None = None
    command: str | None = None
    values: PlannedValues | None = None
    roots: tuple[PlannedRoot, ...] = ()
    prelude: tuple[str, ...] = field(default=(), repr=False)
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return all texts of the job in Spark SQL."""
        changes = () if self.changes is None else self.changes.texts
        sources, inserts = (each.sql for each in self.sources), (each.sql for each in self.inserts)
        return (self.sql, *changes, *sources, *inserts, self.command or "")

    @property
    def session_key(self) -> tuple[tuple[str, str], ...]:
        """Return the configuration and the prelude of the job. Jobs with an equal result can share a Spark session."""
        prelude = tuple((PRELUDE, each) for each in self.prelude)
        return (*sorted(self.spark_conf.items()), *prelude)

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the targets of all writes of the job."""
        return (*((self.write,) if self.write is not None else ()), *(insert.write for insert in self.inserts))


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A base, delta or delete delta directory that a job has written.

    ``partition`` is the name of the partition, or None for a table without partitions. ``values`` are the values of the
    partition as texts, with None for NULL. ``row_layout`` is the layout of the files, or None for the table's layout.
    """

    partition: str | None
    values: tuple[str | None, ...]
    name: str
    files: int
    rows: int
    size_bytes: int
    row_layout: str | None = None

    @property
    def is_delete_delta(self) -> bool:
        """Return whether the directory is a delete delta, whose rows name deleted rows."""
        return self.name.startswith("delete_delta_")


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job: the columns of a query, or the directories of a write.

    ``inserted`` has, for each of several INSERTs, the directories that it has written.
    """

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    truncated: bool = False
    directories: tuple[WrittenDirectory, ...] = ()
    inserted: tuple[tuple[WrittenDirectory, ...], ...] = ()

    @property
    def rows_written(self) -> int:
        """Return the number of rows in all base and delta directories."""
        return sum(directory.rows for directory in self.directories if not directory.is_delete_delta)

    @property
    def rows_deleted(self) -> int:
        """Return the number of rows in all delete delta directories."""
        return sum(directory.rows for directory in self.directories if directory.is_delete_delta)
