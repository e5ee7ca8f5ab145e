"""How much of the long tests a run does: a share that each commit draws, or all of it.

``make evidence`` does all (``HIVEX_EVIDENCE=1``). ``make test`` does a share of each long test. The seed that draws
the shares is the commit; the first lines of a run print it, and ``HIVEX_RANDOM_SEED`` repeats one.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")

IS_WHOLE = os.environ.get("HIVEX_EVIDENCE", "0") not in ("", "0")
"""Whether this run does all of the long tests."""
COUNT = "count: "
"""Begins the names of what tests have counted, among the properties of their reports."""
SEED_VARIABLE = "HIVEX_RANDOM_SEED"
_ROOT = Path(__file__).parents[1]


def seed_of(folder: Path) -> int:
    """Return the seed of a checkout: from its commit, or from the date where there is no Git."""
    # A folder without a repository of its own may lie in a repository of something else.
    commit = _git(folder, "rev-parse", "HEAD") if (folder / ".git").exists() else None
    return int(commit[:12], 16) % 1_000_000 if commit else date.today().toordinal()  # noqa: DTZ011 - any number does


def _git(folder: Path, *arguments: str) -> str | None:
    """What Git answers; None where it is not installed, or does not trust the owner of the folder."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


SEED = int(os.environ.setdefault(SEED_VARIABLE, str(seed_of(_ROOT))))
"""What draws the shares. The processes of a run have the same one, because they inherit the variable."""


def amount(variable: str, share: int, whole: int) -> int:
    """Return how often a test repeats its work: ``share`` times in ``make test``, ``whole`` times in ``make evidence``.

    ``variable`` is the name of an environment variable that sets another number.
    """
    return int(os.environ.get(variable) or (whole if IS_WHOLE else share))


def does_all(variable: str) -> bool:
    """Return whether a test does all that it can; ``variable`` asks for it in ``make test``, too."""
    return IS_WHOLE or os.environ.get(variable, "0") not in ("", "0")


def drawn(name: str, items: Sequence[T], share: int) -> list[T]:
    """Return all of the items in ``make evidence``, and that number of them, in their order, in ``make test``."""
    if IS_WHOLE or share >= len(items):
        return list(items)
    numbers = random.Random(f"{SEED} {name}").sample(range(len(items)), share)
    return [items[number] for number in sorted(numbers)]


def described() -> str:
    """Return the line that a run prints about its shares."""
    does = "all of the long tests" if IS_WHOLE else "a share of the long tests"
    return f"evidence: {does}, {SEED_VARIABLE}={SEED}"


class Counted:
    """What the tests of a run have counted, by title; numbers of one title are added up. A plugin of pytest.

    With a page it is written there when a test has ended, so that a run that is stopped loses nothing.
    """

    def __init__(self, page: Path | None) -> None:
        self._page = page
        self._texts: dict[str, str] = {}
        self._sums: dict[str, Counter[str]] = {}
        self._modules: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a test. The report of its teardown repeats its numbers; failed tests count nothing."""
        if report.when == "call" or not report.passed:
            self._modules.setdefault(report.location[0], Counter())[report.outcome] += 1
        titles = []
        for name, counted in report.user_properties if report.when == "call" and report.passed else ():
            title = name.removeprefix(COUNT)
            if title == name:
                continue
            titles.append(title)
            if isinstance(counted, str):
                self._texts[title] = counted
            else:
                assert isinstance(counted, Mapping)
                self._sums.setdefault(title, Counter()).update(counted)
        if self._page is not None and (titles or report.when == "call" or not report.passed):
            module = report.location[0]
            outcomes = self._modules[module]
            by_title = self.by_title()
            counts = {title: by_title[title] for title in titles}
            write_counts(self._page, {**counts, f"`{module}`": _listed(outcomes) if outcomes["failed"] else None})

    def by_title(self) -> dict[str, str]:
        """Return the texts and the sums, sorted by title."""
        summed = {title: _listed(numbers) for title, numbers in self._sums.items()}
        return dict(sorted((self._texts | summed).items()))


def _listed(numbers: Counter[str]) -> str:
    return ", ".join(f"{n:,} {what}" for what, n in numbers.items())


def write_counts(page: Path, counted: Mapping[str, str | None]) -> None:
    """Write what the tests have counted into a page, without lines of None; those of other tests stay as they are."""
    found = page.read_text() if page.exists() else ""
    lines = {line.split(" | ")[0]: line for line in found.splitlines() if line.startswith("| ") and line not in _HEAD}
    for title, text in counted.items():
        if text is None:
            lines.pop(f"| {title}", None)
            continue
        cell = "<br>".join(each.strip() for each in text.replace("|", "\\|").splitlines())
        lines[f"| {title}"] = f"| {title} | {cell} | {_commit()} | {date.today():%Y-%m-%d} |"  # noqa: DTZ011
    page.write_text("\n".join([*_HEAD, *(lines[key] for key in sorted(lines)), ""]))


@cache
def _commit() -> str:
    return _git(_ROOT, "rev-parse", "--short", "HEAD") or "unknown"


_HEAD = (
    "# Counts of the long tests",
    "",
    "`make evidence` runs all of the long tests (`tests/README.md`), and writes their counts here when one has ended;",
    "`make evidence PYTEST=tests/histories` runs a part. A module has a line only if one of its tests has failed.",
    "[Evidence for the promises of transactions](transactions-evidence.md) explains the histories.",
    "",
    "| Test | Counts | Commit | Date |",
    "|---|---|---|---|",
)
