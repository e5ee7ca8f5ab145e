"""Statements that create, change and drop tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column, Skew, SortColumn
from airflow_hivex.core.parser.statements.base import (
    Folder,
    Named,
    ObjectKind,
    OptionalQueryStatement,
    Role,
    Statement,
    Uses,
    table_uses,
)
from airflow_hivex.core.parser.statements.queries import Query

FILE_FORMAT = (
    "USING <format format_path> & STORED AS {INPUTFORMAT <input_format> OUTPUTFORMAT <output_format> | <stored_as>} "
    "& ROW FORMAT {SERDE <serde_library serde_class> [WITH SERDEPROPERTIES <serde_properties properties>] "
    "| DELIMITED !delimited [FIELDS TERMINATED BY <field_delim separator> [ESCAPED BY <escape character>] "
    "& COLLECTION ITEMS TERMINATED BY <collection_delim separator> & MAP KEYS TERMINATED BY <mapkey_delim separator> "
    "& LINES TERMINATED BY <line_delim line_end> & NULL DEFINED AS <null_format text_of_null>]}"
)
"""The clauses that name the format of files, in Spark's and in Hive's form."""
_TABLE = "TABLE [IF NOT EXISTS !if_not_exists] <table new_table>"
_CLAUSES = (
    f"[{FILE_FORMAT} & OPTIONS <options properties> & PARTITIONED BY <partition_keys> "
    "& CLUSTERED BY <bucket_columns column_names> [SORTED BY '(' <sort_columns> ')'] "
    "INTO <num_buckets buckets> BUCKETS & SKEWED BY <skew> & LOCATION <location> & COMMENT <comment> "
    "& TBLPROPERTIES <properties>]"
)
_DEFINITION = f"{_TABLE} [<columns table_columns>] {_CLAUSES} [[AS] <query query_of_table>]"
_LIKE = f"{_TABLE} LIKE <source table> [{FILE_FORMAT} & LOCATION <location> & TBLPROPERTIES <properties>]"
_CREATE = "CREATE [OR REPLACE] [EXTERNAL | TRANSACTIONAL]"


@dataclass(frozen=True, slots=True)
class CreateTable(OptionalQueryStatement):
    """A new table, which can get the rows of a query.

    ``format`` is the word after USING or STORED AS in lower case, or None without such a clause. A partition key with
    an empty type is the name of a column in ``columns`` or in the query, as in Spark's PARTITIONED BY (a, b).
    ``input_format``, ``output_format`` and ``serde_library`` are classes of Hive, if the statement names them. With
    ``or_replace`` the table replaces an existing table of the same name. With ``must_exist`` (REPLACE TABLE) a table of
    the same name must exist. A ``temporary`` table belongs to the session.
    """

    KIND = "CREATE TABLE"
    SYNTAX = (
        "{CREATE [OR REPLACE] [EXTERNAL | TRANSACTIONAL !transactional] | CREATE {TEMPORARY | TEMP} !temporary "
        f"[EXTERNAL] | REPLACE !must_exist}} {_DEFINITION}",
    )
    REFUSED = (
        (
            "CREATE OR REPLACE {TEMPORARY | TEMP} [EXTERNAL] TABLE",
            "a temporary table is not replaced; drop it by DROP TABLE first",
        ),
        (
            f"{_CREATE} {_TABLE} [<columns table_columns>] {_CLAUSES} STORED BY",
            "a table is stored AS a format, such as ORC, PARQUET or TEXTFILE",
        ),
        (
            f"{_CREATE} {_TABLE} [<columns table_columns>] {_CLAUSES} {{CLUSTER | WITH | DEFAULT}}",
            "{word} is not a clause of CREATE TABLE in this release",
        ),
        (
            f"{_CREATE} {_TABLE} {{CLONE | DEEP | SHALLOW}}",
            "CREATE TABLE ... {word} is not supported; CREATE TABLE ... AS SELECT copies rows, and CREATE LINK shows a "
            "table in another database",
        ),
    )
    IN_TRANSACTIONS = False

    table: TableName
    columns: tuple[Column, ...] = ()
    partition_keys: tuple[Column, ...] = ()
    external: bool = False
    if_not_exists: bool = False
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    location: Annotated[str | None, Folder()] = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[SortColumn, ...] = ()
    num_buckets: int = -1
    skew: Skew | None = None
    query: Query | None = None
    input_format: str | None = None
    output_format: str | None = None
    serde_library: str | None = None
    or_replace: bool = False
    must_exist: bool = False
    constraints: Annotated[Constraints, Named(Role.DESCRIBE)] = field(default_factory=Constraints)
    temporary: bool = False

    @property
    def kind(self) -> str:
        """Return CREATE TABLE or REPLACE TABLE, followed by AS SELECT if the statement has a query."""
        if self.temporary:
            return "CREATE TEMPORARY TABLE" if self.query is None else "CREATE TEMPORARY TABLE AS SELECT"
        name = "REPLACE TABLE" if self.must_exist else "CREATE OR REPLACE TABLE" if self.or_replace else self.KIND
        return name if self.query is None else f"{name} AS SELECT"

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the table with the role CREATE and, if the statement replaces a table, the role DROP."""
        return ((self.table, (Role.CREATE, Role.DROP) if self.or_replace else (Role.CREATE,)),)


@dataclass(frozen=True, slots=True)
class CreateTableLike(Statement):
    """A new table with the columns of another table.

    ``new`` has the name and the clauses of the statement, but no columns.
    """

    KIND = "CREATE TABLE LIKE"
    SYNTAX = (
        "CREATE {[EXTERNAL !external | TRANSACTIONAL !transactional] | {TEMPORARY | TEMP} !temporary "
        f"[EXTERNAL !external]}} {_LIKE}",
    )
    REFUSED = (
        (
            f"CREATE OR REPLACE [EXTERNAL | TRANSACTIONAL] {_TABLE} LIKE",
            "CREATE TABLE ... LIKE does not replace a table; list the columns",
        ),
        (f"{_CREATE} {_TABLE} LIKE FILE <source format_name>", "columns are not taken from a file; list them"),
        (
            f"CREATE [EXTERNAL | TRANSACTIONAL | TEMPORARY | TEMP] {_LIKE} "
            "{OPTIONS | PARTITIONED | CLUSTERED | SKEWED | COMMENT}",
            "CREATE TABLE ... LIKE takes what {word} says from its source; leave it out",
        ),
    )
    IN_TRANSACTIONS = False

    new: CreateTable
    source: TableName

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the location of the new table, if one is given."""
        return self.new.folders

    @property
    def uses(self) -> Uses:
        """Return the new table, and the table that gives the columns."""
        return (*self.new.uses, *table_uses(self.source, Role.DESCRIBE))


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """A drop of a table and, with CASCADE, of the links to the table."""

    KIND = "DROP TABLE"
    SYNTAX = ("DROP TABLE [IF EXISTS] <table> [PURGE] [RESTRICT | CASCADE]",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.DROP)]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable(Statement):
    """A change of the name of a table or view."""

    KIND = "ALTER TABLE RENAME"
    SYNTAX = ("ALTER {TABLE | VIEW} <table> RENAME TO <name table>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    name: Annotated[TableName, Named(Role.CREATE)]


@dataclass(frozen=True, slots=True)
class SetTableProperties(Statement):
    """A change of the properties of a table or view."""

    KIND = "ALTER TABLE SET TBLPROPERTIES"
    SYNTAX = (
        "ALTER {TABLE | VIEW} <table> SET TBLPROPERTIES <set properties>",
        "ALTER {TABLE | VIEW} <table> UNSET TBLPROPERTIES [IF EXISTS] <unset keys>",
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CommentOn(Statement):
    """A change of the comment of a database, a table, a view or a column."""

    KIND = "COMMENT ON"
    SYNTAX = (
        "COMMENT ON {DATABASE | SCHEMA | NAMESPACE} <database> IS <comment nullable_comment>",
        "COMMENT ON {TABLE | VIEW} <table> IS <comment nullable_comment>",
        "COMMENT ON COLUMN <column column_of_table> IS <comment nullable_comment>",
    )
    IN_TRANSACTIONS = False

    comment: str | None
    database: Annotated[str | None, Named(Role.ALTER, ObjectKind.DATABASE)] = None
    table: Annotated[TableName | None, Named(Role.ALTER)] = None
    column: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CommentOn:
        """Return the statement. The name of a column includes the name of its table."""
        if "column" not in values:
            return cls(**values)
        table, column = values["column"]
        return cls(values["comment"], table=table, column=column)


@dataclass(frozen=True, slots=True)
class SetLocation(Statement):
    """A change of the folder of an external table, or of one of its partitions."""

    KIND = "ALTER TABLE SET LOCATION"
    SYNTAX = ("ALTER TABLE <table> [PARTITION <partition>] SET LOCATION <location>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    location: Annotated[str, Folder()]
    partition: Mapping[str, Literal] | None = None


@dataclass(frozen=True, slots=True)
class SetFormat(Statement):
    """A change of an external table's file format.

    ``serde_library``, ``input_format`` and ``output_format`` are classes of Hive, if the statement names them.
    """

    KIND = "ALTER TABLE SET FILEFORMAT"
    SYNTAX = (
        "ALTER TABLE <table> SET FILEFORMAT <format format_name>",
        "ALTER TABLE <table> SET FILEFORMAT INPUTFORMAT <input_format> OUTPUTFORMAT <output_format> "
        "[SERDE <serde_library serde_class> [WITH SERDEPROPERTIES <serde_properties properties>]]",
        "ALTER TABLE <table> SET SERDE <serde_library serde_class> "
        "[WITH SERDEPROPERTIES <serde_properties properties>]",
    )
    REFUSED = (
        (
            "ALTER TABLE <table> PARTITION <partition> {SET FILEFORMAT | SET SERDE | SET SERDEPROPERTIES "
            "| UNSET SERDEPROPERTIES}",
            "all partitions of a table are read in one format; ALTER TABLE without PARTITION changes that of an "
            "external table",
        ),
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    serde_library: str | None = None
    input_format: str | None = None
    output_format: str | None = None


@dataclass(frozen=True, slots=True)
class SetSerdeProperties(Statement):
    """A change of an external table's SerDe properties."""

    KIND = "ALTER TABLE SET SERDEPROPERTIES"
    SYNTAX = (
        "ALTER TABLE <table> SET SERDEPROPERTIES <set properties>",
        "ALTER TABLE <table> UNSET SERDEPROPERTIES [IF EXISTS] <unset keys>",
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False
