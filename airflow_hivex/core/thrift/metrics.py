"""Counts of calls and connections, in the text form of Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

_BOUNDS_S = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_PREFIX = "hivex_metastore"


class Metric(NamedTuple):
    """A metric of the endpoint, with the kind that it has for Prometheus."""

    kind: str
    labels: tuple[str, ...]
    value: str


METRICS = {
    f"{_PREFIX}_connections": Metric("gauge", (), "clients that are connected"),
    f"{_PREFIX}_connections_refused_total": Metric("counter", (), "connections that were refused"),
    f"{_PREFIX}_calls_total": Metric("counter", ("method", "outcome"), "calls that have ended"),
    f"{_PREFIX}_calls_from_memory_total": Metric("counter", ("method",), "calls that the cache has answered"),
    f"{_PREFIX}_call_seconds": Metric("histogram", ("method",), "the times of calls, in seconds"),
}


class Metrics:
    """The counts of one server. Only the thread of its event loop writes them."""

    def __init__(self) -> None:
        self.connections = 0
        self.refused = 0
        self.malformed = RateOfErrors()
        self._calls: dict[tuple[str, str], int] = defaultdict(int)
        self._from_memory: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._buckets: dict[str, list[int]] = {}

    def count(self, method: str, outcome: str, elapsed_s: float, *, from_memory: bool) -> None:
        """Count a call, its outcome and its time."""
        self._calls[method, outcome] += 1
        self._seconds[method] += elapsed_s
        if from_memory:
            self._from_memory[method] += 1
        buckets = self._buckets.get(method)
        if buckets is None:
            buckets = self._buckets[method] = [0] * (len(_BOUNDS_S) + 1)
        buckets[bisect_left(_BOUNDS_S, elapsed_s)] += 1

    def calls(self, method: str, outcome: str = "ok") -> int:
        """Return the number of calls of a method that ended so."""
        return self._calls.get((method, outcome), 0)

    def text(self) -> str:
        """Return the counts as Prometheus reads them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head(f"{_PREFIX}_connections")
        yield f"{_PREFIX}_connections {self.connections}"
        yield from _head(f"{_PREFIX}_connections_refused_total")
        yield f"{_PREFIX}_connections_refused_total {self.refused}"
        yield from _head(f"{_PREFIX}_calls_total")
        for (method, outcome), number in sorted(self._calls.items()):
            yield f'{_PREFIX}_calls_total{{method="{method}",outcome="{outcome}"}} {number}'
        yield from _head(f"{_PREFIX}_calls_from_memory_total")
        for method, number in sorted(self._from_memory.items()):
            yield f'{_PREFIX}_calls_from_memory_total{{method="{method}"}} {number}'
        yield from _head(f"{_PREFIX}_call_seconds")
        for method, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, number in zip((*_BOUNDS_S, "+Inf"), buckets, strict=True):
                total += number
                yield f'{_PREFIX}_call_seconds_bucket{{method="{method}",le="{bound}"}} {total}'
            yield f'{_PREFIX}_call_seconds_sum{{method="{method}"}} {self._seconds[method]:.6f}'
            yield f'{_PREFIX}_call_seconds_count{{method="{method}"}} {total}'


def _head(name: str) -> Iterator[str]:
    yield f"# HELP {name} {METRICS[name].value}"
    yield f"# TYPE {name} {METRICS[name].kind}"


class RateOfErrors:
    """Limits the errors a minute that a client can cause in the log, so that no client can fill it."""

    def __init__(self, most: int = 10, per_s: float = 60, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._per_s = per_s
        self._monotonic = monotonic
        self._since: dict[str, tuple[float, int]] = {}

    def may_log(self, peer: str) -> bool:
        """Return whether an error of a client may be logged, and count it."""
        now = self._monotonic()
        began, number = self._since.get(peer, (now, 0))
        if now - began > self._per_s:
            began, number = now, 0
        if len(self._since) > 10_000:
            self._since.clear()
        self._since[peer] = (began, number + 1)
        return number < self._most
