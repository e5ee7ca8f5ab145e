"""Processes of their own, each with a cache and a follower, that a test drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.cache.conftest import Process, Writer
from tests.processes import CONTEXT, ClientProcess

T = TypeVar("T")
_PATIENCE_S = 60


class Peer:
    """The parts of a driven process: ``process`` with the cache, and ``writer``, which changes through the cache."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        # As Metastore.open has it: the follower begins with the first read by a list, and catches up on command.
        self.process = Process(store, clusters, system_clock)
        self.writer = Writer(self.process.catalog, TransactionManager(store, Settings({}), system_clock))


class DrivenProcess:
    """A process of the operating system; as long as a question has no answer, the test goes on."""

    def __init__(self, client: ClientProcess, connection: Connection) -> None:
        self._client = client
        self._connection = connection

    def begin(self, function: Callable[..., object], *arguments: Any) -> None:
        """Let the process call a function with its :class:`Peer`, for :meth:`answer`."""
        self._connection.send((function, arguments))

    def answer(self) -> Any:
        """What the function returned.

        Raises:
            Exception: that of the function.
        """
        assert self._connection.poll(_PATIENCE_S), "the process has not answered"
        is_error, answer = self._connection.recv()
        if is_error:
            raise answer
        return answer

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function with the process's :class:`Peer`, and return its answer."""
        self.begin(function, *arguments)
        answer: T = self.answer()
        return answer


@contextmanager
def driven_processes(
    count: int, url: str, clusters: Mapping[str, Any], folder: Path
) -> Iterator[Sequence[DrivenProcess]]:
    """Processes over one metastore; they end with the block."""
    with ExitStack() as stack:
        found = []
        for number in range(count):
            near, far = CONTEXT.Pipe()
            client = ClientProcess(_serve, url, dict(clusters), far, log=folder / f"process-{number}")
            stack.enter_context(client)
            stack.callback(near.close)
            far.close()
            found.append(DrivenProcess(client, near))
        yield found


def _serve(url: str, clusters: dict[str, Any], connection: Connection) -> None:
    store = Store(url)
    peer = Peer(store, Clusters.from_properties(clusters, "c1"))
    try:
        while True:
            try:
                function, arguments = connection.recv()
            except EOFError:
                return
            try:
                answer = (False, function(peer, *arguments))
            except Exception as error:
                answer = (True, error)
            connection.send(answer)
    finally:
        store.close()
