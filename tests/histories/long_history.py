"""Eight client processes, killed and replaced at random, on both databases: nothing that snapshot isolation forbids."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Counts
from tests.histories.workload import Workload, run

TRANSACTIONS = 20_000
KILLS = 40


def check_a_long_history(metastore_url: str, tmp_path: Path, counts: Counts) -> None:
    """Run one, and hold it against what is promised."""
    outcome = run(
        Workload(metastore_url, tmp_path / "warehouse", TRANSACTIONS, kills=KILLS, reading=0.85, deadline_s=1200)
    )
    counts[metastore_url.partition(":")[0].partition("+")[0]] = outcome.describe()
    assert outcome.report.findings == [], outcome.report.describe()
    assert len(outcome.history) >= TRANSACTIONS
    assert outcome.report.unknown == 0, "the metastore did not tell how a transaction has ended"
    # What the history is about has happened in it.
    assert outcome.kills >= KILLS // 2
    assert outcome.reaped
    assert outcome.looked_up["aborted"] + outcome.looked_up["committed"]
    for error in ("WRITE_CONFLICT", "PLANNED", "TRANSACTION_ABORTED"):
        assert outcome.errors[error], f"no transaction ended with {error}"
    assert outcome.report.write_skews
