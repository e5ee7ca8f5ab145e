"""DataFrames and temporary views of a user's SparkSession, which a statement can read like tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchTableError,
)
from airflow_hivex.core.execution.context import Frames, StatementContext
from airflow_hivex.core.parser.frames import TAKE_FRAMES, frames_not_taken, read_with_frames, with_frames
from airflow_hivex.core.parser.statements import (
    DescribeQuery,
    ExplainQuery,
    ExplainRoute,
    Query,
    Select,
    Statement,
    TableReference,
    frame_name,
    is_stored,
)

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame, GivenSession

_LAZY = (Select, DescribeQuery, ExplainQuery, ExplainRoute)


@contextmanager
def reading_frames(
    context: StatementContext, text: str, by_name: Mapping[str, Frame], spark: GivenSession
) -> Iterator[tuple[Statement, Frames | None, GivenSession]]:
    """Yield a triple: the statement, its DataFrames (or None), and the Spark session of the DataFrames.

    The views of the DataFrames exist while the block runs. ``{name}`` is a DataFrame of ``by_name``. A name without
    braces can be a temporary view of the Spark session. A statement that writes computes each DataFrame once. A query
    computes its DataFrames whenever the rows of the query are computed.

    Raises:
        HivexError: as :func:`read_with_frames`.
        InvalidParametersError: a value of ``by_name`` is not a DataFrame, or the DataFrames are of several Spark
            sessions.
        InvalidOperationError: a table and a temporary view have the same name, or the statement cannot read DataFrames.
    """
    from airflow_hivex.core.runners import given

    for name, frame in by_name.items():
        given.check_frame(frame, name, f"{{{name}}}")
    frames = list(by_name.values())
    spark = given.common_session(frames) or spark
    given.check_session(spark)
    viewed: dict[str, int] = {}
    statement = read_with_frames(text, tuple(by_name), context.parameters, context.session.database)

    def view_of(reference: TableReference) -> int | None:
        name = reference.table.name
        if name not in viewed and context.session.objects.view(reference.table) is None:
            view = given.temporary_view_of(spark, name)
            if view is not None:
                _check_is_no_table(context, statement, reference)
                viewed[name] = len(frames)
                frames.append(view)
        return viewed.get(name)

    statement = with_frames(statement, view_of)
    if not frames:
        yield statement, None, spark
        return
    if not isinstance(statement, TAKE_FRAMES):
        raise frames_not_taken(statement, tuple(viewed))
    reads = () if isinstance(statement, _LAZY) else statement.frame_reads
    kept = [reads.count(frame_name(number)) > 1 for number in range(len(frames))]
    with given.frame_views(spark, frames, kept) as (views, runner):
        yield statement, Frames({frame_name(number): view for number, view in enumerate(views)}, runner), spark


def rendered(
    context: StatementContext,
    query: Query,
    views: Iterator[str],
    sources: Mapping[str, str] | None = None,
    own: Mapping[int, str] | None = None,
) -> str:
    """Return the text of a query in which the names of views replace the tables and DataFrames.

    ``views`` has the views of the tables, in the order of the references. ``sources`` is a dict from name to view, for
    results that are computed already. ``own`` is a dict from the index of a reference to its view, and takes
    precedence.

    Raises:
        NoSuchTableError: the query reads a DataFrame that did not come with the statement.
    """
    named = {**(sources or {}), **(context.frames.views if context.frames is not None else {})}

    def view(place: int, reference: TableReference) -> str:
        if own is not None and place in own:
            return own[place]
        if is_stored(reference.table):
            return next(views)
        if reference.table.name not in named:
            raise NoSuchTableError(context.session.database, reference.table.name)
        return named[reference.table.name]

    return query.render([view(place, reference) for place, reference in enumerate(query.references)])


def _check_is_no_table(context: StatementContext, statement: Statement, reference: TableReference) -> None:
    """Refuse a name that both a temporary view in Spark and a table in the warehouse have.

    Raises:
        InvalidOperationError: the current database has a table of the name.
    """
    database, name = context.session.qualify(reference.table)
    try:
        context.services.catalog.get_table(database, name)
    except (NoSuchTableError, NoSuchDatabaseError):
        return
    raise InvalidOperationError(
        statement.kind,
        name,
        f"it is a table and a temporary view of the SparkSession; write {database}.{name} for the table, or "
        f"{{{name}}} with the DataFrame for the view",
    )
