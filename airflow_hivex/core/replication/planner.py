"""The planner of replications: reads the metadata of tables, and lists their files on the source."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.errors import HivexError, InvalidOperationError
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.replication.planning import (
    PlannedDirectory,
    PlannedTable,
    chosen,
    plan_table,
    registered_places,
)

log = logging.getLogger(__name__)


class ReplicationPlanner:
    """Plans replications. Changes nothing."""

    def __init__(self, services: Foundation) -> None:
        self._services = services

    def plan(
        self,
        snapshot: Snapshot,
        target: str,
        partitions: Collection[str] | None,
        *,
        with_present: bool = False,
        everything: bool = False,
    ) -> list[PlannedTable]:
        """Return the plan for the tables of a snapshot, or for some partitions of its one table.

        The plan has the directories that the target lacks; ``with_present`` also those that it has, and with
        ``everything`` also those that no new snapshot reads.

        Raises:
            InvalidOperationError: the target is the primary cluster of a table, or a list of partitions does not fit.
            NoSuchPartitionError: a partition does not exist.
            CopyAlteredError: files of a source are missing or shorter than they were written.
            StorageError: a source cannot be listed.
        """
        clusters, catalog = self._services.clusters.names, self._services.catalog
        planned = []
        for table in snapshot.tables.values():
            check_target(table, target)
            contents = catalog.contents(snapshot, table, None, clusters)
            bound = bind_table(table, contents, None, snapshot, clusters)
            if table.is_view:
                planned.append(PlannedTable(replace(bound, partitions=()), target, is_complete=True))
                continue
            if partitions is not None and not table.is_partitioned:
                raise InvalidOperationError("REPLICATE", table.full_name, "the table has no partition keys")
            plan = plan_table(
                chosen(bound, partitions),
                target,
                contents.held.get(target, frozenset()),
                registered_places(contents, target),
                self._services.files,
                self._source_of,
                with_present=with_present,
            )
            planned.append(self._with_unread(plan, contents) if everything else plan)
        return planned

    def _with_unread(self, planned: PlannedTable, contents: TableContents) -> PlannedTable:
        """Return the plan with the lacking directories that no new snapshot reads, as far as they are whole."""
        bound, held = planned.bound, contents.held.get(planned.cluster, frozenset())
        ids: dict[str | None, int | None] = {each.name: each.id for each in contents.partitions}
        unread: list[PlannedDirectory] = []
        for partition in bound.partitions:
            read = {each.name for each in partition.directories}
            for each in contents.directories.get(ids.get(partition.name), ()):
                if each.name in read or each.id in held:
                    continue
                alone = replace(bound, partitions=(replace(partition, directories=(each,)),))
                places = planned.registered
                try:
                    plan = plan_table(alone, planned.cluster, held, places, self._services.files, self._source_of)
                    unread += plan.lacking
                except HivexError as error:
                    # The cleaner is deleting it, or its cluster cannot be used.
                    log.info("%s of %s stays where it is: %s", each.name, bound.table.full_name, error)
        return replace(
            planned,
            lacking=(*planned.lacking, *unread),
            is_complete=planned.is_complete and not unread,
            seen=frozenset(each.id for found in contents.directories.values() for each in found),
        )

    def _source_of(self, bound: BoundTable, partition: BoundPartition) -> str:
        """Return the cluster to copy a partition from: the primary, or if it cannot be used, one with a current copy.

        Raises:
            HivexError: no cluster that has it can be used; the reason is that of the primary.
        """
        health = self._services.health
        primary = bound.table.storage.primary.cluster
        problem = health.of_root(primary).problem
        if problem is None:
            return primary
        for name, there in bound.copies.items():
            if partition.name in there and health.of_root(name).problem is None:
                return name
        raise problem


def check_target(table: Table, target: str) -> None:
    """Ensure that a cluster may have a copy of a table.

    Raises:
        InvalidOperationError: it is the table's primary cluster.
    """
    if not table.is_view and table.storage.primary.cluster == target:
        raise InvalidOperationError("REPLICATE", table.full_name, f"{target} is its primary cluster")
