"""Namespaces with many tables and links: a partition's costs by links to its table, capacity, and closure."""

from __future__ import annotations

import itertools
from pathlib import Path

from sqlalchemy import Connection, insert

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.store.schema import directories, directory_copies
from benchmarks.harness import Figure, compare, interleave, within

FEW, NAMESPACES, TABLES, LINKS = 3, 25, 200, 400


def run(folder: Path) -> list[Figure]:
    """Figures of a metastore with 3 namespaces, and of one with 25."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[1]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'one.db'}", clusters=clusters) as one,
        Metastore.open(f"sqlite:///{folder / 'many.db'}", clusters=clusters) as many,
    ):
        _fill(one, FEW)
        _fill(many, NAMESPACES)
        _add_linked_tables(many)
        numbers = itertools.count()
        adds = {name: lambda name=name: _add_partition(many, name, next(numbers)) for name in ("no_links", "linked")}
        seconds = interleave(adds, rounds=100, warm_up=10)
        figures = [compare("add a partition, 100 dynamic links", seconds, "linked", "no_links", goal=5.0)]
        shows = {
            f"{FEW} namespaces": lambda: one.capacity.show(),
            f"{NAMESPACES} namespaces": lambda: many.capacity.show(),
        }
        seconds = interleave(shows, rounds=10)
        figures.append(within(f"SHOW CAPACITY of {NAMESPACES} namespaces", seconds[f"{NAMESPACES} namespaces"], 1.0))
        growth = compare(
            "SHOW CAPACITY, growth",
            seconds,
            f"{NAMESPACES} namespaces",
            f"{FEW} namespaces",
            goal=2.0 * NAMESPACES / FEW,
        )
        figures.append(growth)
        checks = {
            f"{FEW} namespaces": lambda: one.namespaces.check("n0"),
            f"{NAMESPACES} namespaces": lambda: many.namespaces.check("n0"),
        }
        seconds = interleave(checks, rounds=10)
        figures.append(
            compare("closure check of one", seconds, f"{NAMESPACES} namespaces", f"{FEW} namespaces", goal=2.0)
        )
    return figures


def _fill(metastore: Metastore, count: int) -> None:
    """Namespaces with tables, one directory and a view each ten of them, and links to tables of the others."""
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    ids: list[int] = []
    with metastore.session() as session:
        for number in range(count):
            session.sql(f"CREATE DATABASE n{number}")

    def tables(connection: Connection, number: int) -> None:
        catalog = metastore.catalog.joining(connection)
        for each in range(TABLES):
            parameters = {"transactional": "true"}
            ids.append(catalog.create_table(Table(f"n{number}", f"t{each}", storage, parameters=parameters)).id)
        for each in range(0, TABLES, 10):
            text = f"SELECT `id` AS `id` FROM (SELECT id FROM `n{number}`.`t{each}` AS `t`\n)"
            view = Table(
                f"n{number}",
                f"v{each}",
                storage,
                type=TableType.VIRTUAL_VIEW,
                view_original_text=text,
                view_expanded_text=text,
            )
            catalog.create_table(view)

    for number in range(count):
        metastore.services.store.write(lambda connection, number=number: tables(connection, number))
    metastore.services.store.write(lambda connection: _register(connection, ids))

    def links(connection: Connection, number: int) -> None:
        service = metastore.links.joining(connection)
        others = [each for each in range(count) if each != number][:2]
        for each in range(LINKS):
            service.create(f"n{number}", f"t{each % TABLES}@n{others[each // TABLES]}")

    for number in range(count):
        metastore.services.store.write(lambda connection, number=number: links(connection, number))


def _register(connection: Connection, ids: list[int]) -> None:
    rows = [
        {
            "table_id": each,
            "partition_id": None,
            "name": f"delta_{write_id:07d}_{write_id:07d}_0000",
            "kind": "delta",
            "min_write_id": write_id,
            "max_write_id": write_id,
            "statement_id": 0,
            "visibility_txn_id": 0,
            "row_layout": "flat",
            "files": 1,
            "rows": 100,
            "size_bytes": 1000,
            "txn_id": 1,
        }
        for each in ids
        for write_id in (2, 3)
    ]
    made = connection.execute(insert(directories).returning(directories.c.id), rows).scalars().all()
    connection.execute(
        insert(directory_copies), [{"directory_id": each, "cluster": "c1", "registered_ms": 1} for each in made]
    )


def _add_linked_tables(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("CREATE DATABASE sources")
        for name in ("no_links", "linked"):
            session.sql(f"CREATE TABLE sources.{name} (id int) PARTITIONED BY (ds int)")
        for number in range(100):
            session.sql(f"CREATE DATABASE reader{number}")
            metastore.links.create(f"reader{number}", "linked@sources")


def _add_partition(metastore: Metastore, name: str, number: int) -> None:
    table = metastore.catalog.get_table("sources", name)
    metastore.catalog.add_partitions("sources", name, [metastore.catalog.new_partition(table, [number])])
