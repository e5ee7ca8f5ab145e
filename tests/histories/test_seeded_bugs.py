"""The checker finds bugs: each is planted into client processes, and its anomaly comes out of their history.

``make evidence`` plants all of them, ``make test`` a few.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Counts
from tests.histories.seeded_bugs import BUGS, SeededBug
from tests.histories.workload import Workload, run

# A history is a matter of luck; that all of them are spared is not to be expected.
ATTEMPTS = 6


@pytest.mark.evidence(cases=2)
@pytest.mark.parametrize("name", list(BUGS))
def test_bug_is_found(name: str, tmp_path: Path, counts: Counts) -> None:
    found = _history_with(BUGS[name], tmp_path)
    counts[f"seeded bug {name}"] = f"found, {found}"


def _history_with(bug: SeededBug, folder: Path) -> str:
    for attempt in range(ATTEMPTS):
        here = folder / str(attempt)
        here.mkdir()
        outcome = run(
            Workload(
                f"sqlite:///{here / 'metastore.db'}",
                here / "warehouse",
                transactions=bug.transactions,
                clients=4,
                seed=attempt,
                plant=bug.plant,
                keys=1,
                generation=150,
                slow=bug.slow,
                parked=bug.parked,
                deadline_s=200,
            )
        )
        kinds = outcome.report.anomalies & bug.anomalies
        if kinds:
            names = ", ".join(sorted(kind.name for kind in kinds))
            return f"{names} after {sum(1 for _ in outcome.history) + attempt * bug.transactions} transactions"
    raise AssertionError(f"not found: {outcome.describe()}\n{outcome.report.describe()}")


def test_without_a_bug_there_is_no_anomaly(tmp_path: Path) -> None:
    workload = Workload(
        f"sqlite:///{tmp_path / 'metastore.db'}",
        tmp_path / "warehouse",
        transactions=200,
        clients=4,
        kills=5,
        keys=1,
        generation=150,
        slow=0.1,
        parked=0.05,
        deadline_s=200,
    )
    assert run(workload).report.findings == []
