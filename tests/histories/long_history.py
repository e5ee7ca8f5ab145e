"""Eight client processes, killed and replaced at random, on both databases: nothing that snapshot isolation forbids."""

from __future__ import annotations

from pathlib import Path

from tests import evidence
from tests.conftest import Counts
from tests.histories.workload import Workload, run

TRANSACTIONS = evidence.amount("HIVEX_HISTORY_TRANSACTIONS", share=1000, whole=20_000)
KILLS = max(12, TRANSACTIONS // 500)


def check_a_long_history(metastore_url: str, tmp_path: Path, counts: Counts) -> None:
    """Run one, and hold it against what is promised."""
    outcome = run(
        Workload(
            metastore_url,
            tmp_path / "warehouse",
            TRANSACTIONS,
            kills=KILLS,
            seed=evidence.SEED,
            reading=0.85,
            deadline_s=1200,
        )
    )
    counts[f"long history, {metastore_url.partition(':')[0].partition('+')[0]}"] = outcome.describe()
    assert outcome.report.findings == [], outcome.report.describe()
    assert len(outcome.history) >= TRANSACTIONS
    assert outcome.report.unknown == 0, "the metastore did not return the outcome of a transaction"
    # What the history is about has happened in it.
    assert outcome.kills >= KILLS // 2
    assert outcome.reaped
    for error in ("WRITE_CONFLICT", "PLANNED", "TRANSACTION_ABORTED"):
        assert outcome.errors[error], f"no transaction ended with {error}"
    if TRANSACTIONS >= 20_000:
        # They are too rare for a shorter one, which has three or four outcomes to look up on the average.
        assert outcome.report.write_skews
        assert outcome.looked_up["aborted"] + outcome.looked_up["committed"]
