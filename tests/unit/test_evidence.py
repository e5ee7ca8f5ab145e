"""The shares of the long tests: the same ones for a commit, others for other commits, and nothing is never tried."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import evidence


def commit(folder: Path) -> None:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *identity, "commit", "--quiet", "--allow-empty", "--message", "Change nothing"]
    subprocess.run(command, check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="Git is not installed: each run has the seed of the day")
def test_each_commit_has_a_seed_of_its_own(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    # Without a commit, and without Git, it is that of the day.
    of_the_day = evidence.seed_of(tmp_path)
    assert evidence.seed_of(tmp_path / "archive") == of_the_day
    commit(tmp_path)
    first = evidence.seed_of(tmp_path)
    assert evidence.seed_of(tmp_path) == first
    subprocess.run(["git", "-C", str(tmp_path), "checkout", "--quiet", "--orphan", "other"], check=True)
    assert evidence.seed_of(tmp_path) == of_the_day
    assert len({of_the_day, first}) == 2


def test_every_item_is_drawn_at_some_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "IS_WHOLE", False)
    items = list("abcdefghij")
    found = set()
    for seed in range(100):
        monkeypatch.setattr(evidence, "SEED", seed)
        share = evidence.drawn("letters", items, 3)
        assert share == sorted(share) == evidence.drawn("letters", items, 3)
        assert len(share) == 3
        found.update(share)
    assert found == set(items)
    monkeypatch.setattr(evidence, "IS_WHOLE", True)
    assert evidence.drawn("letters", items, 3) == items


def test_counts_of_tests_that_did_not_run_stay_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "evidence.md"
    evidence.write_counts(page, {"kills": "50 of each", "faults": "7 | 8\nand more"})
    evidence.write_counts(page, {"kills": "60 of each"})
    lines = [line for line in page.read_text().splitlines() if line.startswith(("| kills", "| faults"))]
    assert [line.split(" | ")[1] for line in lines] == [r"7 \| 8<br>and more", "60 of each"]
    assert len(lines) == 2


def report(kills: int, *, passed: bool = True) -> pytest.TestReport:
    outcome = "passed" if passed else "failed"
    properties = [(f"{evidence.COUNT}kills", {"of each": kills})]
    place = ("tests/test_kills.py", 7, "test_kill")
    return pytest.TestReport("a test", place, {}, outcome, None, "call", user_properties=properties)  # type: ignore[arg-type]


def test_a_run_that_is_stopped_has_written_what_it_has_counted(tmp_path: Path) -> None:
    page = tmp_path / "evidence.md"
    evidence.write_counts(page, {"kills": "60 of each", "faults": "7"})
    counted = evidence.Counted(page)
    counted.pytest_runtest_logreport(report(10))
    counted.pytest_runtest_logreport(report(15))
    counted.pytest_runtest_logreport(report(70, passed=False))
    lines = [line.split(" | ")[:2] for line in page.read_text().splitlines()[-3:]]
    assert lines == [["| `tests/test_kills.py`", "2 passed, 1 failed"], ["| faults", "7"], ["| kills", "25 of each"]]
    evidence.Counted(page).pytest_runtest_logreport(report(25))
    assert "test_kills" not in page.read_text()
