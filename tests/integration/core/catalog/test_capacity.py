"""Directories that count as obsolete in the capacity are those that the rules of readers leave out."""

from __future__ import annotations

from random import Random

from sqlalchemy import insert

from airflow_hivex.core.catalog.capacity import read_held, read_linked, used_bytes
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.model.directories import directory_state, parse_directory
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import directories, directory_copies
from tests import evidence


def history(random: Random, steps: int) -> list[str]:
    """The directories of writes and compactions, one after the other; nothing is cleaned."""
    names: list[str] = []
    write_id = 1
    for txn_id in range(1, steps + 1):
        match random.choice(
            ["insert", "insert", "insert", "statements", "delete", "overwrite", "minor", "major", "batch"]
        ):
            case "insert":
                write_id += 1
                names.append(f"delta_{write_id:07d}_{write_id:07d}_0000")
            case "statements":
                write_id += 1
                names += [f"delta_{write_id:07d}_{write_id:07d}_{number:04d}" for number in range(3)]
                names.append(f"delete_delta_{write_id:07d}_{write_id:07d}_0003")
            case "delete":
                write_id += 1
                names.append(f"delete_delta_{write_id:07d}_{write_id:07d}_0000")
            case "overwrite":
                write_id += 1
                names.append(f"base_{write_id:07d}")
            case "batch":
                names.append(f"delta_{write_id + 1:07d}_{write_id + 5:07d}")
                write_id += 5
            case "minor":
                state = directory_state(names, snapshot(write_id), ValidTxnList(MAX_ID))
                for prefix in ("delta", "delete_delta"):
                    found = [parse_directory(name) for name in state.deltas if name.startswith(f"{prefix}_")]
                    taken = [each for each in found if each is not None]
                    if len(taken) > 1:
                        first = min(each.min_write_id for each in taken)
                        last = max(each.max_write_id for each in taken)
                        names.append(f"{prefix}_{first:07d}_{last:07d}_v{txn_id:07d}")
            case "major":
                names.append(f"base_{write_id:07d}_v{txn_id:07d}")
    return list(dict.fromkeys(names))


def snapshot(write_id: int) -> ValidWriteIdList:
    return ValidWriteIdList(write_id)


def test_obsolete_directories_are_those_that_no_new_reader_reads(store: Store, catalog: ObjectStore) -> None:
    random = Random(evidence.SEED)
    expected: dict[str, tuple[int, int]] = {}
    for number in range(40):
        names = history(random, random.randrange(1, 14))
        storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
        table = catalog.create_table(Table("default", f"t{number}", storage, parameters={"transactional": "true"}))
        live = stale = 0
        highest = max((found.max_write_id for found in map(parse_directory, names) if found), default=0)
        state = directory_state(names, snapshot(highest), ValidTxnList(MAX_ID))
        read = {*state.deltas, *([state.base] if state.base else [])}
        for name in names:
            found = parse_directory(name)
            assert found is not None
            size = random.randrange(1, 1000)
            live, stale = (live + size, stale) if name in read else (live, stale + size)

            def add(connection, found=found, name=name, size=size, table=table):  # type: ignore[no-untyped-def]
                row = {
                    "table_id": table.id,
                    "partition_id": None,
                    "name": name,
                    "kind": found.kind.value,
                    "min_write_id": 0 if found.kind.value == "base" else found.min_write_id,
                    "max_write_id": found.max_write_id,
                    "statement_id": found.statement_id,
                    "visibility_txn_id": found.visibility_txn_id,
                    "row_layout": "flat",
                    "files": 1,
                    "rows": 1,
                    "size_bytes": size,
                    "txn_id": 1,
                }
                made = connection.execute(insert(directories).values(**row).returning(directories.c.id)).scalar_one()
                copy = {"directory_id": made, "cluster": "c1", "registered_ms": 5}
                connection.execute(insert(directory_copies).values(**copy))

            store.write(add)
        expected[table.name] = (live, stale)
    with store.read() as connection:
        held = read_held(connection)
        found_sizes = {
            name: tuple(
                sum(each.size_bytes for each in held if each.table == name and each.is_obsolete is obsolete)
                for obsolete in (False, True)
            )
            for name in expected
        }
        assert found_sizes == expected
        assert used_bytes(connection, 1, "c1") == sum(live for live, _ in expected.values())
        assert used_bytes(connection, 1, "c2") == 0
        assert read_held(connection, cluster="c2") == read_held(connection, namespaces=["other"]) == []
        assert read_linked(connection) == []
        assert {each.age for each in read_held(connection, [6, 5, 4])} == {1}
