"""The program that shows a folder of another host: ``python -m tests.hosts.distant_files BACKING MOUNT CONTROL``.

While the program is stopped, calls wait for it, as on a hard mount of NFS. It stops itself after the call that the
control file names, and makes a file to say so.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import mfusepy

from tests.hosts.faulty_files import FaultyFiles

_ANSWERED_S = 0.005


def _noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def noted(self: DistantFiles, path: str, *arguments: Any) -> Any:
        found = call(self, path, *arguments)
        self.note(name, path)
        return found

    return noted


class DistantFiles(FaultyFiles):
    """The calls of a file system whose folder is on another host."""

    def __init__(self, backing: str, control: str) -> None:
        super().__init__(backing, control)
        self._lock = threading.Lock()

    def note(self, name: str, path: str) -> None:
        """Stop this process if that was asked for after this call."""
        cut = self._control.with_suffix(".cut")
        if self._fault != name or (name == "open" and not self._is_data(path)):
            return
        with self._lock:
            if not cut.exists():
                cut.touch()
                # The answer to this call goes out before, since a process that waits for an answer cannot be killed.
                threading.Timer(_ANSWERED_S, os.kill, (os.getpid(), signal.SIGSTOP)).start()


for name, call in list(vars(FaultyFiles).items()):
    if callable(call) and not name.startswith("_"):
        setattr(DistantFiles, name, _noted(name, call))


if __name__ == "__main__":
    backing, mount, control = sys.argv[1:]
    options = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0, "direct_io": True}
    mfusepy.FUSE(DistantFiles(backing, control), mount, foreground=True, **options)
