"""The flows of a synchronized metastore cache, over three processes with caches of their own and one database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hivex.core.cache.metadata_cache import Prewarm
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import MissingWriteIdListError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.cache.conftest import STORAGE, E, P, T, Writer
from tests.integration.core.cache.driven_process import DrivenProcess, Peer, driven_processes

pytestmark = pytest.mark.evidence(cases=1)

Name = tuple[str, str]
N = ("default", "n")
MAX = "9223372036854775807"
CLUSTERS = ("c1", "c2", "c3")


@pytest.fixture
def three(writer: Writer, metastore_url: str, tmp_path: Path) -> Iterator[Sequence[DrivenProcess]]:
    """Three processes; the tables of ``writer`` exist."""
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in CLUSTERS}
    with driven_processes(3, metastore_url, clusters, tmp_path) as found:
        yield found


# The commands of the processes.


def properties(peer: Peer, name: Name, ids: str | None) -> tuple[dict[str, str], bool]:
    """The properties of a table, and whether they came without a database call."""
    found: list[dict[str, str]] = []
    is_hit = peer.process.hits(lambda: found.append(dict(peer.process.catalog.get_table(*name, ids).parameters)))
    return found[0], is_hit


def names(peer: Peer, name: Name, ids: str | None, how: str = "names") -> tuple[list[str], bool]:
    """The partitions of a table by one of the list queries, and whether they came without a database call."""
    catalog, found = peer.process.catalog, list[list[str]]()

    def read() -> None:
        match how:
            case "names":
                found.append(catalog.list_partition_names(*name, None, ids))
            case "all":
                found.append([each.name for batch in catalog.get_partitions(*name, ids) for each in batch])
            case "by names":
                found.append([each.name for each in catalog.get_partitions_by_names(*name, ["d=x", "d=y"], ids)])
            case "by filter":
                wanted = Comparison(ColumnReference("d"), ">=", "a")
                found.append([each.name for each in catalog.get_partitions_by_expr(*name, wanted, ids)])

    is_hit = peer.process.hits(read)
    return found[0], is_hit


def reason(peer: Peer) -> str:
    return peer.process.reasons()[-1]


def catch_up(peer: Peer, limit: int | None = None) -> int:
    return peer.process.follower.catch_up(limit)


def create(peer: Peer, name: Name, ids: str) -> None:
    peer.process.catalog.create_table(Table(*name, STORAGE, parameters={"transactional": "true"}), ids)


def alter(peer: Peer, name: Name, ids: str | None, key: str, txn_id: int | None = None) -> None:
    catalog = peer.process.catalog
    found = catalog.get_table(*name).definition
    catalog.alter_table(*name, replace(found, parameters={**found.parameters, key: "v"}), ids, txn_id)


def add(peer: Peer, name: Name, ids: str | None, value: str, txn_id: int | None = None) -> None:
    catalog = peer.process.catalog
    catalog.add_partitions(*name, [catalog.new_partition(catalog.get_table(*name), [value])], ids, txn_id=txn_id)


def update(peer: Peer, name: Name, key: str) -> str:
    """An UPDATE: its transaction has a write id, and changes the table at its end. Returns the list that it passes."""
    txn_id, _, ids = peer.writer.begin(name)
    peer.writer.alter(name, txn_id, ids, **{key: "v"})
    peer.writer.transactions.commit(txn_id)
    return str(ids)


def prewarm(peer: Peer) -> bool:
    return Prewarm(peer.process.store, peer.process.catalog).run().is_complete


def change_often(peer: Peer, changed: Sequence[Name]) -> None:
    for number in range(5):
        for name in changed:
            alter(peer, name, str(peer.writer.list_of(name)), f"k{number}")


def list_with(transactions: TransactionManager, name: Name, up_to: int, uncommitted: Sequence[int]) -> list[int]:
    """Bring the write ids of a table to ``up_to``, with these open; returns the open transactions."""
    opened = []
    while (last := transactions.valid_write_ids([".".join(name)], transactions.valid_txns())) and next(
        iter(last.values())
    ).high_watermark < up_to:
        (txn_id,) = transactions.open()
        write_id = transactions.allocate_write_ids([txn_id], *name)[txn_id]
        if write_id in uncommitted:
            opened.append(txn_id)
        else:
            transactions.commit(txn_id)
    return opened


def text(name: Name, high_watermark: int, open_ids: Sequence[int] = ()) -> str:
    least = min(open_ids, default=MAX)
    return f"{'.'.join(name)}:{high_watermark}:{least}:{','.join(map(str, open_ids))}:"


def test_chains_of_create_alter_and_update_table(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, far = three
    one.ask(create, N, text(N, 1))
    assert writer.text_of(N) == text(N, 1)
    for process in (two, far):
        process.ask(catch_up)
        assert process.ask(properties, N, text(N, 1)) == ({"transactional": "true"}, False)
        assert process.ask(properties, N, text(N, 1))[1]

    # Alter: the snapshot is [10:7,8], and the change takes 11.
    list_with(writer.transactions, N, 10, [7, 8])
    assert writer.text_of(N) == text(N, 10, [7, 8])
    one.ask(alter, N, text(N, 10, [7, 8]), "altered")
    assert writer.text_of(N) == text(N, 11, [7, 8])
    assert "altered" in two.ask(properties, N, text(N, 11, [7, 8]))[0]
    assert far.ask(properties, N, text(N, 1)) == ({"transactional": "true"}, True)
    far.ask(catch_up)
    altered, is_hit = far.ask(properties, N, text(N, 11, [7, 8]))
    assert ("altered" in altered, is_hit) == (True, True)

    # Update: 12, whatever process does it.
    assert two.ask(update, N, "updated") == text(N, 12, [7, 8])
    for process in three:
        assert "updated" in process.ask(properties, N, text(N, 12, [7, 8]))[0]
        process.ask(catch_up)
        updated, is_hit = process.ask(properties, N, text(N, 12, [7, 8]))
        assert ({"altered", "updated"} <= updated.keys(), is_hit) == (True, True)


def test_seven_steps_of_a_cache_update(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, _ = three
    list_with(writer.transactions, T, 13, [7, 8, 12])
    before, after = text(T, 13, [7, 8, 12]), text(T, 14, [7, 8, 12])
    assert writer.text_of(T) == before
    # 1. Both have [13:7,8,12].
    for process in (one, two):
        process.ask(properties, T, before)
        assert process.ask(properties, T, before)[1]
    # 2. One changes the table, and commits.
    one.ask(alter, T, before, "k")
    assert writer.text_of(T) == after
    # 3. The entry of two is as it was, and does not serve the new list.
    assert two.ask(properties, T, before) == ({"transactional": "true"}, True)
    # 4. Its follower has the change and not the commit. 5. A read asks the database.
    assert two.ask(catch_up, 1) == 1
    found, is_hit = two.ask(properties, T, before)
    assert (is_hit, two.ask(reason)) == (False, "uncommitted")
    found, is_hit = two.ask(properties, T, after)
    assert ("k" in found, is_hit) == (True, False) or is_hit
    # 6. The follower has the commit. 7. The next read comes from memory.
    two.ask(catch_up)
    found, is_hit = two.ask(properties, T, after)
    assert ("k" in found, is_hit) == (True, True)


def test_list_queries_have_the_partitions_of_their_list(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, _ = three
    one.ask(add, P, writer.text_of(P), "x")
    list_with(writer.transactions, P, 8, [7, 8])
    before = writer.text_of(P)
    queries = ("names", "all", "by names", "by filter")
    for number, how in enumerate(queries):
        assert two.ask(names, P, before, how) == (["d=x"], number > 0)
        assert two.ask(names, P, before, how) == (["d=x"], True)
    one.ask(add, P, before, "y")
    after = writer.text_of(P)
    assert two.ask(names, P, before) == (["d=x"], True)
    assert two.ask(names, P, after) == (["d=x", "d=y"], False)
    two.ask(catch_up)
    for how in queries:
        assert two.ask(names, P, after, how) == (["d=x", "d=y"], True)
    one.ask(add, P, after, "z")
    two.ask(catch_up)
    # No client has read it since the change: the follower has.
    assert two.ask(names, P, writer.text_of(P)) == (["d=x", "d=y", "d=z"], True)


def test_writes_of_one_transaction_are_never_seen_in_part(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, far = three
    before = writer.text_of(P)
    for process in (two, far):
        process.ask(properties, P, before)
        process.ask(names, P, before)
    txn_id, _, ids = writer.begin(P)
    one.ask(alter, P, str(ids), "k", txn_id)
    two.ask(catch_up)
    one.ask(add, P, str(ids), "x", txn_id)
    writer.transactions.commit(txn_id)
    after = writer.text_of(P)
    for _ in range(3):
        for process in (two, far):
            assert "k" in process.ask(properties, P, after)[0]
            assert process.ask(names, P, after)[0] == ["d=x"]
            process.ask(catch_up, 1)


def test_external_table_is_eventually_consistent(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, _ = three
    assert two.ask(properties, E, None) == ({}, False)
    one.ask(alter, E, None, "k")
    one.ask(add, E, None, "x")
    # A list without a write id is that of an external table.
    assert two.ask(properties, E, None) == two.ask(properties, E, text(E, 0)) == ({}, True)
    two.ask(catch_up)
    assert two.ask(properties, E, None) == ({"k": "v"}, True)
    assert two.ask(names, E, None)[0] == ["d=x"]


def test_managed_table_is_not_read_or_changed_without_a_list(three: Sequence[DrivenProcess], writer: Writer) -> None:
    one, two, _ = three
    two.ask(properties, T, writer.text_of(T))
    for question in (lambda: two.ask(properties, T, None), lambda: one.ask(alter, T, None, "k")):
        with pytest.raises(MissingWriteIdListError):
            question()


def test_prewarm_beside_changes_of_others_answers_as_the_database_does(
    three: Sequence[DrivenProcess], writer: Writer, catalog: ObjectStore
) -> None:
    one, two, far = three
    tables = [("default", f"w{number}") for number in range(6)]
    for name in tables:
        one.ask(create, name, text(name, 1))
    one.begin(change_often, tables[:3])
    far.begin(change_often, tables[3:])
    assert two.ask(prewarm)
    one.answer()
    far.answer()
    for _ in range(2):
        for name in tables:
            ids = writer.text_of(name)
            assert two.ask(properties, name, ids)[0] == dict(catalog.get_table(*name).parameters)
        two.ask(catch_up)
    assert all(two.ask(properties, name, writer.text_of(name))[1] for name in tables)
