"""kill -9 of replications at random moments, with writes meanwhile: the secondary has a complete copy or none."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import RoutingError
from airflow_hivex.core.model.transactions import TxnState
from tests import evidence
from tests.acceptance.replicating_process import replicate
from tests.conftest import Counts
from tests.processes import ClientProcess

KILLS = evidence.amount("HIVEX_REPLICATION_KILLS", share=6, whole=300)
_SHORTEST_S, _LONGEST_S = 0.2, 2.5


def _content(metastore: Metastore, cluster: str) -> list[tuple[str, str]]:
    """Return names and checksums of the files that a query on the cluster would read now."""
    with metastore.session(cluster=cluster) as session:
        paths = [Path(each.uri.removeprefix("file://")) for each in session.snapshot_files("t").files]
    return sorted(("/".join(each.parts[-3:]), hashlib.sha256(each.read_bytes()).hexdigest()) for each in paths)


@pytest.mark.evidence
@pytest.mark.timeout(3600)
def test_killed_replications_leave_a_complete_copy_or_none(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1"}
    seen: Counter[str] = Counter()
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
        for number in range(KILLS):
            for ds in range(3):
                session.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES ({number})")
            arguments = (metastore_url, options, rng.choice((2_000, 20_000, 1_000_000)))
            with ClientProcess(replicate, *arguments, log=tmp_path / "log") as client:
                if rng.random() < 0.5:
                    session.sql(f"INSERT INTO t PARTITION (ds = '{number % 3}') VALUES ({-number})")
                try:
                    # It is the moment of the kill that is random.
                    client.wait(rng.uniform(_SHORTEST_S, _LONGEST_S))
                except TimeoutError:
                    client.kill()
                    seen["killed"] += 1
            # Otherwise the next one waits for the time-out of the killed one's transaction.
            for each in metastore.transactions.show():
                if each.state is TxnState.OPEN:
                    metastore.transactions.abort(each.id, "its client was killed")
                    seen["killed in its transaction"] += 1
            try:
                assert _content(metastore, "c2") == _content(metastore, "c1")
                seen["complete"] += 1
            except RoutingError:
                seen["refused"] += 1
        metastore.replicator.replicate("t", "c2")
        assert _content(metastore, "c2") == _content(metastore, "c1")
        assert {each.is_current for each in metastore.replicator.copies("default.t")} == {True}
    counts["replications with a kill"] = {"replications": KILLS, **dict(sorted(seen.items()))}
