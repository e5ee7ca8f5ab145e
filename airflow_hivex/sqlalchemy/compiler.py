"""The compilers of the dialect: identifiers, queries and changes of rows, definitions, and types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.sql import compiler, schema
from sqlalchemy.sql.compiler import RESERVED_WORDS

from airflow_hivex.core.model.column_types import MAX_PRECISION, field_name
from airflow_hivex.core.model.texts import quoted_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.sql.elements import BinaryExpression

    from airflow_hivex.sqlalchemy.types import MAP, STRING, STRUCT, TINYINT

NOT_ENFORCED = " NOT ENFORCED"
"""The end of the text of a key, which is kept and shown, and not enforced."""

_SCALE = 18
# Keywords of Spark that are names only in backquotes, in addition to the list of SQLAlchemy.
_RESERVED_BY_SPARK = (
    "anti columns cross except full inner intersect join lateral left minus natural on partition right semi "
    "table tables using values with"
)


class HivexIdentifierPreparer(compiler.IdentifierPreparer):
    """The rules for names: they are in backquotes where Spark needs these."""

    reserved_words = RESERVED_WORDS | set(_RESERVED_BY_SPARK.split())

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`", **options)


class HivexCompiler(compiler.SQLCompiler):
    """Queries and changes of rows, as Spark reads them."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """Return LIMIT and OFFSET; each may stand alone."""
        text = ""
        if select._limit_clause is not None:  # noqa: SLF001 - the compilers of SQLAlchemy itself read it
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"  # noqa: SLF001
        return text

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """Return a value as a literal. In texts, Spark reads the backslash as the beginning of an escape."""
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        text = super().render_literal_value(value, type_)
        return text.replace("\\", "\\\\") if isinstance(value, str) else text

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return a query without rows."""
        columns = (
            "NULL"
            if isinstance(each, types.NullType)
            else f"CAST(NULL AS {self.dialect.type_compiler_instance.process(each)})"
            for each in element_types or [types.INTEGER()]
        )
        return f"SELECT {', '.join(columns)} WHERE 1 != 1"

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        """Return an empty right side of IN. Tuples have the types of the left side, which Spark compares."""
        if len(type_) > 1:
            return self.visit_empty_set_expr(type_, **kw)
        text: str = super().visit_empty_set_op_expr(type_, expand_op, **kw)  # type: ignore[no-untyped-call]
        return text

    def visit_now_func(self, fn: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return the current time."""
        return "current_timestamp()"

    def visit_random_func(self, fn: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return a random number from 0 to 1."""
        return "rand()"

    def visit_aggregate_strings_func(self, fn: Any, **kw: Any) -> str:
        """Return the concatenation of texts."""
        text: str = super().visit_aggregate_strings_func(fn, use_function_name="listagg", **kw)  # type: ignore[no-untyped-call]
        return text

    def visit_regexp_match_op_binary(self, binary: BinaryExpression[Any], operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return the condition that a text matches a regular expression of Java."""
        return f"{self.process(binary.left, **kw)} RLIKE {self._pattern(binary, **kw)}"

    def visit_not_regexp_match_op_binary(self, binary: BinaryExpression[Any], operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return the condition that a text does not match a regular expression of Java."""
        return f"{self.process(binary.left, **kw)} NOT RLIKE {self._pattern(binary, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: BinaryExpression[Any], operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return a text with the matches of a regular expression of Java replaced."""
        self._pattern(binary, **kw)
        return f"regexp_replace({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_getitem_binary(self, binary: BinaryExpression[Any], operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return the element of an array. SQLAlchemy counts from 1, as ``element_at`` does."""
        return f"element_at({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def _pattern(self, binary: BinaryExpression[Any], **kw: Any) -> str:
        if binary.modifiers.get("flags") is not None:
            raise exc.CompileError("A regular expression has no flags here; write (?i) at the beginning of its text.")
        return self.process(binary.right, **kw)


class HivexDdlCompiler(compiler.DDLCompiler):
    """Definitions of tables with the clauses of the warehouse. Keys are kept, and not enforced."""

    def post_create_table(self, table: schema.Table) -> str:
        """Return the clauses that follow the columns of a table, from its ``hivex_...`` options."""
        options: Mapping[str, Any] = table.dialect_options["hivex"]
        clauses = []
        if options["using"]:
            clauses.append(f"USING {options['using']}")
        if options["partitioned_by"]:
            clauses.append(f"PARTITIONED BY ({self._names(options['partitioned_by'])})")
        if options["clustered_by"]:
            names, buckets = options["clustered_by"]
            clauses.append(f"CLUSTERED BY ({self._names(names)}) INTO {int(buckets)} BUCKETS")
        if options["location"]:
            clauses.append(f"LOCATION {quoted_text(options['location'])}")
        if table.comment is not None:
            clauses.append(f"COMMENT {quoted_text(table.comment)}")
        if options["properties"]:
            pairs = (f"{quoted_text(key)} = {quoted_text(value)}" for key, value in options["properties"].items())
            clauses.append(f"TBLPROPERTIES ({', '.join(pairs)})")
        return "".join(f"\n{clause}" for clause in clauses)

    def get_column_specification(self, column: schema.Column[Any], **kwargs: Any) -> str:
        """Return a column of CREATE TABLE with its comment."""
        comment = "" if column.comment is None else f" COMMENT {quoted_text(column.comment)}"
        return super().get_column_specification(column, **kwargs) + comment

    def visit_primary_key_constraint(self, constraint: schema.PrimaryKeyConstraint, **kw: Any) -> str:
        """Return a primary key, which is not enforced."""
        return _not_enforced(super().visit_primary_key_constraint(constraint, **kw))

    def visit_unique_constraint(self, constraint: schema.UniqueConstraint, **kw: Any) -> str:
        """Return a unique key, which is not enforced."""
        return _not_enforced(super().visit_unique_constraint(constraint, **kw))

    def visit_foreign_key_constraint(self, constraint: schema.ForeignKeyConstraint, **kw: Any) -> str:
        """Return a foreign key, which is not enforced. Its ON DELETE and ON UPDATE are left out."""
        return _not_enforced(super().visit_foreign_key_constraint(constraint, **kw))

    def define_constraint_cascades(self, constraint: schema.ForeignKeyConstraint) -> str:  # noqa: ARG002
        """Return nothing, since a foreign key is not enforced."""
        return ""

    def define_constraint_deferrability(self, constraint: schema.Constraint) -> str:  # noqa: ARG002
        """Return nothing, since no constraint waits for the commit."""
        return ""

    def visit_create_index(self, create: Any, *places: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return an empty statement, which is not run, because tables have no indexes.

        ``DataFrame.to_sql`` and ``index=True`` of a column create an index, which changes no result.

        Raises:
            CompileError: the index is unique, and the warehouse would not enforce it.
        """
        if create.element.unique:
            raise exc.CompileError(
                f"Index {create.element.name} is unique, and tables have no indexes; a UniqueConstraint is kept and "
                "shown, and nothing enforces it."
            )
        return ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return an empty statement, which is not run."""
        return ""

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:  # noqa: ARG002
        """Return the statement that sets the comment of a table."""
        return f"COMMENT ON TABLE {self.preparer.format_table(create.element)} IS {quoted_text(create.element.comment)}"

    def _names(self, names: Iterable[str]) -> str:
        return ", ".join(self.preparer.quote(name) for name in names)


def _not_enforced(constraint: str) -> str:
    return constraint + NOT_ENFORCED if constraint else ""


class HivexTypeCompiler(compiler.GenericTypeCompiler):
    """The names of types in Hive and Spark."""

    def visit_INTEGER(self, type_: types.Integer, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return INT."""
        return "INT"

    def visit_TINYINT(self, type_: TINYINT, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return TINYINT."""
        return "TINYINT"

    def visit_FLOAT(self, type_: types.Float[Any], **kw: Any) -> str:  # noqa: ARG002, N802
        """Return FLOAT for a precision of at most 24 bits, or else DOUBLE, which is Python's float."""
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_REAL(self, type_: types.REAL[Any], **kw: Any) -> str:  # noqa: ARG002, N802
        """Return FLOAT."""
        return "FLOAT"

    def visit_DOUBLE_PRECISION(self, type_: types.DOUBLE_PRECISION[Any], **kw: Any) -> str:  # noqa: ARG002, N802
        """Return DOUBLE."""
        return "DOUBLE"

    def visit_NUMERIC(self, type_: types.Numeric[Any], **kw: Any) -> str:  # noqa: ARG002, N802
        """Return DECIMAL with all its digits; without a precision it is Spark's widest one for fractions."""
        if type_.precision is None:
            return f"DECIMAL({MAX_PRECISION}, {_SCALE if type_.scale is None else type_.scale})"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    def visit_DECIMAL(self, type_: types.DECIMAL[Any], **kw: Any) -> str:  # noqa: N802
        """Return DECIMAL."""
        return self.visit_NUMERIC(type_, **kw)

    def visit_VARCHAR(self, type_: types.String, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return VARCHAR, or STRING without a length."""
        return "STRING" if type_.length is None else f"VARCHAR({type_.length})"

    def visit_NVARCHAR(self, type_: types.NVARCHAR, **kw: Any) -> str:  # noqa: N802
        """Return VARCHAR, or STRING without a length."""
        return self.visit_VARCHAR(type_, **kw)

    def visit_CHAR(self, type_: types.CHAR, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return CHAR; without a length it is one character, as in the standard."""
        return f"CHAR({type_.length or 1})"

    def visit_NCHAR(self, type_: types.NCHAR, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return CHAR."""
        return f"CHAR({type_.length or 1})"

    def visit_STRING(self, type_: STRING, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return STRING."""
        return "STRING"

    def visit_TEXT(self, type_: types.Text, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return STRING."""
        return "STRING"

    def visit_CLOB(self, type_: types.CLOB, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return STRING."""
        return "STRING"

    def visit_TIME(self, type_: types.Time, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return STRING, since tables have no times of day."""
        return "STRING"

    def visit_DATETIME(self, type_: types.DateTime, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return TIMESTAMP for instants with a time zone, or else TIMESTAMP_NTZ."""
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    def visit_TIMESTAMP(self, type_: types.TIMESTAMP, **kw: Any) -> str:  # noqa: N802
        """Return TIMESTAMP for instants with a time zone, or else TIMESTAMP_NTZ."""
        return self.visit_DATETIME(type_, **kw)

    def visit_BLOB(self, type_: types.LargeBinary, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return BINARY."""
        return "BINARY"

    def visit_BINARY(self, type_: types.BINARY, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return BINARY."""
        return "BINARY"

    def visit_VARBINARY(self, type_: types.VARBINARY, **kw: Any) -> str:  # noqa: ARG002, N802
        """Return BINARY."""
        return "BINARY"

    def visit_ARRAY(self, type_: types.ARRAY[Any], **kw: Any) -> str:  # noqa: N802
        """Return ARRAY, which has as many levels as the type has dimensions."""
        levels = type_.dimensions or 1
        return "ARRAY<" * levels + self.process(type_.item_type, **kw) + ">" * levels

    def visit_MAP(self, type_: MAP, **kw: Any) -> str:  # noqa: N802
        """Return MAP."""
        return f"MAP<{self.process(type_.key_type, **kw)}, {self.process(type_.value_type, **kw)}>"

    def visit_STRUCT(self, type_: STRUCT, **kw: Any) -> str:  # noqa: N802
        """Return STRUCT."""
        return f"STRUCT<{', '.join(f'{field_name(name)}: {self.process(of, **kw)}' for name, of in type_.fields)}>"
