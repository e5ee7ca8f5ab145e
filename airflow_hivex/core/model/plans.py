"""The plan of a job and its result. Each is one JSON document, the same for every runner.

A plan is self-contained: a runner can run it without the metastore. Locations are full URIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.objects import Column, SortColumn

VERSION = 1
PRELUDE = "hivex.prelude"


@dataclass(frozen=True, slots=True)
class WriteIdFilter:
    """The visible write ids of a scan: up to ``high_watermark``, without ``exceptions``."""

    high_watermark: int
    exceptions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginalFiles:
    """Files without metadata columns whose rows get their row ids in one sequence for each bucket.

    ``place`` is the URI of the partition's directory. ``files`` are pairs of a name below ``place`` and a number of
    rows. With ``folder`` the job itself lists the files of this folder below ``place``: in Hive, LOAD DATA moves such
    files into a delta.
    """

    place: str
    write_id: int = 0
    statement_id: int = 0
    files: tuple[tuple[str, int], ...] = ()
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class ScanPart:
    """Directories that are read together. All files have the row ``layout`` (None for a table without transactions).

    Partition values are in ``paths`` below ``base_path``, unless ``values`` has them. With ``values`` all directories
    belong to one partition, whose place does not follow from its values (ADD PARTITION ... LOCATION). ``files`` is the
    number of files that the directories must have, or None if it is not known. The number is a minimum if some
    directories are ``growing``. These are deltas of streaming batches, which may have got more files since. The layout
    ``original`` is for files without metadata columns whose rows need ids; ``originals`` has these files.
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

    All ``parts`` together have the rows; an empty table has no part. ``base_path`` is the table's location. The
    directories of a transactional table are Hive's bases and deltas. Parts may have different layouts, since
    directories keep the layout in which they were written. ``filter`` is set only if a directory has write ids that the
    snapshot must not see. ``deletes`` are the delete delta directories, whose rows name deleted rows of all parts. With
    ``row_ids`` the metadata columns come first; ``row_id`` is the name of an additional last column with Hive's
    ROW__ID. Row ids with write ids up to ``partition_row_ids`` are unique only in their partition.
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


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """Files of LOAD DATA, which the query reads under the name ``view``; ``paths`` are their URIs.

    ``columns`` are the columns of the target, in its order. ``options`` are the options of a reader of the format.
    """

    view: str
    format: str
    paths: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A CHECK of a table: its name, its condition in Spark SQL, and the columns that it reads, in lower case."""

    name: str
    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """The target of the plan's query: one base or delta directory per partition.

    The query returns ``columns`` by position, then the dynamic partition columns; ``static`` has the text values of the
    static partition columns (None for NULL). With ``by_name`` the query's columns match columns of the same names. With
    ``overwrite`` the directory is ``base_W``, otherwise ``delta_W_W_S``. ``format`` and ``options`` describe the files;
    the format is ``orc`` in all layouts except ``plain``. ``input_columns`` are the columns that the column list of an
    INSERT names. ``defaults`` are values in Spark SQL for columns that are not given, ``not_null`` are columns that are
    never NULL; both have names in lower case. ``batch`` is the lowest and the highest write id of a streaming batch,
    whose transactions share a delta. ``compacted`` is set for a compaction: the lowest and the highest write id that
    the compaction covers, and its transaction. With ``is_external`` other programs read the files, so all values are
    stored in the form that these programs expect. ``condition`` must be true for all inserted rows. ``texts`` are the
    positions of the query's columns that are constant texts. Each of these texts is cast to its column's type. With
    ``casts`` all values are cast in this way, and invalid values become NULL, as with Spark's store assignment policy
    LEGACY.
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
        """Return the suffix that identifies the transaction's files in the delta of its streaming batch."""
        return "" if self.batch is None else f"_{self.write_id - self.batch[0]}"


CLAUSE = "__clause"
"""The column of a :class:`ChangePart` with the number of the clause that applies to a row, or NULL if none applies."""
SOURCE_ROW = "__source_row"
"""The column that identifies the rows of a MERGE's source."""
SOURCE_STRUCT = "__source"
"""The column of a :class:`ChangePart` with the source's row as a struct, if a clause takes columns by name."""


def assigned_name(clause: int, value: int) -> str:
    """Return the name of the column, in the query of a :class:`ChangePart`, that has an assigned value.

    ``clause`` is the number of the clause, and ``value`` is the number of the value in it. Both count from 0.
    """
    return f"__assigned_{clause}_{value}"


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """The action of a clause of an UPDATE, DELETE or MERGE on a row; ``columns`` are the assigned columns.

    ``values`` is the number of values of an INSERT without a list of columns. With ``by_name`` each column gets the
    value of the source's column of the same name. With ``fills``, too, the source may lack columns. These columns stay
    unchanged in an updated row, and get their default values in a new row. ``defaults`` are the positions of values
    that are DEFAULT, ``texts`` of values that are constant texts or NULL.
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
    """A query of rows, and the rules for these rows. The query's column ``__clause`` has the number of a row's rule."""

    sql: str
    rules: tuple[ChangeRule, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """An UPDATE, DELETE or MERGE. ``matched`` reads the target's view, with row ids.

    A MERGE's ``source`` is stored as view ``source_view``, which ``matched`` reads, too. ``unmatched`` reads
    ``source_rest_view``, the rows of the source without a match. If there is no source, ``unmatched`` returns only the
    inserted rows. ``unmatched_by_source`` reads ``target_rest_view``, the rows of ``target_view`` without a match.
    ``added`` are written columns that ``target_view`` does not have yet.
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
        """Return all texts in Spark SQL."""
        parts = (self.matched, self.unmatched, self.unmatched_by_source)
        return (*(part.sql for part in parts if part is not None), self.source or "")


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """A list of VALUES. Each value is cast separately to the type of its column.

    ``cells`` are the values in Spark SQL, row by row. ``types`` are Spark's types of those values that are constants,
    and None for other values. ``names`` are the names of the columns, if an alias gives them.
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
    """The even distribution of rows over files by a compaction. With ``buckets`` None the number of files stays.

    ``order_by`` is the text after ORDER BY in Spark SQL. Without it the rows stay in the order of their ids. The new
    row ids begin with ``first_row_id``. This number ensures that no other row, in any version or partition, has the
    same id.
    """

    buckets: int | None = None
    order_by: str | None = None
    first_row_id: int = 0


@dataclass(frozen=True, slots=True)
class Compaction:
    """The compaction of a plan's only scan: its rows are written unchanged into one directory of a table or partition.

    The plan's ``write`` names the directory. With ``overwrite`` it is a base, without the rows that the scan's delete
    deltas name. Otherwise it is a delta, and a delete delta with the rows of the scan's delete deltas. With
    ``is_of_one_layout`` all files have the row layout of the new files, so the job may copy parts of files instead of
    rewriting all rows. ``rows`` and ``size_bytes`` are the registered sizes of the scan's directories. A ``rebalance``
    gives the rows of a base new ids.
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
    """Files that a job copies; ``bytes_per_second`` limits all tasks together. A different file is never replaced.

    The result has one row per file: its number, its outcome, its checksum, and the location and text of a problem.
    """

    files: tuple[PlannedCopy, ...]
    bytes_per_second: int | None = None


COPIED = "copied"
KEPT = "kept"
"""The outcome of a file that already had an equal copy."""
IN_THE_WAY = "in the way"
"""The outcome of a file that is not copied, because a different file has the URI of the copy already."""
WRONG_SIZE = "wrong size"
"""The outcome of a file whose size differs from its listing; the job makes no copy."""
FAILED = "failed"
"""The outcome of a file that could not be read or written."""


@dataclass(frozen=True, slots=True)
class PlannedRoot:
    """The root of a cluster's file system, which all processes of a job must see.

    ``path`` is the path of a local folder, or of a folder that each host mounts. ``marker`` is the root marker, which
    has the ``root_id``. Both are empty if the URI alone identifies the file system, or if the root has no marker yet.
    """

    cluster: str
    filesystem: str
    path: str = ""
    marker: str = ""
    root_id: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One job: scans, the Spark SQL over their views, and the target of its rows.

    A runner cancels the job by its ``tag``; Spark's UI shows its ``name``. Without ``write`` at most ``max_rows`` rows
    are returned (None: all). ``parameters`` bind the ``:name`` markers. With ``changes`` there is no ``sql``, and
    ``write`` is the target of the changes. With ``inserts`` there is neither ``sql`` nor ``write``; the inserts may
    read ``sources``. A ``compaction`` and ``copies`` have no ``sql``, either. ``scheduler_pool`` is the pool of the job
    in Spark's fair scheduler. ``loaded`` are files of LOAD DATA. With ``explain``, a form of EXPLAIN, the rows of the
    result are the texts of Spark's plans, and no query runs. A ``command`` is a Spark command about functions, whose
    rows are returned. ``values`` are the values of ``sql`` if it is a list of VALUES. ``roots`` are the roots of the
    clusters whose files the job reads or writes. ``prelude`` has the statements that declare the variables and
    temporary functions in the texts.
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
        """Return a key of the session that the job needs: its configuration and its prelude."""
        prelude = tuple((PRELUDE, each) for each in self.prelude)
        return (*sorted(self.spark_conf.items()), *prelude)

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the targets of all writes of the job."""
        return (*((self.write,) if self.write is not None else ()), *(insert.write for insert in self.inserts))


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A base, delta or delete delta directory that a job made.

    ``partition`` is the name of its partition, or None for a table without partitions. ``values`` are the values of the
    partition as texts, or None for NULL. ``row_layout`` is the layout of its files, or None for the table's layout.
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
    """The result of a job: columns and rows of a query, or the directories of a write.

    ``inserted`` has the directories of each of several INSERTs, in their order.
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
