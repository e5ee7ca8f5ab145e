"""Client processes of tests: each a real process that can be killed, and that starts in a moment.

They are forked from a server process that has the modules imported and nothing open, so that a client
that was killed is replaced at once.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
# pyarrow loads pandas, if it is there, for the first array.
CONTEXT.set_forkserver_preload(
    [
        "__main__",
        "tests.unsynchronized",
        "tests.histories.client",
        "tests.crashes.client",
        "tests.acceptance.cache_process",
        "tests.acceptance.changing_process",
        "tests.acceptance.compacting_process",
        "tests.acceptance.joining_process",
        "tests.acceptance.replicating_process",
        "tests.airflow.committing_process",
        "pandas",
    ]
)
_PATIENCE_S = 30
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that has started it ends, however that ends.

    For ``preexec_fn`` of a server that would outlive killed tests.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ClientProcess:
    """A process that calls ``function`` with ``arguments``; as a context manager it is gone afterwards.

    ``log`` is a file for the traceback of whatever ends it.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any, log: Path) -> None:
        self._log = log
        # The server has the environment of the moment in which it was started.
        given = (log, dict(os.environ), function, arguments)
        self._process: ForkServerProcess = CONTEXT.Process(target=_main, args=given, daemon=True)
        self._process.start()

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.is_alive:
            self.kill()

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._process.is_alive()

    @property
    def sentinel(self) -> int:
        """What becomes ready, for ``multiprocessing.connection.wait``, when the process ends."""
        return self._process.sentinel

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        assert self._process.pid is not None
        if self.is_alive:
            # It may end by itself before the signal.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = _PATIENCE_S) -> int:
        """Its exit code, negative for a signal.

        Raises:
            TimeoutError: it is still running.
        """
        self._process.join(timeout_s)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self._process.pid} is still running after {timeout_s:g} s")
        return code

    def error(self) -> str:
        """The traceback of what ended it, or nothing."""
        return self._log.read_text() if self._log.exists() else ""


class RandomKills:
    """Kills processes at random moments of the work that they do, not of their start, nor after it.

    The moment is drawn from the time that the last process of the same kind took, which has ended before its kill.
    """

    def __init__(self, rng: random.Random, folder: Path, longest_s: float = 3.0) -> None:
        self._rng = rng
        self._folder = folder
        self._first_s = longest_s
        self._longest_s: dict[Hashable, float] = {}

    def is_killed(self, function: Callable[..., None], *arguments: Any, kind: Hashable = None) -> bool:
        """Run ``function`` with ``arguments`` and the path of a file, which it makes when it begins; kill it.

        Returns whether it was killed before its end.
        """
        begun = self._folder / "begun"
        begun.unlink(missing_ok=True)
        longest_s = self._longest_s.get(kind, self._first_s)
        with ClientProcess(function, *arguments, begun, log=self._folder / "log") as client:
            while client.is_alive and not begun.exists():
                with suppress(TimeoutError):
                    client.wait(0.02)
            began = time.monotonic()
            try:
                # It is the moment of the kill that is random.
                client.wait(self._rng.uniform(0, longest_s))
            except TimeoutError:
                client.kill()
                return True
            self._longest_s[kind] = time.monotonic() - began
            return False


def _main(log: Path, environment: dict[str, str], function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    try:
        function(*arguments)
    except BaseException:
        log.write_text(traceback.format_exc())
        raise SystemExit(1) from None
