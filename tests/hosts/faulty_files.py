"""The program that serves a faulty folder: ``python -m tests.hosts.faulty_files BACKING MOUNT CONTROL``."""

# Each method passes on a call of the system.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH112, PTH115, PTH208, PTH211

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import mfusepy


class FaultyFiles(mfusepy.Operations):  # type: ignore[misc]
    """The calls of a file system, passed on to the folder ``backing``; the file ``control`` has the fault."""

    use_ns = True

    def __init__(self, backing: str, control: str) -> None:
        self._backing = backing
        self._control = Path(control)
        self._new: dict[str, int] = {}
        self._last = ""

    @property
    def _fault(self) -> str:
        found = self._control.read_text()
        if found != self._last:
            self._last, self._new = found, {}
        return found

    def _is_data(self, path: str) -> bool:
        return path.rpartition("/")[2].startswith(("part-", "bucket_", "kept", "rows")) and ".crc" not in path

    def _number(self, path: str) -> int:
        """The number of a file among those that were written under the fault, -1 for earlier files."""
        return self._new.get(path, -1) if self._fault and self._is_data(path) else -1

    def _is_short(self, path: str) -> bool:
        return self._fault == "short" and self._is_data(path)

    # -- entries ------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = os.lstat(self._backing + path)
        names = "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino", "st_blocks", "st_blksize"
        found: dict[str, Any] = {name: getattr(status, name) for name in names}
        found |= {f"st_{name}time": getattr(status, f"st_{name}time_ns") for name in ("a", "m", "c")}
        if self._is_short(path):
            found["st_size"] //= 2
        return found

    def access(self, path: str, amode: int) -> int:
        if not os.access(self._backing + path, amode):
            raise mfusepy.FuseOSError(errno.EACCES)
        return 0

    def readdir(self, path: str, fh: int) -> Any:
        names = sorted(os.listdir(self._backing + path))
        full = {name: f"{path.rstrip('/')}/{name}" for name in names}
        if self._fault == "late":
            names = [name for name in names if self._number(full[name]) % 2 == 0 or self._number(full[name]) < 0]
        if self._fault == "missing":
            data = [name for name in names if self._is_data(full[name])]
            names = [name for name in names if name not in data[:1]]
        return [".", "..", *names]

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._backing + path, mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._backing + path)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._backing + path)
        return 0

    def symlink(self, target: str, source: str) -> int:
        os.symlink(source, self._backing + target)
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(self._backing + path)

    def link(self, target: str, source: str) -> int:
        os.link(self._backing + source, self._backing + target)
        if self._number(source) >= 0:
            self._new[target] = self._new[source]
        return 0

    def rename(self, old: str, new: str, *_: Any) -> int:
        is_folder = os.path.isdir(self._backing + old)
        if self._fault == "kept" and not is_folder and self._is_data(new):
            return 0
        if self._fault == "kept-folder" and is_folder:
            return 0
        os.rename(self._backing + old, self._backing + new)
        for path in [each for each in self._new if each == old or each.startswith(f"{old}/")]:
            self._new[new + path[len(old) :]] = self._new.pop(path)
        return 0

    # -- files --------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        if self._fault and self._is_data(path):
            self._new.setdefault(path, len(self._new))
        return os.open(self._backing + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        if self._fault == "unreadable" and self._is_data(path):
            raise mfusepy.FuseOSError(errno.EIO)
        return os.open(self._backing + path, flags & ~os.O_APPEND)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        if self._is_short(path):
            size = max(0, min(size, os.fstat(fh).st_size // 2 - offset))
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._backing + path, length)
        return 0

    def flush(self, path: str, fh: int) -> int:
        number = self._number(path)
        if self._fault == "error" and number >= 0 and number % 3 == 2:
            raise mfusepy.FuseOSError(errno.EIO)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    def release(self, path: str, fh: int) -> int:
        if self._fault == "cut" and self._number(path) >= 0:
            os.ftruncate(fh, os.fstat(fh).st_size // 2)
            # Only its first end loses a part.
            del self._new[path]
        os.close(fh)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._backing + path, mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self._backing + path, uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._backing + path, ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._backing + path)
        names = "f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize"
        return {name: getattr(found, name) for name in names}


if __name__ == "__main__":
    backing, mount, control = sys.argv[1:]
    # Nothing is remembered, so that each fault shows at once.
    options = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0, "direct_io": True}
    mfusepy.FUSE(FaultyFiles(backing, control), mount, foreground=True, nothreads=True, **options)
