"""``hivex sql``: statements from the command line, a file, standard input, or a prompt."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import HivexError

if TYPE_CHECKING:
    from airflow_hivex.cli.output import StatementProgress
    from airflow_hivex.core.session import Result, Session

_CANCEL_LIMIT_S = 60.0
_CANCEL_INTERVAL_S = 0.2
_HISTORY_LENGTH = 10_000
_FIRST_PROMPT = "hivex> "
_NEXT_PROMPT = "    -> "
_LEAVE = ("exit", "quit")


class StatementRunner:
    """A thread that runs statements.

    Ctrl-C interrupts only the wait for this thread, and never a call to Spark or the database.
    """

    def __init__(
        self, session: Session, show: Callable[[Result], None], max_rows: int | None, progress: StatementProgress
    ) -> None:
        self._session = session
        self._show = show
        self._max_rows = max_rows
        self._progress = progress
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hivex-statement")

    def run(self, statement: str) -> None:
        """Run a statement and print its result.

        Raises:
            KeyboardInterrupt: the user has pressed Ctrl-C; the statement is cancelled.
            HivexError: the statement has failed.
        """
        try:
            with self._progress.running():
                result = self._executor.submit(self._session.sql, statement, max_rows=self._max_rows).result()
        except KeyboardInterrupt:
            self._cancel()
            raise
        self._show(result)

    def close(self) -> None:
        """End the thread."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _cancel(self) -> None:
        """Call ``Session.cancel`` until the thread is idle, but not longer than a time limit.

        One call is not enough, because it has no effect before the statement has a transaction.
        """
        idle = self._executor.submit(int)
        deadline = time.monotonic() + _CANCEL_LIMIT_S
        while time.monotonic() < deadline:
            self._session.cancel()
            if wait([idle], _CANCEL_INTERVAL_S).done:
                return


def run_script(text: str, session: Session, runner: StatementRunner, complain: Callable[[str], None]) -> None:
    """Run the statements of a script up to the first error.

    If a statement fails, ``complain`` gets the line of the script in which the statement begins. The error itself
    counts lines from the beginning of the statement.
    """
    from airflow_hivex.core.parser.reader import spans

    found = spans(text)
    for number, span in enumerate(found, start=1):
        try:
            runner.run(text[span.start : span.end])
        except HivexError:
            if len(found) > 1:
                line = text.count("\n", 0, span.start) + 1
                complain(f"statement {number} of {len(found)}, which begins in line {line} of the script, failed")
            raise
    session.check_ended()


def run_prompt(session: Session, runner: StatementRunner, complain: Callable[[str], None]) -> None:
    """Read statements from a prompt and run them until the user leaves with Ctrl-D, ``exit`` or ``quit``.

    An error or Ctrl-C ends only the statement; the prompt continues.
    """
    from airflow_hivex.core.parser.reader import split

    sys.stdout.write("End statements with ';'. Ctrl-C cancels a statement, Ctrl-D leaves.\n")
    with _history():
        while True:
            try:
                text = _read_text()
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                continue
            except UnicodeDecodeError as error:
                complain(f"what was typed is not {error.encoding}, the encoding of this terminal; it is forgotten")
                continue
            if text is None:
                break
            try:
                for statement in split(text):
                    runner.run(statement)
            except HivexError as error:
                complain(f"{error} [{error.code}]")
            except KeyboardInterrupt:
                complain("cancelled")
    if session.txn_id is not None:
        complain(f"transaction {session.txn_id} has no COMMIT; it is rolled back")


def _read_text() -> str | None:
    """Return the text that the user types, up to a semicolon at the end of a line, or None if the user leaves."""
    from airflow_hivex.core.parser.lexer.substitution import is_complete

    text = ""
    while not is_complete(text):
        try:
            line = input(_NEXT_PROMPT if text else _FIRST_PROMPT)
        except EOFError:
            sys.stdout.write("\n")
            return None
        if not text and line.strip().rstrip(";").lower() in _LEAVE:
            return None
        text = f"{text}\n{line}" if text else line
        if not text.strip():
            text = ""
    return text


@contextmanager
def _history() -> Iterator[None]:
    """Enable the editing of lines, and a history that includes lines of earlier prompts."""
    try:
        import readline
    except ImportError:
        # Some builds of Python have no readline.
        yield
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "hivex"
    file = state / "history"
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_HISTORY_LENGTH)
    try:
        yield
    finally:
        with suppress(OSError):
            state.mkdir(parents=True, exist_ok=True)
            # Statements may have secrets.
            file.touch(mode=0o600)
            readline.write_history_file(file)
