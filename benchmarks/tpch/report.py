"""The output and report of the benchmark: seconds of each step, next to those of plain Spark."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks.harness import RESULTS


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a step; with the seconds of plain Spark, if it has an equal step."""

    step: str
    seconds: float
    plain_seconds: float | None = None


@dataclass(slots=True)
class Timings:
    """The steps in their order, and what was seen besides."""

    steps: list[Timing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, step: str, seconds: float, plain_seconds: float | None = None) -> None:
        """Keep a step's seconds, and print them: all of it takes minutes."""
        self.steps.append(Timing(step, round(seconds, 4), None if plain_seconds is None else round(plain_seconds, 4)))
        of_spark = "" if plain_seconds is None else f", plain Spark {plain_seconds:.2f} s"
        print(f"{step}: {seconds:.2f} s{of_spark}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(text, file=sys.stderr, flush=True)


def report(timings: Timings, scale: float) -> None:
    """Print a table and the notes, and write both as JSON below ``benchmarks/results``."""
    table = Table(title=f"TPC-H at scale {scale:g} over two clusters; all rows verified")
    for heading in ("step", "seconds", "plain Spark", "ratio"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for step in timings.steps:
        plain = step.plain_seconds
        of_spark = ("", "") if plain is None else (f"{plain:.2f}", f"{step.seconds / plain:.2f}")
        table.add_row(step.step, f"{step.seconds:.2f}", *of_spark)
    console = Console(width=120)
    console.print(table)
    for note in timings.notes:
        console.print(note, highlight=False, markup=False)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tpch.json").write_text(json.dumps({"scale": scale, **asdict(timings)}, indent=2) + "\n")
