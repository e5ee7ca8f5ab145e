"""Hosts on one network. Each has its own address, name, processes, ``/tmp`` and home; a test cuts it off."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

CHECKOUT = Path(__file__).parents[2]
_PROGRAMS = ("ip", "nsenter", "unshare")
_NOBODY = "02:00:00:00:00:01"
"""The hardware address of no host."""
_NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")


class HostsImpossibleError(RuntimeError):
    """This process may not make hosts. The message has the reason."""


@dataclass(frozen=True)
class Host:
    """A host that has an address. ``command`` is the beginning of a command that runs there.

    ``folder`` is the disk of the host: no other host sees it, and this process sees it under the same path. ``shared``
    are folders that it sees besides.
    """

    name: str
    address: str
    folder: Path
    command: Sequence[str] = ()
    shared: Sequence[Path] = ()


@dataclass
class Network:
    """Namespaces of Linux on a bridge. This process has the address ``gateway`` there, and none of their namespaces.

    ``folder`` is this process's folder, of which a host sees its own disk, and what it is given.
    """

    number: int
    folder: Path
    hosts: dict[str, Host] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        """The address of this process in the network."""
        return self._address(1)

    @property
    def names(self) -> Path:
        """The file of names and addresses that all hosts have."""
        return self.folder / "hosts"

    def _address(self, last: int) -> str:
        return f"10.77.{self.number}.{last}"

    def _link(self, address: str) -> str:
        return f"hv{self.number}p{address.rpartition('.')[2]}"

    def add(self, name: str, shared: Sequence[Path] = (), mounts: Sequence[str] = (), **kernel: int) -> Host:
        """Add a host that sees the ``shared`` folders.

        ``mounts`` are commands that change its view of the files; ``kernel`` has parameters of its TCP.
        """
        address = self._address(len(self.hosts) + 2)
        folder = self.folder / name
        folder.mkdir(parents=True)
        with self.names.open("a") as names:
            names.write(f"{address} {name}\n")
        lines = (f"hostname {name}", f"mount --bind {self.names} /etc/hosts", *_own_view((folder, *shared)), *mounts)
        # It ends when its input does, so that no host outlives this process; the other processes of it end with it.
        script = "\n".join(("set -e", *lines, "echo ready", "while read -r; do :; done"))
        process = self._processes[name] = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc", "bash", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise HostsImpossibleError(f"host {name} did not start")
        first = str(psutil.Process(process.pid).children()[0].pid)
        enter = ("nsenter", "--target", first, *_NAMESPACES)
        inside = ("bash", "-c", 'unset TMPDIR; cd "$0"; exec "$@"', str(folder))
        host = self.hosts[name] = Host(name, address, folder, (*enter, *inside), tuple(shared))
        link = self._link(address)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", first)
        _run("ip", "link", "set", link, "master", _bridge(self.number), "up")
        for each in (
            ("ip", "addr", "add", f"{address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
            ("ip", "link", "set", "lo", "up"),
            *(("sysctl", "-q", "-w", f"net.ipv4.{key}={value}") for key, value in kernel.items()),
        ):
            _run(*host.command, *each)
        return host

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts. Neither gets an error, and connections stay open."""
        self._neighbours(one, other, "replace", "lladdr", _NOBODY, "nud", "permanent")

    def heal(self, one: str, other: str) -> None:
        """Let all pass again between two hosts whose link was cut."""
        self._neighbours(one, other, "del")

    def _neighbours(self, one: str, other: str, action: str, *options: str) -> None:
        for host, neighbour in ((one, other), (other, one)):
            command, address = self.hosts[host].command, self.hosts[neighbour].address
            _run(*command, "ip", "neigh", action, address, *options, "dev", "eth0")

    def vanish(self, name: str) -> None:
        """Let a host vanish: its link is cut first, so that no connection is closed, and then its processes die."""
        _run("ip", "link", "set", self._link(self.hosts[name].address), "down")
        self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        # The kernel removes the link a moment after the last process, if it is still there.
        subprocess.run(["ip", "link", "del", self._link(self.hosts[name].address)], capture_output=True, check=False)

    def remove(self) -> None:
        """Remove all hosts with their processes."""
        for name in list(self._processes):
            self._kill(name)
        _run("ip", "link", "del", _bridge(self.number))


def _own_view(seen: Sequence[Path]) -> Iterator[str]:
    """Yield commands that give a host its own /tmp and home, which have only these folders of this machine's.

    It also sees the programs that run: the checkout, its environment, its Python and its Java.
    """
    programs = [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)]
    if java := shutil.which("java"):
        programs.append(Path(java).resolve().parents[1])
    for own, mode in ((Path("/tmp"), "1777"), (Path.home(), "700")):
        # It is made at another place, from where it can have folders of the one that it will hide.
        yield f"mount -t tmpfs -o mode={mode} none /mnt"
        for each in sorted({path.resolve() for path in (*programs, *seen)}):
            if each.is_relative_to(own):
                place = shlex.quote(f"/mnt/{each.relative_to(own)}")
                yield f"mkdir -p {place}; mount --rbind {shlex.quote(str(each))} {place}"
        yield f"mount --move /mnt {shlex.quote(str(own))}"


def _bridge(number: int) -> str:
    return f"hvb{number}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Yield a network without hosts, whose files are below a folder, and remove it afterwards.

    Raises:
        HostsImpossibleError: this process may not make network namespaces.
    """
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        raise HostsImpossibleError(f"{missing[0]} is not installed; it is in the package iproute2 or util-linux")
    _try("unshare", *_NAMESPACES, "--fork", "--mount-proc", "mount", "-t", "tmpfs", "none", "/mnt")
    made = Network(_free_number(), folder)
    try:
        _run("ip", "addr", "add", f"{made.gateway}/24", "dev", _bridge(made.number))
        _run("ip", "link", "set", _bridge(made.number), "up")
        folder.mkdir(parents=True, exist_ok=True)
        made.names.write_text(f"127.0.0.1 localhost\n{made.gateway} gateway\n")
        yield made
    finally:
        made.remove()


def _free_number() -> int:
    """Make the bridge of a network, and return its number, which no other one of this machine has."""
    for number in range(os.getpid() % 100, 200):
        if not Path(f"/sys/class/net/{_bridge(number)}").exists():
            _try("ip", "link", "add", _bridge(number), "type", "bridge")
            return number
    raise HostsImpossibleError("there are too many networks of earlier tests; see `ip link`")


def _try(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip()
        raise HostsImpossibleError(
            f"this user may not make namespaces of Linux: {reason} (`{' '.join(command[:4])} ...`)"
        )
