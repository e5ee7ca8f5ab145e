"""Preflight: the routes that statements of scripts and DAGs would take, before their first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_hivex.core.errors import ForeignNameError, HivexError, NoSuchObjectError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.namespaces.closure import NamedStatement
from airflow_hivex.core.parser import statements as kinds
from airflow_hivex.core.parser.lexer.substitution import share_parameters
from airflow_hivex.core.parser.lexer.tokens import location
from airflow_hivex.core.parser.reader import ReadStatement, read_all
from airflow_hivex.core.session import Session

OpenSession = Callable[[str, str | None], Session]

_OF_SESSION = (
    kinds.UseDatabase,
    kinds.UseCluster,
    kinds.SetSetting,
    kinds.ResetSetting,
    kinds.SetConfiguration,
    kinds.ResetConfiguration,
    kinds.DropVariable,
    kinds.DropTemporaryFunction,
)
_CREATES = (kinds.CreateTable, kinds.CreateView, kinds.CreateDatabase, kinds.CreateLink)


class Outlook(StrEnum):
    """The expected result of a statement: it runs, it is refused, or the result is unknown.

    ``UNKNOWN`` stands for a statement without values for its markers, or with an object that an earlier statement
    creates.
    """

    RUNS = "runs"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExpectedRoute:
    """The route that a statement would take now.

    ``object`` is the name of the text with the statement, such as ``dag.task``. ``reason`` says why the cluster was
    chosen, or why the statement would fail. ``line`` and ``column`` are the place of the statement in the text, from 1.
    """

    object: str
    kind: str
    outlook: Outlook
    cluster: str | None
    reason: str
    line: int | None = None
    column: int | None = None


class Preflight:
    """A check that finds the cluster of each statement from metadata and the health of clusters, without a job."""

    def __init__(self, open_session: OpenSession, default_namespace: str) -> None:
        self._open_session = open_session
        self._default = default_namespace
        self._made: dict[str, str] = {}

    def check(self, statements: Iterable[NamedStatement]) -> list[ExpectedRoute]:
        """Return the expected routes of all statements in some texts, in order. Statements without a job are left out.

        Each text is checked in a session of its own. Pass the texts in the order in which they run, because one text
        can create a table that the next text reads.
        """
        return [found for statement in statements for found in self._of_text(statement)]

    def _of_text(self, text: NamedStatement) -> Iterator[ExpectedRoute]:
        namespace = normalise(text.namespace or self._default)
        try:
            read = list(read_all(text.text, database=namespace))
            parameters = share_parameters([_source(text, each) for each in read], text.parameters)
            session = self._open_session(namespace, text.cluster)
        except HivexError as error:
            yield self._failed(text, None, error, [namespace])
            return
        with session:
            for each, values in zip(read, parameters, strict=True):
                statement = each.statement
                named = [_full_name(use, session.database) for use in statement.uses]
                try:
                    if isinstance(statement, _OF_SESSION):
                        session.sql(_source(text, each), values)
                    elif isinstance(statement, kinds.RoutedStatement):
                        yield self._of_routed(session, text, each, values)
                except ForeignNameError:
                    # The check of closed namespaces reports this error.
                    continue
                except HivexError as error:
                    yield self._failed(text, each, error, named)
                    if isinstance(statement, _OF_SESSION):
                        # The database or cluster of the following statements is unknown.
                        return
                finally:
                    if isinstance(statement, kinds.CreateTemporaryView):
                        self._made[normalise(f"{session.database}.{statement.view.name}")] = text.name
                    if isinstance(statement, _CREATES):
                        outputs = (name for name, use in zip(named, statement.uses, strict=True) if use.role.is_output)
                        self._made.update(dict.fromkeys(outputs, text.name))

    def _of_routed(
        self,
        session: Session,
        text: NamedStatement,
        read: ReadStatement,
        values: Mapping[str, object] | None,
    ) -> ExpectedRoute:
        line, column = location(text.text, read.span.start)
        if read.markers and text.parameters is None:
            reason = f"its markers need values: {', '.join(sorted(read.markers))}"
            return ExpectedRoute(text.name, read.statement.KIND, Outlook.UNKNOWN, None, reason, line, column)
        route = session.explain(_source(text, read), values)
        outlook = Outlook.REFUSED if route.cluster is None else Outlook.RUNS
        return ExpectedRoute(text.name, read.statement.KIND, outlook, route.cluster, route.describe(), line, column)

    def _failed(
        self, text: NamedStatement, read: ReadStatement | None, error: HivexError, named: Iterable[str]
    ) -> ExpectedRoute:
        kind = "" if read is None else read.statement.KIND
        line, column = (None, None) if read is None else location(text.text, read.span.start)
        maker = next((self._made[name] for name in named if name in self._made), None)
        if maker is None or not isinstance(error, NoSuchObjectError):
            return ExpectedRoute(text.name, kind, Outlook.REFUSED, None, str(error), line, column)
        reason = f"{error} {maker} creates it; the route is known after that."
        return ExpectedRoute(text.name, kind, Outlook.UNKNOWN, None, reason, line, column)


def _source(text: NamedStatement, read: ReadStatement) -> str:
    return text.text[read.span.start : read.span.end]


def _full_name(use: kinds.UsedObject, database: str) -> str:
    if use.kind is not kinds.ObjectKind.TABLE:
        return normalise(use.name or database)
    link = "" if use.namespace is None else f"@{use.namespace}"
    return normalise(f"{use.database or database}.{use.name}{link}")
