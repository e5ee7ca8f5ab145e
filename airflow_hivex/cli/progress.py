"""The progress of a statement at a terminal: one line on standard error, and a bar while a long job runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

    from airflow_hivex.core.model.progress import Progress

_BAR_WIDTH = 20


class StatementProgress:
    """Shows on a terminal which step of a statement runs, and how much of its job is done. Else it shows nothing."""

    def __init__(self) -> None:
        self._status: Status | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress of the statement that runs in the block."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status("Running") as status:
            handler = _StatusHandler(status)
            logger = logging.getLogger("airflow_hivex")
            level = logger.level
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            self._status = status
            try:
                yield
            finally:
                self._status = None
                logger.removeHandler(handler)
                logger.setLevel(level)

    def report(self, progress: Progress) -> None:
        """Show the progress of the statement's job, as a bar of its tasks. For the session of the statement."""
        status = self._status
        if status is None:
            return
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(progress.tasks, 1), completed=progress.tasks_done, width=_BAR_WIDTH)
        line.add_row(bar, Text(progress.describe(), no_wrap=True, overflow="ellipsis"))
        status.update(line)


class _StatusHandler(logging.Handler):
    """Shows the log's last message as the status, and warnings as lines that stay."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def emit(self, record: logging.LogRecord) -> None:
        from rich.markup import escape

        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._status.console.print(f"hivex: {escape(message)}", highlight=False)
        else:
            self._status.update(escape(message.partition("\n")[0]))
