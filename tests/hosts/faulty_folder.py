"""A file system that answers late or wrong on demand: it shows a folder, by FUSE, with one fault at a time.

The text of the control file names the fault; an empty file means no fault. A fault concerns files that are written from
then on, except for ``missing`` and ``short``. A process of its own serves it (:mod:`faulty_files`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

WRITE_FAULTS = ("late", "cut", "kept", "kept-folder", "error")
"""A listing lacks every second new file; files lose their second half when they are closed; a rename of a file, or of a
folder, answers that it happened, and did not; every third file cannot be closed."""
READ_FAULTS = ("missing", "short", "unreadable")
"""A listing lacks files that were there; the second half of each file is gone; no file can be read."""


class FaultyFolder:
    """The mounted folder: ``path`` is what its users see."""

    def __init__(self, path: Path, control: Path) -> None:
        self.path = path
        self._control = control

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Answer with a fault inside the block."""
        self._control.write_text(name)
        try:
            yield
        finally:
            self._control.write_text("")


@contextmanager
def faulty_folder(folder: Path) -> Iterator[FaultyFolder]:
    """Mount a new faulty folder below ``folder``; skip the test where that cannot be done."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        pytest.skip("this user may not mount file systems by FUSE")
    backing, mount, control = folder / "backing", folder / "mount", folder / "control"
    for each in (backing, mount):
        each.mkdir()
    control.write_text("")
    command = [sys.executable, "-m", "tests.hosts.faulty_files", str(backing), str(mount), str(control)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: mount.is_mount() or process.poll() is not None, limit_s=30)
            assert process.poll() is None, (folder / "log").read_text()
            yield FaultyFolder(mount, control)
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(mount)], check=False)
            # A Spark that has a file open keeps it mounted.
            process.kill()
