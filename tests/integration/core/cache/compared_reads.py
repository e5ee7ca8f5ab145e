"""Random reads of a process with a cache, each compared with the catalog without a cache."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.metadata_reader import SnapshotReading
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.errors import HivexError, NoSuchObjectError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from tests.integration.core.cache.driven_process import Peer

Name = tuple[str, str]
Read = Callable[[ObjectStore, Name, GivenList], Any]


@dataclass(frozen=True)
class Compared:
    """The number of compared reads, of those without a call of the database, and the first difference."""

    reads: int
    hits: int
    difference: str | None = None


def _contents(catalog: ObjectStore, name: Name, wanted: str | None) -> object:
    assert isinstance(catalog, SnapshotReading)
    taken = catalog.snapshot([name])
    table = taken.tables[name]
    predicate = None if wanted is None or not table.is_partitioned else Comparison(ColumnReference("d"), "=", wanted)
    found = catalog.contents(taken, table, predicate, [])
    kept = {each.id for each in found.partitions} if table.is_partitioned else {*found.directories}
    directories = {at: sorted(map(repr, found.directories.get(at, ()))) for at in kept if found.directories.get(at)}
    return table, sorted(map(repr, found.partitions)), directories


READS: Sequence[Read] = (
    lambda catalog, name, ids: catalog.get_table(*name, ids),
    lambda catalog, name, ids: catalog.get_table(*name, ids),
    lambda catalog, name, ids: catalog.get_tables(name[0], [name[1], "never"], {name[1]: ids}),
    lambda catalog, name, ids: catalog.list_partition_names(*name, None, ids),
    lambda catalog, name, ids: catalog.list_partition_names(*name, Comparison(ColumnReference("d"), "=", "1"), ids),
    lambda catalog, name, ids: catalog.get_partition(*name, ["1"], ids),
    lambda catalog, name, ids: catalog.get_partitions_by_names(*name, ["d=1", "d=2", "D=3"], ids),
    lambda catalog, name, ids: catalog.get_partitions_by_expr(*name, None, ids),
    lambda catalog, name, ids: [each for batch in catalog.get_partitions(*name, ids, batch_size=2) for each in batch],
)
CONTENTS: Sequence[Read] = (
    lambda catalog, name, _: _contents(catalog, name, None),
    lambda catalog, name, _: _contents(catalog, name, "1"),
)


def compare(
    peer: Peer, names: Sequence[Name], seed: int, count: int, *, catches_up: bool, clusters: dict[str, Any]
) -> Compared:
    """Read at random, and compare each answer. Nothing is changed meanwhile.

    A process that has not read the events is not asked without a list, or for the version of a table by a text: these
    answers are eventually consistent.
    """
    process, drawn = peer.process, random.Random(seed)
    if catches_up:
        process.follower.catch_up()
    is_followed = process.follower.position is not None and catches_up
    plain = ObjectStore(process.store, Clusters.from_properties(clusters, "c1"), lambda: 0, end_of_dropped)
    hits = 0
    for number in range(count):
        name = drawn.choice(names)
        read = drawn.choice((*READS, *CONTENTS))
        ids, form = _list_of(peer, name), drawn.choice(("value", "text", "none"))
        if ids is None and not is_followed:
            # A reader without a list learns of a dropped external table by its event.
            read = drawn.choice(CONTENTS)
        is_managed = ids is None or plain.get_table(*name).is_transactional
        if form == "none" and not is_followed:
            form = "value"
        if form == "text" and not is_managed and not is_followed:
            form = "value"
        given: GivenList = None if form == "none" or ids is None else str(ids) if form == "text" else ids
        has_exact = form == "value" or is_followed
        answers: list[object] = []
        # The first read may fill the cache, the next one is answered by what the first has kept.
        for catalog in (process.catalog, process.catalog, plain):
            ask = partial(_ask, answers, catalog, read, name, given)
            hits += process.hits(ask) and catalog is not plain
        found = [each if has_exact else _without_version(each) for each in answers]
        if found[0] != found[2] or found[1] != found[2]:
            text = f"read {number} of {name} by {form} {given}: {found[0]!r} and {found[1]!r} instead of {found[2]!r}"
            return Compared(2 * number, hits, text)
    return Compared(2 * count, hits)


def _list_of(peer: Peer, name: Name) -> Any:
    try:
        return peer.writer.list_of(name)
    except NoSuchObjectError:
        return None


def _ask(answers: list[object], catalog: ObjectStore, read: Read, name: Name, given: GivenList) -> None:
    answers.append(_answer(catalog, read, name, given))


def _answer(catalog: ObjectStore, read: Read, name: Name, given: GivenList) -> object:
    try:
        return read(catalog, name, given)
    except HivexError as error:
        return error.code


def _without_version(answer: object) -> object:
    if isinstance(answer, StoredTable):
        return replace(answer, version=0)
    if isinstance(answer, list | tuple):
        return [_without_version(each) for each in answer]
    return answer
