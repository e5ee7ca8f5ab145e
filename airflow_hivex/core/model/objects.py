"""The objects of the catalog: databases, tables, partitions and the locations of their copies.

The fields follow Hive's Thrift structures, so that objects can be converted to these structures without loss. A
location belongs to a cluster (Source: docs/reference/clusters.md, "Storage").
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, NoReturn, Self, TypeVar

from airflow_hivex.core.model.column_types import ColumnType, parse_type
from airflow_hivex.core.model.file_properties import CHARSETS, TEXTFILE, file_options, text_format, text_properties

TRANSACTIONAL = "transactional"
TRANSACTIONAL_PROPERTIES = "transactional_properties"
INSERT_ONLY = "insert_only"
ROW_LAYOUT = "hivex.row.layout"
PARTITION_ROW_IDS = "hivex.partition.row.ids"
"""The property of an imported table that stores the last write id of the rows that Hive has written.

Row ids of Hive's writes are unique only within a partition, because Hive numbers rows from 0 in each partition.
"""
FLAT_LAYOUT = "flat"
HIVE_LAYOUT = "hive"
PLAIN_LAYOUT = "plain"
ORIGINAL_LAYOUT = "original"
"""The layout of files in a full ACID table that were written before the table was transactional."""
CLUSTER = "hivex.cluster"
TEMPORARY_DATABASE = "hivex_temporary"
"""The database that stores the temporary tables of all sessions, under unique names."""
TEMPORARY_NAMESPACE = "hivex.temporary.namespace"
"""The property with the namespace in which a temporary table was created, and to which its folders belong."""
TRANSLATED = "TRANSLATED_TO_EXTERNAL"
"""Hive 4's parameter of an external table that its creator declared as managed."""
MOVING_FOLDER = "hivex.folder.moving"
"""The parameter that stores where a rename moves a table's folder, until the rename is committed."""
INSERTED_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", TEXTFILE)
"""The formats of insert-only and external tables that INSERT can write."""
OTHER_ENGINE = "other"
"""The format of a table or view of another engine, such as Iceberg or Trino. Only its metadata is stored."""
_SIGNS_OF_ENGINES = ("table_type", "storage_handler", "spark.sql.sources.provider")
CHOOSING_OPTIONS = (
    "pathglobfilter",
    "modifiedbefore",
    "modifiedafter",
    "ignorecorruptfiles",
    "ignoremissingfiles",
    "recursivefilelookup",
)
"""Spark's options that choose the files of a folder to read."""
PATH_OPTIONS = ("path", "paths")
"""Spark's options that name the files to read or write."""
BUCKETING_VERSION = "bucketing_version"
DROPPED_COLUMNS = "hivex.columns.dropped"
"""The property that stores the names of dropped columns in files. No other column gets one of these names in files."""
EXTERNAL = "EXTERNAL"
PURGE = "external.table.purge"
"""Hive's parameter of an external table whose files DROP deletes."""


class TableType(enum.Enum):
    """Hive's table types. Links have other types: see :class:`~airflow_hivex.core.model.links.LinkType`."""

    MANAGED_TABLE = "MANAGED_TABLE"
    EXTERNAL_TABLE = "EXTERNAL_TABLE"
    VIRTUAL_VIEW = "VIRTUAL_VIEW"


class OwnerType(enum.Enum):
    """The kinds of owners. Source: Hive PrincipalType."""

    USER = "USER"
    ROLE = "ROLE"
    GROUP = "GROUP"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``type`` is the text of its type as the user wrote it, such as ``decimal(10,2)`` or ``array<int>``.

    ``stored_name`` is the column's name in files if this differs from ``name``, otherwise None. The two names differ if
    the column was renamed, or has the name of a dropped column.
    """

    name: str
    type: str
    comment: str | None = None
    stored_name: str | None = None

    @property
    def in_files(self) -> str:
        """Return the name of the column in files."""
        return self.stored_name or self.name

    @property
    def parsed_type(self) -> ColumnType:
        """Return the type of the column.

        Raises:
            InvalidTypeError: the text names no type.
        """
        return parse_type(self.type)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One column of a bucket's sort order."""

    name: str
    ascending: bool = True

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the column from a text ``column``, ``column ASC`` or ``column DESC`` of a command or task."""
        name, _, direction = text.strip().rpartition(" ")
        if name.strip() and direction.upper() in ("ASC", "DESC"):
            return cls(name.strip(), direction.upper() == "ASC")
        return cls(text.strip())


@dataclass(frozen=True, slots=True)
class ClusterStorageDescriptor:
    """One copy of a table or partition: a cluster, and the location of the copy, relative to the cluster's root.

    ``valid_write_ids`` is the text of the write id list with which a secondary was registered. It is None for a
    primary, and for a table that is not transactional.
    """

    cluster: str
    location: str
    valid_write_ids: str | None = None


@dataclass(frozen=True, slots=True)
class SerDe:
    """The classes of Hive that read and write rows. Source: Hive SerDeInfo.

    ``StorageDescriptor.serde_parameters`` has the parameters. Only clients of Hive run these classes.
    """

    library: str | None = None
    name: str | None = None
    description: str | None = None
    serializer_class: str | None = None
    deserializer_class: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Skew:
    """The values that very many rows of a table have. Source: Hive SkewedInfo.

    Each item of ``values`` has one text for each skewed column. ``locations`` is a dict from item to the folder of its
    rows (list bucketing).
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...] = ()
    locations: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "columns", "values", "locations")


@dataclass(frozen=True, slots=True)
class StorageDescriptor:
    """The storage of the data of a table or partition: its format and its clusters (docs/reference/clusters.md, M1).

    ``format`` is Spark's name of the data source, such as ``orc`` or ``csv``, and ``serde_parameters`` are the options
    of the data source. ``input_format`` and ``output_format`` are Hive's classes, or None if the creator of the table
    has not named them.
    """

    columns: tuple[Column, ...]
    primary: ClusterStorageDescriptor
    secondaries: tuple[ClusterStorageDescriptor, ...] = ()
    format: str = "orc"
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    num_buckets: int = -1
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[SortColumn, ...] = ()
    input_format: str | None = None
    output_format: str | None = None
    serde: SerDe = SerDe()
    parameters: Mapping[str, str] = field(default_factory=dict)
    compressed: bool = False
    skew: Skew | None = None
    stored_as_sub_directories: bool = False

    def __post_init__(self) -> None:
        freeze(self, "columns", "secondaries", "serde_parameters", "bucket_columns", "sort_columns", "parameters")

    def on(self, cluster: str) -> ClusterStorageDescriptor | None:
        """Return the copy on ``cluster``, or None if there is no copy."""
        if self.primary.cluster == cluster:
            return self.primary
        return next((copy for copy in self.secondaries if copy.cluster == cluster), None)


@dataclass(frozen=True, slots=True)
class Database:
    """A namespace. ``location`` is relative to a cluster's file system root."""

    name: str
    location: str = ""
    description: str | None = None
    owner: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    id: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "parameters")


@dataclass(frozen=True, slots=True)
class Table:
    """A table as a client sees it.

    ``location`` is the location on the client's cluster, or on the default cluster if the client names no cluster.
    ``storage`` has the locations on all clusters. A view has no location. ``view_original_text`` is the query of a view
    as its user wrote it, and ``view_expanded_text`` is the query with qualified names. If no time of creation is given,
    the table gets the current time. ``retention`` is Hive's number of days, and has no effect.
    """

    database: str
    name: str
    storage: StorageDescriptor
    partition_keys: tuple[Column, ...] = ()
    type: TableType = TableType.MANAGED_TABLE
    parameters: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    comment: str | None = None
    created_at: datetime | None = None
    location: str = ""
    id: int | None = None
    view_original_text: str | None = None
    view_expanded_text: str | None = None
    owner_type: OwnerType = OwnerType.USER
    last_accessed_at: datetime | None = None
    retention: int = 0

    def __post_init__(self) -> None:
        freeze(self, "partition_keys", "parameters")

    @property
    def full_name(self) -> str:
        """Return ``database.table``."""
        return f"{self.database}.{self.name}"

    @property
    def namespace(self) -> str:
        """Return the namespace to which the folders belong.

        A temporary table has the namespace in which it was created.
        """
        if self.database != TEMPORARY_DATABASE:
            return self.database
        return self.parameters.get(TEMPORARY_NAMESPACE, self.database)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns stored in the files, without partition keys."""
        return self.storage.columns

    @property
    def is_partitioned(self) -> bool:
        """Return whether the table has partition keys."""
        return bool(self.partition_keys)

    @property
    def is_transactional(self) -> bool:
        """Return whether write ids decide which rows are visible (full ACID or insert-only)."""
        return self.parameters.get(TRANSACTIONAL, "false").lower() == "true"

    @property
    def is_external(self) -> bool:
        """Return whether the table is external: other programs own its files."""
        return self.type is TableType.EXTERNAL_TABLE

    @property
    def is_managed_by_clients(self) -> bool:
        """Return whether clients of Hive see this external table as managed, because its creator has declared it so."""
        return self.is_external and self.parameters.get(TRANSLATED, "").upper() == "TRUE"

    @property
    def is_of_other_engine(self) -> bool:
        """Return whether only another engine can read the rows of the table, or the query of the view."""
        return self.storage.format == OTHER_ENGINE

    @property
    def not_read(self) -> str:
        """Return the reason why no statement can read the table, as the end of a sentence, or an empty text."""
        if not self.is_of_other_engine:
            return ""
        if self.is_view:
            return "its query is of another engine, which reads it"
        own = {key.lower(): value for key, value in self.parameters.items()}
        sign = next((f"{key} = {own[key]}" for key in _SIGNS_OF_ENGINES if key in own), None)
        sign = sign or f"SerDe {self.storage.serde.library}, input format {self.storage.input_format}"
        return f"its rows are those of another engine, which reads and writes them ({sign})"

    @property
    def not_written(self) -> str:
        """Return the reason why no transaction can write rows, as the end of a sentence, or an empty text."""
        if self.is_view:
            return "it is a view; write to the tables that it reads"
        if self.is_of_other_engine:
            return self.not_read
        if self.is_transactional:
            return ""
        return (
            "it is an external table, which INSERT, INSERT OVERWRITE and LOAD DATA write; ALTER TABLE ... SET "
            "TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true') makes it managed, and CREATE TABLE ... AS "
            "SELECT copies it"
        )

    @property
    def not_inserted(self) -> str:
        """Return the reason why INSERT cannot write to the table, as the end of a sentence, or an empty text."""
        if self.is_transactional or self.is_view:
            return self.not_written
        form = self.storage.format
        if self.is_of_other_engine:
            return self.not_read
        if form not in INSERTED_FORMATS:
            return f"files of format {form} are only read; those of {', '.join(INSERTED_FORMATS)} are written"
        choosing = next((key for key in self.storage.serde_parameters if key.lower() in CHOOSING_OPTIONS), None)
        if choosing is not None:
            return f"its option {choosing} may hide the new files; create the table without it"
        if form == TEXTFILE and (text := text_format(self.read_options)).skips_lines:
            return "lines of its files are skipped, and new files have no such lines"
        if form == TEXTFILE and text.encoding != CHARSETS[0]:
            return f"text files are written in {CHARSETS[0]} only"
        if self.storage.num_buckets > 0:
            return f"its files are in {self.storage.num_buckets} buckets of another program"
        return ""

    @property
    def is_view(self) -> bool:
        """Return whether the table is a view: a query under a name, without data of its own."""
        return self.type is TableType.VIRTUAL_VIEW

    @property
    def is_insert_only(self) -> bool:
        """Return whether rows can be inserted and overwritten, but not updated, because they have no row ids."""
        return self.is_transactional and self.parameters.get(TRANSACTIONAL_PROPERTIES, "").lower() == INSERT_ONLY

    @property
    def row_layout(self) -> str:
        """Return the row layout of new files of a transactional table; ``plain`` has only the table's columns."""
        return PLAIN_LAYOUT if self.is_insert_only else self.parameters.get(ROW_LAYOUT, FLAT_LAYOUT).lower()

    @property
    def partition_row_ids(self) -> int:
        """Return the last write id whose row ids are unique only in a partition, or 0 if there is no such write id."""
        return int(self.parameters.get(PARTITION_ROW_IDS, "0"))

    @property
    def read_options(self) -> Mapping[str, str]:
        """Return the options for reading the table's files.

        As in Hive, a property of the table overrides a property of its SerDe. Options that name a folder are left out.
        """
        parameters = self.storage.serde_parameters
        options = {name: value for name, value in parameters.items() if name.lower() not in PATH_OPTIONS}
        if self.storage.format != TEXTFILE:
            return options
        return {**options, **text_properties(self.parameters)}

    @property
    def file_options(self) -> dict[str, str]:
        """Return the options for writing the table's files.

        These are options of the data source, and properties such as ``orc.compress``.
        """
        return file_options(self.storage.format, self.parameters, self.read_options)

    def with_location(self, location: str) -> Self:
        """Return the table, with ``location`` as its location."""
        return replace(self, location=location)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable(Table):
    """A table as stored in the catalog.

    ``version`` rises with each change of the table, its partitions, directories or copies that has no write id.
    """

    id: int
    version: int = 0

    @classmethod
    def of(cls, table: Table, id: int) -> Self:
        """Return the stored form of a table that was stored with the id ``id``."""
        given = {each.name: getattr(table, each.name) for each in fields(Table) if each.name != "id"}
        return cls(**given, id=id)

    @property
    def definition(self) -> Table:
        """Return the table without its id and version."""
        return Table(**{each.name: getattr(self, each.name) for each in fields(Table) if each.name != "id"})


def row_key(row_id: Sequence[str], partition_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify a row of a table: the partition columns and the columns of the ROW__ID.

    The ROW__ID of a row from an original file or from Hive is unique only within a partition.

    Source: docs/architecture.md, "Decisions".
    """
    return (*partition_columns, *row_id)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a table, with the text of the value of each partition key.

    ``location`` is relative to the root of each cluster that has the partition. The primary cluster of the partition is
    the primary cluster of the table. ``secondaries`` are the secondary copies of the partition. ``storage`` is the
    partition's own storage descriptor, or None if the partition uses the storage descriptor of its table.
    """

    database: str
    table: str
    values: tuple[str, ...]
    name: str
    location: str
    secondaries: tuple[ClusterStorageDescriptor, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    id: int | None = None
    storage: StorageDescriptor | None = None
    last_accessed_at: datetime | None = None

    def __post_init__(self) -> None:
        freeze(self, "values", "secondaries", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition(Partition):
    """A partition as stored in the catalog."""

    id: int

    @property
    def definition(self) -> Partition:
        """Return the partition without its id."""
        return Partition(**{each.name: getattr(self, each.name) for each in fields(Partition) if each.name != "id"})


K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that refuses each change. ``{**frozen, key: value}`` and ``frozen.copy()`` return a normal dict.

    A FrozenDict is written as JSON and pickled like a dict.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "The parameters of an object of the catalog cannot be changed; make another object with "
            "dataclasses.replace(table, parameters={**table.parameters, key: value}) and give it to alter_table()"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict[K, V]:
        return self


_EMPTY: FrozenDict[Any, Any] = FrozenDict()


def frozen(values: Mapping[K, V]) -> Mapping[K, V]:
    """Return a copy of ``values`` that cannot be changed."""
    if isinstance(values, FrozenDict):
        return values
    return FrozenDict(values) if values else _EMPTY


def freeze(owner: Any, *names: str) -> None:
    """Replace mappings and lists in the named fields of a dataclass by unchangeable copies, in ``__post_init__``."""
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, list):
            object.__setattr__(owner, name, tuple(value))
        elif value.__class__ is not FrozenDict and isinstance(value, Mapping):
            object.__setattr__(owner, name, frozen(value))
