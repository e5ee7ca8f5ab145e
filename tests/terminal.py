"""A terminal of a test's own, and the program that runs at it."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import termios

# Run by Python before the program. The terminal's Ctrl-C reaches the process that has it as its own; ignored and
# blocked signals are inherited, as by a test run in the background. Not in a preexec_fn: the tests' process has
# threads.
_TAKE_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
os.execv(sys.argv[1], sys.argv[1:])
"""
_PATIENCE_S = 150
_OVERLOOKED_S = 5

CTRL_C = "\x03"
CTRL_D = "\x04"
UP = "\x1b[A"


class Terminal:
    """A program at a terminal, for a person to type at; as a context manager it is gone afterwards."""

    def __init__(self, *command: str, environment: dict[str, str], columns: int = 100) -> None:
        # Those of a process of pytest-xdist, where they are set, would count for more than the terminal's own size.
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self._screen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (40, columns))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment | {"TERM": "xterm"},
            start_new_session=True,
        )
        os.close(terminal)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def type(self, text: str | bytes) -> None:
        """Type it; a line ends with a carriage return."""
        os.write(self._screen, text.encode() if isinstance(text, str) else text)

    def interrupt(self) -> None:
        """Type Ctrl-C, and again if nothing is shown, as a person does.

        Python's prompt overlooks a signal that arrives after it is shown and before it waits for input.
        """
        self.type(CTRL_C)
        while not select.select([self._screen], [], [], _OVERLOOKED_S)[0]:
            self.type(CTRL_C)

    def wait_for(self, text: str) -> str:
        """What was shown since the last wait, up to ``text``."""
        while text not in self._seen:
            assert self._read(), f"{text!r} is not in {self._seen!r}"
        shown, _, self._seen = self._seen.partition(text)
        return shown

    def wait_for_end(self) -> tuple[int, str]:
        """The program's exit code, and what was shown since the last wait."""
        while self._read():
            pass
        return self._process.wait(_PATIENCE_S), self._seen

    def _read(self) -> bool:
        """Read what is shown next; false when the program has ended."""
        assert select.select([self._screen], [], [], _PATIENCE_S)[0], f"nothing is shown after {self._seen!r}"
        try:
            shown = os.read(self._screen, 65536)
        except OSError:
            # No process has the other end.
            return False
        self._seen += self._decoder.decode(shown)
        return bool(shown)
