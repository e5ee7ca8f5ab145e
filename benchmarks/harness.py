"""Timing several ways of doing one thing side by side, because machines are noisy."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a report: seconds of the case and of its peer, and their ratio against the goal.

    ``count`` is how many things were done in these seconds, where that can be said.
    """

    name: str
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float
    goal: float
    count: int | None = None

    @property
    def reached(self) -> bool:
        return self.ratio <= self.goal

    @classmethod
    def headings(cls) -> tuple[str, ...]:
        return ("measured", "seconds", "per second", "against", "seconds", "per second", "ratio", "goal", "")

    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            f"{self.seconds:.4g}",
            _rate(self.count, self.seconds),
            self.peer,
            f"{self.peer_seconds:.4g}",
            _rate(self.count, self.peer_seconds),
            f"{self.ratio:.3f}",
            f"{self.goal:.2f}",
            "reached" if self.reached else "missed",
        )


def interleave(
    cases: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up: int = 1,
    at_least_s: float = 0,
    swap: bool = False,
) -> dict[str, list[float]]:
    """Seconds of every counted round of each case; the cases take turns within a round.

    Rounds go on after ``rounds`` until ``at_least_s`` seconds have passed, as a few short ones say little. A case that
    returns a float has measured itself. With ``swap`` every other round goes backwards, so that no case gains by its
    place.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    began = time.perf_counter()
    for number in itertools.count():
        if number >= warm_up + rounds and time.perf_counter() - began >= at_least_s:
            break
        for name, case in reversed(cases.items()) if swap and number % 2 else cases.items():
            started = time.perf_counter()
            own = case()
            elapsed = own if isinstance(own, float) else time.perf_counter() - started
            if number >= warm_up:
                seconds[name].append(elapsed)
    return seconds


def compare(
    name: str, seconds: Mapping[str, list[float]], case: str, peer: str, goal: float, count: int | None = None
) -> Figure:
    """The median seconds of a case and its peer, and the median of their ratios round by round."""
    ratios = [ours / theirs for ours, theirs in zip(seconds[case], seconds[peer], strict=True)]
    # A benchmark takes minutes: one line as soon as something is known.
    print(f"{name}: {statistics.median(ratios):.3f} of {peer}, goal {goal:.2f}", file=sys.stderr, flush=True)
    return Figure(
        name,
        _rounded(statistics.median(seconds[case])),
        peer,
        _rounded(statistics.median(seconds[peer])),
        round(statistics.median(ratios), 3),
        round(goal, 3),
        count,
    )


def _rounded(seconds: float) -> float:
    """Return four significant digits: a hit of the cache takes a few microseconds."""
    return float(f"{seconds:.4g}")


def within(name: str, seconds: list[float], limit: float) -> Figure:
    """The median seconds of a case, against a limit instead of a peer."""
    return compare(name, {"case": seconds, "limit": [limit] * len(seconds)}, "case", "limit", goal=1.0)


class Line(Protocol):
    """A line of a report, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def headings(cls) -> tuple[str, ...]:
        """The headings of the columns."""

    def cells(self) -> tuple[str, ...]:
        """The texts below them."""


def _rate(count: int | None, seconds: float) -> str:
    return "" if count is None else f"{count / seconds:,.0f}"


def report(title: str, lines: Sequence[Line]) -> None:
    """Print the lines as a table and as JSON, and write the JSON below ``benchmarks/results``."""
    table = Table(title=title)
    for heading in lines[0].headings():
        table.add_column(heading, justify="left" if heading in ("measured", "against", "") else "right")
    for line in lines:
        table.add_row(*line.cells())
    console = Console(width=150)
    console.print(table)
    document = json.dumps({"title": title, "figures": [asdict(line) for line in lines]}, indent=2)
    console.print(document, highlight=False)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{title.lower().replace(' ', '_')}.json").write_text(document + "\n")
