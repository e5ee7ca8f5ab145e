"""Ended statements, as the history of statements shows them: outcome, owner, rows, waits and steps."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.texts import check_length, check_text

# Source: Airflow's columns for ids.
_LONGEST_ID = 250


@dataclass(frozen=True, slots=True)
class TaskTry:
    """One try of a task of Airflow. ``map_index`` is None for a task that is not mapped.

    The text of the value is the ``agent_info`` of the try's transactions: ``dag_id.task_id[map_index] run_id try``.

    Raises:
        InvalidTextError: the database cannot store a name.
        InvalidParametersError: a name has more than 250 characters.
    """

    dag_id: str
    task_id: str
    run_id: str
    try_number: int
    map_index: int | None = None

    def __post_init__(self) -> None:
        for name in (self.dag_id, self.task_id, self.run_id):
            check_length("A name in a try of a task", check_text("A name in a try of a task", name), _LONGEST_ID)

    def __str__(self) -> str:
        mapped = "" if self.map_index is None else f"[{self.map_index}]"
        return f"{self.dag_id}.{self.task_id}{mapped} {self.run_id} {self.try_number}"


class StatementOutcome(enum.Enum):
    """The outcome of an ended statement. The values are the letters that the database stores.

    - SUCCEEDED: the statement has ended without an error, and its changes count.
    - OPEN: the statement has ended without an error in a transaction that is still open.
    - ROLLED_BACK: the statement has ended without an error, and its transaction was aborted afterwards.
    - FAILED: the statement has ended with an error.
    - REFUSED: no cluster could run the statement.
    - CANCELLED: the statement was cancelled, or its process was interrupted.
    - LOST: the transaction of the statement was aborted, and its process has never reported an end.
    """

    SUCCEEDED = "s"
    OPEN = "o"
    ROLLED_BACK = "b"
    FAILED = "f"
    REFUSED = "r"
    CANCELLED = "c"
    LOST = "l"

    @property
    def shown(self) -> str:
        """Return the word for users, such as ``rolled back``."""
        return self.name.lower().replace("_", " ")

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the outcome with the given word, in upper or lower case.

        Raises:
            InvalidObjectError: the text is not an outcome.
        """
        wanted = "_".join(text.upper().replace("_", " ").split())
        if wanted not in cls.__members__:
            names = ", ".join(f"'{each.shown}'" for each in cls)
            raise InvalidObjectError("statement status", f"'{text}'", f"it is one of {names}")
        return cls[wanted]


UNSUCCESSFUL = tuple(each for each in StatementOutcome if each.name not in ("SUCCEEDED", "OPEN"))
"""The outcomes of statements whose changes do not count."""

STEPS = ("parse", "plan", "locks", "job", "commit", "other")
"""The steps of a statement, in order. ``plan`` is the search for tables, files and cluster, without the locks."""


@dataclass(frozen=True, slots=True)
class EndedStatement:
    """A row of the history of statements.

    ``tables`` are the tables that the text names. ``route`` is the reason for the choice of ``cluster``. ``wait_s`` is
    the time in which the statement waited for locks of other transactions. ``steps`` is a dict from step to seconds;
    the time for the last round trip to the database is not in it. ``rows_written`` and ``rows_deleted`` are None for
    a statement that does not change rows.
    """

    id: int
    kind: str
    text: str
    outcome: StatementOutcome
    started_at: datetime
    ended_at: datetime
    user: str
    host: str
    agent_info: str | None = None
    task: TaskTry | None = None
    database: str = ""
    tables: tuple[str, ...] = ()
    txn_id: int | None = None
    cluster: str | None = None
    route: str | None = None
    rows_written: int | None = None
    rows_deleted: int | None = None
    wait_s: float = 0
    steps: Mapping[str, float] = field(default_factory=dict)
    error_code: str | None = None
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Return the time from the start to the end of the statement."""
        return max(0.0, round((self.ended_at - self.started_at).total_seconds(), 3))


SHOW_COLUMNS = (
    "id",
    "started_at",
    "ended_at",
    "seconds",
    "status",
    "error_code",
    "kind",
    "text",
    "tables",
    "user",
    "host",
    "dag_id",
    "task_id",
    "run_id",
    "map_index",
    "try_number",
    "agent_info",
    "txn_id",
    "cluster",
    "route",
    "rows_written",
    "rows_deleted",
    "wait_s",
    "steps",
    "error",
)
"""The columns of SHOW STATEMENTS."""


def show_row(statement: EndedStatement) -> tuple[object, ...]:
    """Return the row of SHOW STATEMENTS. Times are texts in UTC."""
    task = statement.task
    return (
        statement.id,
        _shown_time(statement.started_at),
        _shown_time(statement.ended_at),
        statement.seconds,
        statement.outcome.shown,
        statement.error_code,
        statement.kind,
        statement.text,
        ", ".join(statement.tables),
        statement.user,
        statement.host,
        *((None,) * 5 if task is None else (task.dag_id, task.task_id, task.run_id, task.map_index, task.try_number)),
        statement.agent_info,
        statement.txn_id,
        statement.cluster,
        statement.route,
        statement.rows_written,
        statement.rows_deleted,
        statement.wait_s,
        ", ".join(f"{step} {seconds:.3f}" for step, seconds in statement.steps.items()),
        statement.error,
    )


def _shown_time(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="milliseconds")
