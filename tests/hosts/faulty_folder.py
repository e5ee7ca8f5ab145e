"""A file system that answers late or wrong on demand: it shows a folder, by FUSE, with one fault at a time.

The text of the control file names the fault; an empty file means no fault. A fault concerns files that are written from
then on, except for ``missing`` and ``short``. A process of its own serves it (:mod:`faulty_files`).
"""

from __future__ import annotations

import os
import shutil
import signal
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
    backing = folder / "backing"
    backing.mkdir()
    with _mounted(folder, backing, "tests.hosts.faulty_files") as (path, control, _):
        yield FaultyFolder(path, control)


class DistantFolder:
    """What one host sees of a folder on another host: ``path`` shows the folder. The link between them can be cut.

    Then each call waits until the link is there again, and can be killed, as on a hard mount of NFS.
    """

    def __init__(self, path: Path, control: Path, process: subprocess.Popen[bytes]) -> None:
        self.path = path
        self._control = control
        self._process = process

    def cut(self) -> None:
        """Cut the link now."""
        self._process.send_signal(signal.SIGSTOP)

    def cut_at(self, call: str) -> None:
        """Cut the link after the next ``rename``, or ``open`` of a file with rows; then :attr:`is_cut` holds."""
        self._control.write_text(call)

    @property
    def is_cut(self) -> bool:
        """Whether the call of :meth:`cut_at` has come."""
        return self._control.with_suffix(".cut").exists()

    def heal(self) -> None:
        """Let calls through again, also those that wait."""
        self._control.write_text("")
        self._control.with_suffix(".cut").unlink(missing_ok=True)
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def distant_folder(folder: Path, backing: Path) -> Iterator[DistantFolder]:
    """Mount a view of the folder ``backing`` below ``folder``; skip the test where that cannot be done."""
    folder.mkdir()
    with _mounted(folder, backing, "tests.hosts.distant_files") as (path, control, process):
        yield DistantFolder(path, control, process)


@contextmanager
def _mounted(folder: Path, backing: Path, program: str) -> Iterator[tuple[Path, Path, subprocess.Popen[bytes]]]:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        pytest.skip("this user may not mount file systems by FUSE")
    mount, control = folder / "mount", folder / "control"
    mount.mkdir()
    control.write_text("")
    command = [sys.executable, "-m", program, str(backing), str(mount), str(control)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: mount.is_mount() or process.poll() is not None, limit_s=30)
            assert process.poll() is None, (folder / "log").read_text()
            yield mount, control, process
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(mount)], check=False)
            # A Spark that has a file open keeps it mounted.
            process.kill()
