"""Steps of files and of the database that fail, or after which a process does nothing any more. Not a test itself."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from sqlalchemy.exc import OperationalError

from airflow_hivex.core.job.staging import Staging
from airflow_hivex.core.job.storage import Place
from airflow_hivex.core.store.engine import OutcomeUnknownError

OF_FILES: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (Place, ("create_directory", "write", "move", "files", "open")),
    (Staging, ("write", "files")),
    (LocalFileSystem, ("cp_file", "makedirs")),
)
"""What a statement does to files in this process: by Spark, by pyarrow and by fsspec."""
DELETING: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (Place, ("delete",)),
    (LocalFileSystem, ("ls", "rm", "rmdir")),
)
"""What is done to delete others; a statement goes on where that fails."""


class Dead(BaseException):
    """Stands for the end of a process: no code handles it."""


@dataclass
class Faults:
    """Lets the step of this number fail, or with ``lasts`` all of them from there on."""

    at: int | None = None
    named: str | None = None
    lasts: bool = False
    of_database: bool = False
    of_deletions: bool = False
    dies: bool = False
    loses_answers: bool = True
    interrupted: str | None = None
    seen: list[str] = field(default_factory=list)
    on_file: Callable[[str], None] = field(default=lambda _step: None)
    """Called with each step of files that does not fail."""

    def begin(
        self,
        at: int | None,
        *,
        named: str | None = None,
        lasts: bool = False,
        of_database: bool = False,
        of_deletions: bool = False,
        dies: bool = False,
    ) -> None:
        """From now on: ``of_database`` steps of the database, else those of files, deletions too if ``of_deletions``.

        With ``named`` it is the first one of that name. With ``dies`` it is any step, after which nothing is done any
        more, as in a process that was killed there.
        """
        self.at, self.named = at if named is None else sys.maxsize, named
        self.lasts, self.of_database, self.dies, self.seen = lasts or dies, of_database, dies, []
        self.of_deletions = of_deletions

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For the work of others meanwhile: their steps do not count."""
        at, self.at = self.at, None
        try:
            yield
        finally:
            self.at = at

    @property
    def is_done(self) -> bool:
        """Whether the step has come."""
        return self.at is not None and len(self.seen) > self.at

    def file(self, step: str) -> None:
        self._die(step)
        if not self.dies and not self.of_database and self._is_hit(step):
            raise OSError(errno.ENOSPC, "No space left on device", step)
        self.on_file(step)

    def deleting(self, step: str) -> None:
        if self.of_deletions:
            self.file(step)
        else:
            self._die(step)
            self.on_file(step)

    def _die(self, step: str) -> None:
        # Who dies after a step dies before the next one.
        if self.dies and not step.endswith(", done") and self._is_hit(step):
            raise Dead(step)

    def database(self, step: str) -> None:
        if step.endswith("heartbeat") or threading.current_thread().name == "hivex-cache-follower":
            # Of another thread, whenever that is.
            return
        self._die(step)
        if step == self.interrupted:
            self.interrupted = None
            raise KeyboardInterrupt(step)
        word = step.partition(" ")[0]
        points = ("before", "after") if self.loses_answers else ("before",)
        if not self.of_database or word not in points or not self._is_hit(step):
            return
        if word == "after":
            # It is committed, and the answer is lost.
            raise OutcomeUnknownError("the database", "the connection is lost")
        raise OperationalError(step, {}, Exception("disk I/O error"))

    def _is_hit(self, step: str) -> bool:
        if self.at is None:
            return False
        self.seen.append(step)
        number = len(self.seen) - 1
        if step == self.named:
            self.at, self.named = number, None
        return number >= self.at if self.lasts else number == self.at


def install(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The faults of all files of this process; those of a database are given to its metastore (``fault``)."""
    found = Faults()
    for classes, fault in ((OF_FILES, found.file), (DELETING, found.deleting)):
        for owner, names in classes:
            for name in names:
                monkeypatch.setattr(owner, name, _failing(fault, f"{owner.__name__}.{name}", getattr(owner, name)))
    return found


def _failing(fault: Callable[[str], None], step: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        fault(step)
        result = method(*given, **named)
        # A step may also fail when its work is done already.
        fault(f"{step}, done")
        return result

    return call
