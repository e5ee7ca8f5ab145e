"""Hosts with an address each, on one network, whose links a test cuts."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

_numbers = itertools.count(os.getpid() % 200)


@dataclass
class Network:
    """Network namespaces on a bridge. This process has the address ``gateway`` there."""

    number: int
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        return f"10.77.{self.number}.1"

    @property
    def _bridge(self) -> str:
        return f"hvb{self.number}"

    def _host(self, name: str) -> str:
        return f"hv{self.number}{name}"

    def add(self, name: str, **kernel: int) -> str:
        """Add a host and return its address; ``kernel`` has parameters of its TCP."""
        host, address = self._host(name), f"10.77.{self.number}.{len(self.addresses) + 2}"
        _run("ip", "netns", "add", host)
        self.addresses[name] = address
        _run("ip", "link", "add", f"v{host}", "type", "veth", "peer", "name", "eth0", "netns", host)
        _run("ip", "link", "set", f"v{host}", "master", self._bridge, "up")
        for each in (
            ("ip", "addr", "add", f"{address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
            ("ip", "link", "set", "lo", "up"),
            *(("sysctl", "-q", "-w", f"net.ipv4.{key}={value}") for key, value in kernel.items()),
        ):
            _run(*self.on(name), *each)
        return address

    def on(self, name: str) -> list[str]:
        """Return the beginning of a command that runs it on a host."""
        return ["ip", "netns", "exec", self._host(name)]

    def vanish(self, name: str) -> None:
        """Let a host vanish: its link is cut first, so that no connection is closed, and then its processes die."""
        _run("ip", "link", "set", f"v{self._host(name)}", "down")
        self._kill(name)

    def _kill(self, name: str) -> None:
        found = subprocess.run(["ip", "netns", "pids", self._host(name)], capture_output=True, text=True, check=False)
        for process in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def remove(self) -> None:
        """Remove all hosts with their processes."""
        for name in self.addresses:
            self._kill(name)
            _run("ip", "netns", "del", self._host(name))
        _run("ip", "link", "del", self._bridge)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def network() -> Iterator[Network]:
    """Yield a network, and remove it afterwards. Skip the test where this process may not make one."""
    made = Network(next(_numbers))
    bridge = ["ip", "link", "add", f"hvb{made.number}", "type", "bridge"]
    if shutil.which("ip") is None or subprocess.run(bridge, capture_output=True, check=False).returncode:
        pytest.skip("this user may not make network namespaces")
    try:
        _run("ip", "addr", "add", f"{made.gateway}/24", "dev", f"hvb{made.number}")
        _run("ip", "link", "set", f"hvb{made.number}", "up")
        yield made
    finally:
        made.remove()
