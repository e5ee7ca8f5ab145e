"""kill -9 of replications at random moments, with other statements meanwhile: the secondary is complete or refused."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import DeadlockError, NoSuchPartitionError, RoutingError, TransactionAbortedError
from tests import evidence
from tests.acceptance.replicating_process import replicate
from tests.conftest import Counts
from tests.processes import ClientProcess

KILLS = evidence.amount("HIVEX_REPLICATION_KILLS", share=6, whole=300)
SETTINGS = {
    # Statements that wait for a dead replication find out soon, and the cleaner deletes what nobody reads now.
    "metastore.acid.housekeeper.interval": 1,
    "hivex.dataframe.retention.time": 0,
}
_SHORTEST_S, _LONGEST_S = 0.2, 4.0
_STATEMENTS = {"insert": 5, "overwrite": 1, "truncate": 1, "drop": 1, "delete": 1, "compact": 2}


def _files(session: Session) -> list[tuple[str, str]]:
    """Return names and checksums of the files that a query of the session would read now."""
    paths = [Path(each.uri.removeprefix("file://")) for each in session.snapshot_files("t").files]
    return sorted(("/".join(each.parts[-3:]), hashlib.sha256(each.read_bytes()).hexdigest()) for each in paths)


def _look(metastore: Metastore) -> str:
    """Compare both clusters in one snapshot; a copy that is not current has to be refused."""
    (txn_id,) = metastore.transactions.open(user="reader")
    try:
        with (
            metastore.session(cluster="c1", txn_id=txn_id) as primary,
            metastore.session(cluster="c2", txn_id=txn_id) as secondary,
        ):
            expected = _files(primary)
            assert _files(secondary) == expected
            return "complete"
    except RoutingError:
        return "refused"
    except (DeadlockError, TransactionAbortedError):
        # It was the youngest of those that wait for each other, such as with a partition that is dropped.
        return "not done"
    finally:
        metastore.abort(txn_id)


@contextmanager
def _watched(metastore: Metastore, seen: Counter[str]) -> Iterator[None]:
    """Look at the secondary all the while."""
    failures: list[BaseException] = []
    ended = threading.Event()

    def watch() -> None:
        try:
            while not ended.is_set():
                seen[_look(metastore)] += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]


def _change(metastore: Metastore, session: Session, kind: str, number: int) -> None:
    ds = f"ds = '{number % 3}'"
    statements = {
        "insert": f"INSERT INTO t PARTITION ({ds}) VALUES ({number}), ({-number})",
        "overwrite": f"INSERT OVERWRITE t PARTITION ({ds}) VALUES ({number})",
        "delete": f"DELETE FROM t WHERE {ds} AND id % 2 = 0",
        "truncate": f"TRUNCATE TABLE t PARTITION ({ds})",
        "drop": f"ALTER TABLE t DROP PARTITION ({ds})",
    }
    # An earlier one may have dropped the partition.
    with suppress(NoSuchPartitionError):
        if kind == "compact":
            metastore.compactor.request("default", "t", f"ds={number % 3}", "major" if number % 2 else "minor")
            metastore.compactor.work("host-1")
            metastore.compactor.clean()
        else:
            session.sql(statements[kind])


@pytest.mark.evidence
@pytest.mark.spark
@pytest.mark.timeout(4 * 3600)
def test_killed_replications_leave_a_complete_copy_or_none(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": SETTINGS}
    seen: Counter[str] = Counter()
    done: Counter[str] = Counter()
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
        kinds, weights = list(_STATEMENTS), list(_STATEMENTS.values())
        for number in range(KILLS):
            for ds in range(3):
                session.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES ({number})")
            arguments = (metastore_url, options, rng.choice((20_000, 200_000, None)))
            with (
                _watched(metastore, seen),
                ClientProcess(replicate, *arguments, log=tmp_path / "log") as client,
            ):
                kill_after_s = rng.uniform(_SHORTEST_S, _LONGEST_S)
                killer = threading.Timer(kill_after_s, client.kill)
                killer.start()
                for kind in rng.choices(kinds, weights, k=rng.randrange(4)):
                    _change(metastore, session, kind, rng.randrange(1, 1000))
                    done[kind] += 1
                done["killed" if client.wait() < 0 else "finished before"] += 1
                killer.cancel()
            seen[_look(metastore)] += 1
        metastore.replicator.replicate("t", "c2")
        assert _look(metastore) == "complete"
        assert {each.is_current for each in metastore.replicator.copies("default.t")} == {True}
    counts["replications with a kill"] = {
        "replications": KILLS,
        **dict(sorted(done.items())),
        **{f"looks: {name}": number for name, number in sorted(seen.items())},
    }
