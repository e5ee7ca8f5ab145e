"""Teams of client processes that work at the same time, as often as the orders say."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Worker:
    """A client in a process of its own; its methods are the kinds of work."""

    def work(self, name: str, count: int) -> None:
        """Do some work ``count`` times."""
        for _ in range(count):
            getattr(self, name)()


@contextmanager
def team(worker: Callable[[Any, int], Worker], where: object, size: int) -> Iterator[list[Any]]:
    """Connections to processes that are ready to work; each has made a worker of ``where`` and its number."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([worker.__module__])
    members, processes = [], []
    try:
        for number in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(worker, where, number, theirs), daemon=True)
            process.start()
            theirs.close()
            members.append(ours)
            processes.append(process)
        for member in members:
            member.recv()
        yield members
    finally:
        for member in members:
            member.close()
        for process in processes:
            process.join(30)
            process.kill()


def _serve(worker: Callable[[Any, int], Worker], where: object, number: int, orders: Any) -> None:
    own = worker(where, number)
    orders.send(None)
    while True:
        try:
            work, count = orders.recv()
        except EOFError:
            return
        own.work(work, count)
        orders.send(None)


def case(members: list[Any], work: str, count: int) -> Callable[[], None]:
    """A round: each member does the work ``count`` times, all at the same time."""

    def round_() -> None:
        for member in members:
            member.send((work, count))
        for member in members:
            member.recv()

    return round_
