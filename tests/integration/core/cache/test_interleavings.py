"""Whatever writers, readers and followers do, and in whatever order: no answer lacks what its list sees."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.settings import Settings
from tests import evidence
from tests.conftest import Counts
from tests.integration.core.cache.conftest import E, P, Process, Writer
from tests.integration.core.cache.interleavings import (
    Interleaving,
    StaleAnswerError,
    WithoutCommittedFlag,
    WithoutListCheck,
)
from tests.integration.core.conftest import Clock

STEPS = 60
HISTORIES = evidence.amount("HIVEX_CACHE_INTERLEAVINGS", 8, 400)
MUTATED = 60

Histories = Callable[[type[TableCache], int, int], int]


@pytest.fixture
def histories(processes: list[Process], clusters: Clusters, clock: Clock, writer: Writer) -> Histories:
    """Runs histories of a seed, over caches of a class, and returns their number of steps."""

    def run(kind: type[TableCache], seed: int, count: int) -> int:
        for number in range(count):
            stores = [process.store for process in processes]

            def new_process() -> Process:
                cache = kind(ObjectLists(Settings({})), 10_000_000)
                return Process(stores[number % 3], clusters, clock, cache)  # noqa: B023 - called in this round

            caches = [new_process() for _ in range(3)]
            drawn = random.Random(f"{seed} {number}")
            interleaving = Interleaving(drawn, writer, caches, new_process, gives_texts=number % 2 == 0)
            try:
                interleaving.run(STEPS)
            except StaleAnswerError as error:
                error.add_note(f"history {number} of seed {seed}: {' '.join(interleaving.steps)}")
                raise
            writer.catalog.drop_partitions(*P, writer.catalog.list_partition_names(*P))
            writer.catalog.drop_partitions(*E, writer.catalog.list_partition_names(*E))
        return count * STEPS

    return run


@pytest.mark.evidence
def test_no_answer_lacks_what_its_list_sees(histories: Histories, counts: Counts) -> None:
    steps = histories(TableCache, evidence.SEED, HISTORIES)
    counts["interleavings of caches"] = {"histories": HISTORIES, "steps": steps}


@pytest.mark.parametrize("kind", [WithoutCommittedFlag, WithoutListCheck])
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_cache_without_one_of_its_rules_is_found_out(histories: Histories, kind: type[TableCache]) -> None:
    with pytest.raises(StaleAnswerError):
        histories(kind, 1, MUTATED)
