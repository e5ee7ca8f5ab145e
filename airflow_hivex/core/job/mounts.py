"""The disks of a host, from the list of mounts of Linux."""

from __future__ import annotations

import os
import re
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")
"""The escape of a space or of another special character in the list of mounts."""
_OWN_DISKS = (
    *("bcachefs", "btrfs", "devtmpfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay"),
    *("ramfs", "reiserfs", "rootfs", "tmpfs", "vfat", "xfs", "zfs"),
)
"""The types of file systems that only this host writes to."""


def is_own_disk(path: str) -> bool:
    """Return whether a local path is on a disk of this host, where listings and sizes are correct at once.

    A network file system, or a program such as FUSE, can show changes late.
    """
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        # Only Linux has this list.
        return True
    real, kinds = f"{os.path.realpath(path)}/", _kinds_of(mounts)
    above = max((each for each in kinds if real.startswith(f"{each.rstrip('/')}/")), key=len, default="")
    return kinds.get(above) in _OWN_DISKS


def _kinds_of(mounts: str) -> dict[str, str]:
    """Return a dict from mount point to type of file system, read from the text of the list of mounts."""
    # No cache of functools: tasks would look for it in this package, which executors do not have.
    kinds = {}
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        kinds[_OCTAL.sub(lambda code: chr(int(code[1], 8)), mount.split(" ")[4])] = kind.split(" ")[0]
    return kinds
