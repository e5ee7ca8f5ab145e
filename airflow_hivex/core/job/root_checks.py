"""The check that all processes of a job (driver, executors and tasks) see the roots in its plan.

A root is the folder that has all data of a cluster. Each root has a marker file. If the file system of a root is not
mounted on a host, the host has an empty folder at the same path, and files that a task writes there are lost. A task
that writes rows looks for the marker before its first row. For tasks that read, a small query checks the executors
before a job, and checks added executors after the job. Finally the number of rows in the written files is compared with
the number that the tasks report. Source: docs/reference/spark.md, "Roots".
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import HivexError, RootUnseenError, WrittenRowsMissingError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import root_markers
from airflow_hivex.core.job.functions import is_connect
from airflow_hivex.core.job.root_markers import Marker
from airflow_hivex.core.model.plans import PlannedRoot

ROWS = "rows"
"""The name of the observed value with the number of rows that tasks have written."""

_UNSEEN = re.compile(r"hivex_root_unseen\[(\d+)\|([^|\[\]]*)\|(missing|foreign)\]")
_PROBLEMS = {"missing": "the marker {} is not there", "foreign": "the marker {} is that of another file system"}
_LOCAL = re.compile(r"local(?:\[.*\])?")
_TASK_ROW = (1 << 33) - 1
"""The bits of Spark's increasing ids that count the rows of one task."""
_TASKS = 16
_ATTEMPTS = 3
_REMEMBERED_S = 10.0
_GONE = re.compile(r"does not exist|FileNotFound|NoSuchFile|No such file")

_roots: ContextVar[tuple[PlannedRoot, ...]] = ContextVar("hivex_roots", default=())
_session: ContextVar[SparkSession | None] = ContextVar("hivex_root_session", default=None)


class _Executors:
    """For each root, the addresses of the executors that see the root, and the time of the last check."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], frozenset[str]] = {}
        self.asked_at: dict[tuple[str, str], float] = {}


_asked: dict[str, _Executors] = {}


@contextmanager
def checked(spark: SparkSession, roots: Sequence[PlannedRoot]) -> Iterator[None]:
    """Run the block; check before and after it that the driver and the executors see the roots.

    Raises:
        RootUnseenError: a process does not see one of the roots.
    """
    own, session = _roots.set(tuple(roots)), _session.set(spark)
    try:
        if not is_connect(spark):
            root_markers.check(markers())
        _ask_executors(spark)
        try:
            yield
        except Exception as error:
            if _GONE.search(str(error)):
                ask_again(spark)
            raise
        _ask_executors(spark)
    finally:
        _roots.reset(own)
        _session.reset(session)


def cluster_of_job() -> str:
    """Return the name of the cluster whose root the job writes to."""
    return _roots.get()[-1].cluster if _roots.get() else ""


def is_elsewhere(spark: SparkSession) -> bool:
    """Return whether tasks run in other processes than the driver. Such processes possibly see other files."""
    return not _is_local(spark)


def guarded(rows: DataFrame) -> DataFrame:
    """Return the rows with a check: a task fails before its first row if the task does not see a root of the job."""
    with_marker = [(number, root) for number, root in enumerate(_roots.get()) if root.marker]
    if not with_marker or _is_local(rows.sparkSession):
        return rows
    is_first = F.monotonically_increasing_id().bitwiseAND(F.lit(_TASK_ROW)) == F.lit(0)
    condition = F.lit(True)
    for number, root in with_marker:
        text = _marker_text(root)
        is_seen = F.coalesce(F.contains(text, F.lit(root.root_id)), F.lit(False))
        problem = F.when(text.isNull(), F.lit("missing")).otherwise(F.lit("foreign"))
        said = F.concat(F.lit(f"hivex_root_unseen[{number}|"), _host(), F.lit("|"), problem, F.lit("]"))
        condition = F.when(~is_first | is_seen, condition).otherwise(F.raise_error(said).cast("boolean"))
    return rows.where(condition)


def markers() -> tuple[Marker, ...]:
    """Return the markers of the job's roots, which tasks in Python check with :func:`root_markers.check`."""
    return tuple((number, root.marker, root.root_id) for number, root in enumerate(_roots.get()) if root.marker)


def names_root(text: str) -> bool:
    """Return whether an error message says that a task did not see a root."""
    return _UNSEEN.search(text) is not None


def as_error(text: str, roots: Sequence[PlannedRoot]) -> HivexError | None:
    """Return the error for the message of a task that did not see a root, or None for any other message."""
    found = _UNSEEN.search(text)
    if found is None or int(found[1]) >= len(roots):
        return None
    root = roots[int(found[1])]
    return RootUnseenError(root.cluster, root.filesystem, found[2], _PROBLEMS[found[3]].format(root.marker))


def check_written(table: str, folder: str, written: int, found: int) -> None:
    """Ensure that the number of rows in the files, ``found``, is the number that the tasks report, ``written``.

    Raises:
        RootUnseenError: an executor does not see a root.
        WrittenRowsMissingError: the numbers differ for another reason.
    """
    if written == found:
        return
    spark = _session.get()
    hosts = ask_again(spark) if spark is not None else []
    shown = ", ".join(hosts) or "hosts of the cluster"
    raise WrittenRowsMissingError(cluster_of_job(), table, folder, f"{written} rows", f"{found}", shown)


def refuse_incomplete(table: str, file: str, reason: str) -> NoReturn:
    """Raise an error because a written file cannot be read.

    Raises:
        RootUnseenError: an executor does not see a root.
        WrittenRowsMissingError: in all other cases.
    """
    spark = _session.get()
    shown = ", ".join(ask_again(spark) if spark is not None else []) or "hosts of the cluster"
    raise WrittenRowsMissingError(
        cluster_of_job(), table, file, "a whole file", f"one that cannot be read ({reason})", shown
    )


def ask_again(spark: SparkSession) -> list[str]:
    """Check the executors after a problem; return the hosts whose executors see the roots of the job.

    Raises:
        RootUnseenError: an executor does not see a root.
    """
    if not markers() or _is_local(spark):
        return []
    return sorted({host for host, _ in _answers(spark)})


def refuse_server(problem: str) -> None:
    """Raise an error because a Spark Connect server sees other files than its client.

    Raises:
        RootUnseenError: always.
    """
    root = _roots.get()[-1] if _roots.get() else PlannedRoot("", "")
    raise RootUnseenError(root.cluster, root.filesystem, "of the Spark Connect server", problem)


# -- executors -----------------------------------------------------------------------


def _is_local(spark: SparkSession) -> bool:
    """Return whether tasks run in the process of the driver, on this host."""
    return not is_connect(spark) and _LOCAL.fullmatch(str(spark.sparkContext.master)) is not None


def _marker_text(root: PlannedRoot) -> Expression:
    """Return Spark's expression for the text of a root's marker, or NULL if the task's JVM does not see the marker."""
    # Spark's own parser needs this class, so each executor has it.
    reader = F.lit("org.antlr.v4.runtime.CharStreams"), F.lit("fromFileName")
    return F.try_reflect(*reader, F.lit(root.marker))


def _host() -> Expression:
    own = F.try_reflect(F.lit("org.apache.spark.util.Utils"), F.lit("localHostName"))
    return F.coalesce(own, F.lit("unknown"))


def _ask_executors(spark: SparkSession) -> None:
    """Check that the executors which were not checked yet see the roots of the job.

    A Spark Connect server does not list its executors, so all of them are checked again after some seconds.

    Raises:
        RootUnseenError: an executor does not see a root.
    """
    if not markers() or _is_local(spark):
        return
    keys = [(marker, root_id) for _, marker, root_id in markers()]
    known = _asked.setdefault(str(spark.conf.get("spark.app.id")), _Executors())
    if is_connect(spark):
        # A client cannot read the list of a server's executors.
        now = time.monotonic()
        if any(now - known.asked_at.get(key, -math.inf) > _REMEMBERED_S for key in keys):
            _answers(spark)
            is_one_process = _LOCAL.fullmatch(str(spark.conf.get("spark.master", "")))
            known.asked_at |= dict.fromkeys(keys, math.inf if is_one_process else time.monotonic())
        return
    for _ in range(_ATTEMPTS):
        before = _executors(spark)
        if before and all(before <= known.seen.get(key, frozenset()) for key in keys):
            return
        processes = {process for _, process in _answers(spark)}
        after = _executors(spark)
        # An executor that was added meanwhile may have been asked, or not.
        if after and len(processes) >= len(after):
            known.seen |= {key: known.seen.get(key, frozenset()) | after for key in keys}


def _executors(spark: SparkSession) -> frozenset[str]:
    """Return the addresses of the current executors, without the driver's address."""
    context: Any = spark.sparkContext
    java = context._jsc.sc()
    found = str(java.getExecutorMemoryStatus().keySet().mkString(" ")).split()
    driver = getattr(context._jvm, "org.apache.spark.SparkEnv").get().blockManager().blockManagerId().hostPort()
    return frozenset(found) - {str(driver)}


def _answers(spark: SparkSession) -> list[tuple[str, str]]:
    """Check the roots in the tasks of a small Spark job; return the host and the process id of each task.

    Raises:
        RootUnseenError: a task has not seen a root.
    """
    roots = [root for root in _roots.get() if root.marker]
    tasks = _TASKS if is_connect(spark) else max(_TASKS, 2 * spark.sparkContext.defaultParallelism)
    process = F.coalesce(F.try_reflect(F.lit("java.lang.ProcessHandle"), F.lit("current")), F.lit("unknown"))
    texts = [_marker_text(root) for root in roots]
    for host, _, *found in (rows := spark.range(0, tasks, 1, tasks).select(_host(), process, *texts).collect()):
        for root, text in zip(roots, found, strict=True):
            if text is None or root.root_id not in text:
                problem = _PROBLEMS["missing" if text is None else "foreign"].format(root.marker)
                raise RootUnseenError(root.cluster, root.filesystem, host, problem)
    return [(str(host), f"{host} {process}") for host, process, *_ in rows]
