"""Prints what the histories had in them at the end of the run."""

from __future__ import annotations

import pytest

COUNTS: dict[str, str] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COUNTS:
        terminalreporter.section("histories of client processes")
        for title, text in COUNTS.items():
            terminalreporter.write_line(f"{title}: {text}")


@pytest.fixture
def counts() -> dict[str, str]:
    """What is printed after the run, by title."""
    return COUNTS
