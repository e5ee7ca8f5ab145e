"""The operator that loads new files into a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hivex.operators.query import HivexQueryOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2
    from airflow.sdk import Context

    from airflow_hivex.hooks.warehouse import WarehouseHook


class HivexCopyIntoOperator(HivexQueryOperator):
    """Load those files of a folder into a table that the table has not loaded before, by one ``COPY INTO``.

    The task can be repeated at any time. The result in XCom has the columns of the statement: ``{"files_loaded": ...,
    "files_skipped": ..., "files_changed": ..., "bytes_loaded": ..., "rows_loaded": ..., "rows_rejected": ...,
    "cluster": ..., "txn_id": ...}``.

    :param table: the table that gets the rows, ``database.table`` or ``table`` (templated)
    :param source: the folder or file, a path below the root of the table's primary cluster or a URI (templated)
    :param file_format: ``csv``, ``json``, ``parquet``, ``orc``, ``avro`` or ``text`` (templated)
    :param columns: the columns that get the values of the files, by position; by default all columns
    :param select: the SELECT list of a query over the files, such as ``CAST(_c0 AS bigint) AS id, _c1 AS name``; the
        rest of the query, such as WHERE, is ``where`` (templated)
    :param where: the condition of the rows that are loaded; only with ``select`` (templated)
    :param patterns: a pattern or patterns of paths below ``source``, such as ``{{ ds }}/*.csv`` (templated)
    :param files: paths below ``source``, in place of ``patterns`` (templated)
    :param format_options: options of Spark's reader, such as ``{"header": "true"}`` (templated)
    :param copy_options: options of the load: ``force``, ``allowOverwrites``, ``mergeSchema`` (templated)

    :param database: the current database; None for the database of the connection (templated)
    :param transaction: the group whose transaction the statement joins, or the id of an open transaction (templated)
    :param conflict_retries: the most retries, after a pause, of a statement that a write conflict or deadlock has
        aborted
    :param show_return_value_in_logs: whether to log the result
    :param asset_events: whether to send an event for the asset of the table
    :param asset_partitions: whether to send an event for each written partition, with its name as the partition key
    :param deferrable: True: the load runs in the triggerer, which needs a Spark Connect server; without one the task
        fails. None: as ``[operators] default_deferrable`` says, and in the worker without such a server
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    NOT_TAKEN: ClassVar[tuple[str, ...]] = (
        "sql",
        "parameters",
        "cluster",
        "max_rows",
        "max_lag",
        "max_lag_commits",
        "handler",
        "output_path",
        "output_format",
        "output_table",
        "output_mode",
    )
    """The arguments of the base that the operator refuses."""

    template_fields: Sequence[str] = (
        *("table", "source", "file_format", "select", "where", "patterns", "files", "format_options", "copy_options"),
        *("database", "transaction", "hivex_conn_id"),
    )
    template_ext: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {"format_options": "json", "copy_options": "json"}

    def __init__(
        self,
        *,
        table: str,
        source: str,
        file_format: str,
        columns: Sequence[str] | None = None,
        select: str | None = None,
        where: str | None = None,
        patterns: str | Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        format_options: Mapping[str, str] | None = None,
        copy_options: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        refused = sorted(kwargs.keys() & set(self.NOT_TAKEN))
        if refused:
            raise ValueError(f"{refused[0]} is not an argument of this operator, which makes its statement itself")
        if patterns and files:
            raise ValueError("patterns and files do not go together; give one of them")
        if where and not select:
            raise ValueError("where needs select, the list of columns of the query over the files")
        self.table = table
        self.source = source
        self.file_format = file_format
        self.columns = columns
        self.select = select
        self.where = where
        self.patterns = patterns
        self.files = files
        self.format_options = format_options
        self.copy_options = copy_options
        # The statement is made when the arguments are rendered.
        super().__init__(sql="", **kwargs)

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the templated arguments, and make the statement of them."""
        super().render_template_fields(context, jinja_env)
        self.sql = self._statement()

    def execute(self, context: Context) -> Any:
        """Load the files, and return the numbers of the load.

        :raises AirflowFailException: the statement is wrong, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        self.sql = self._statement()
        return super().execute(context)

    def _statement(self) -> str:
        table = ".".join(_name(part) for part in self.table.split("."))
        columns = f" ({', '.join(map(_name, self.columns))})" if self.columns else ""
        source = _text(self.source)
        if self.select:
            where = f" WHERE {self.where}" if self.where else ""
            source = f"(SELECT {self.select} FROM {source}{where})"  # noqa: S608 - SQL is what the DAG's author gives
        clauses = [f"COPY INTO {table}{columns} FROM {source}", f"FILEFORMAT = {self.file_format.upper()}"]
        patterns = [self.patterns] if isinstance(self.patterns, str) else self.patterns
        for word, texts in (("PATTERN", patterns), ("FILES", self.files)):
            if texts:
                clauses.append(f"{word} = ({', '.join(map(_text, texts))})")
        for word, options in (("FORMAT_OPTIONS", self.format_options), ("COPY_OPTIONS", self.copy_options)):
            if options:
                listed = (f"{_text(name)} = {_text(_option(value))}" for name, value in options.items())
                clauses.append(f"{word} ({', '.join(listed)})")
        return "\n".join(clauses)

    def _end(
        self, context: Context, hook: WarehouseHook, txn_ids: Sequence[int], links: Sequence[Any], result: Any
    ) -> Any:
        """Send the events of the load, and return its numbers."""
        numbers = dict(zip(result["columns"], result["rows"][0], strict=True))
        where = {"cluster": result["cluster"], "txn_id": result["txn_id"]}
        return super()._end(context, hook, txn_ids, links, numbers | where)


def _name(name: str) -> str:
    return f"`{name.strip('`').replace('`', '``')}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
