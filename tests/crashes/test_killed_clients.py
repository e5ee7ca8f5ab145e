"""kill -9 of a client at named points: nothing acknowledged is lost, nothing is half visible, locks come free."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_hivex.core.errors import TransactionAbortedError
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.transactions import TxnState
from tests.crashes.client import (
    LOCKS,
    TABLES,
    Victim,
    commit_both,
    lock_until_killed,
    noted_steps,
    wait_for_lock,
    write_until_killed,
)
from tests.crashes.conftest import Survivor
from tests.histories.client import DATABASE
from tests.processes import ClientProcess

TIMEOUT_S = 300
REAPER_INTERVAL_S = 60
"""The defaults of hive.txn.timeout and metastore.acid.housekeeper.interval."""

STATES = {
    "before open": None,
    "after open": TxnState.OPEN,
    "before lock": TxnState.OPEN,
    "after lock": TxnState.OPEN,
    "while holding": TxnState.OPEN,
    "before allocate": TxnState.OPEN,
    "after allocate": TxnState.OPEN,
    "before heartbeat": TxnState.OPEN,
    "after heartbeat": TxnState.OPEN,
    "before abort": TxnState.OPEN,
    "after abort": TxnState.ABORTED,
    "before commit": TxnState.OPEN,
    "after commit": TxnState.COMMITTED,
}
WITHOUT_LOCKS = ("before open", "after open", "before lock", "after abort", "after commit")


def kill_at(point: str, survivor: Survivor, body: Callable[[Victim], None], folder: Path) -> dict[str, int]:
    """Let a client die there; return the answers that it got before."""
    victim = Victim(survivor.url, survivor.folder, point, folder / "progress")
    with ClientProcess(body, victim, log=folder / "victim.log") as process:
        code = process.wait()
        assert code == -9, f"the victim ended with {code}: {process.error()}"
    return noted_steps(victim.progress)


def is_free(survivor: Survivor) -> bool:
    """Return whether a rival acquires the locks at once; they are released."""
    (txn_id,) = survivor.metastore.transactions.open(user="rival")
    response = survivor.metastore.locks.acquire(LOCKS, txn_id, user="rival", wait=False)
    if response.state is LockState.WAITING:
        assert response.blocked_by is not None
        assert response.blocked_by.user == "victim"
    survivor.metastore.transactions.abort(txn_id)
    return response.is_acquired


def reap_after_the_longest_time(survivor: Survivor) -> None:
    """Nothing is reaped before the time-out; it is by the next round of a housekeeper that comes by in its interval."""
    housekeeper = survivor.metastore.housekeeper
    survivor.ahead_s = TIMEOUT_S - 30
    assert not housekeeper.run(only_due=True).aborted
    survivor.ahead_s = TIMEOUT_S + REAPER_INTERVAL_S
    housekeeper.run(only_due=True)


@pytest.mark.evidence(cases=13)
@pytest.mark.parametrize("point", list(STATES))
def test_writer_killed(survivor: Survivor, tmp_path: Path, point: str) -> None:
    done = kill_at(point, survivor, write_until_killed, tmp_path)
    transactions = survivor.metastore.transactions
    state = STATES[point]
    committed = state is TxnState.COMMITTED
    # Both tables or none, and what is there does not depend on whether its writer got an answer.
    assert survivor.read(*TABLES) == ([(1,), (1,)] if committed else [(), ()])
    found = transactions.valid_txns()
    if state is None:
        assert found.exceptions == ()
        assert not done
    elif "open" in done:
        assert transactions.get(done["open"]).state is state
    owners = [transactions.get(txn_id).user for txn_id in found.open_ids]
    assert owners == (["victim"] if state is TxnState.OPEN else [])
    if "allocate list_a" in done and state is TxnState.OPEN:
        # What was acknowledged is still so for a client that asks again.
        again = transactions.allocate_write_ids([done["open"]], DATABASE, "list_a")
        assert again == {done["open"]: done["allocate list_a"]}
    assert is_free(survivor) == (point in WITHOUT_LOCKS)

    reap_after_the_longest_time(survivor)
    assert is_free(survivor)
    assert transactions.valid_txns().open_ids == ()
    if state is TxnState.OPEN:
        (mine,) = found.open_ids
        assert transactions.get(mine).state is TxnState.ABORTED
        with pytest.raises(TransactionAbortedError):
            transactions.commit(mine)
    # The next writer has the lists to himself.
    (txn_id,) = transactions.open()
    survivor.metastore.locks.acquire(LOCKS, txn_id, wait=False)
    write_ids = {name: transactions.allocate_write_ids([txn_id], DATABASE, name)[txn_id] for name in TABLES}
    commit_both(survivor.metastore, survivor.folder, txn_id, write_ids, element=3)
    assert survivor.read(*TABLES) == [(3,), (3,)]


@pytest.mark.evidence(cases=7)
@pytest.mark.parametrize(
    ("point", "free"),
    [
        ("before lock", True),
        ("after lock", False),
        ("while holding", False),
        ("before heartbeat", False),
        ("after heartbeat", False),
        ("before unlock", False),
        ("after unlock", True),
    ],
)
def test_owner_of_locks_without_transaction_killed(survivor: Survivor, tmp_path: Path, point: str, free: bool) -> None:
    kill_at(point, survivor, lock_until_killed, tmp_path)
    assert is_free(survivor) == free
    reap_after_the_longest_time(survivor)
    assert is_free(survivor)
    assert survivor.metastore.locks.show() == []


@pytest.mark.evidence(cases=3)
@pytest.mark.parametrize("point", ["before check lock", "after check lock", "while waiting"])
def test_waiter_killed(survivor: Survivor, tmp_path: Path, point: str) -> None:
    transactions, locks = survivor.metastore.transactions, survivor.metastore.locks
    (holder,) = transactions.open(user="holder", timeout=10_000)
    held = locks.acquire(LOCKS, holder, user="holder")
    done = kill_at(point, survivor, write_until_killed, tmp_path)
    left = {lock.state for lock in locks.show(txn_id=done["open"])}
    assert left == {LockState.WAITING}
    transactions.commit(holder)
    # First come, first served: the dead one is in front until it is reaped.
    assert held.is_acquired
    assert not is_free(survivor)
    reap_after_the_longest_time(survivor)
    assert is_free(survivor)
    assert survivor.read(*TABLES) == [(), ()]


@pytest.mark.evidence(cases=4)
@pytest.mark.parametrize("point", ["after lock", "while holding", "before commit", "after commit"])
def test_waiting_process_goes_on_after_the_housekeeper(survivor: Survivor, tmp_path: Path, point: str) -> None:
    kill_at(point, survivor, write_until_killed, tmp_path)
    survivor.ahead_s = TIMEOUT_S + REAPER_INTERVAL_S
    progress = tmp_path / "waiter"
    arguments = (survivor.url, survivor.folder, progress, survivor.ahead_s)
    with ClientProcess(wait_for_lock, *arguments, log=tmp_path / "waiter.log") as waiter:
        # It does the housekeeping that is due while it waits, or finds it done by another.
        assert waiter.wait() == 0, waiter.error()
    assert noted_steps(progress)
    assert survivor.read(*TABLES) == [(2,), (2,)]
