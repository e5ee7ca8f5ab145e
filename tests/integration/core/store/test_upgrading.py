"""A database of each released schema is upgraded with the rows that its release has stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, select

from airflow_hivex.core import Metastore
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import metadata
from tests.conftest import Counts

# In the order in which they are applied; the walk begins with the newest.
REVISIONS = [each.revision for each in ScriptDirectory.from_config(migrating.alembic_config()).walk_revisions()][::-1]
CLUSTERS = {name: {"filesystem": f"file:///nowhere/{name}", "jobtracker": "local[1]"} for name in ("c1", "c2")}

ROWS: dict[str, tuple[str, ...]] = {
    "0001": (
        "INSERT INTO databases (id, name, location, description, owner, parameters, created_ms) "
        "VALUES (2, 'shop', 'shop.db', 'what is sold', 'ann', '{\"quality\": \"raw\"}', 1600000000000)",
        "INSERT INTO storage_descriptors (id, columns, format, serde_parameters, num_buckets, bucket_columns, "
        'sort_columns) VALUES (1, \'[{"name": "id", "type": "int", "comment": "the number"}]\', \'orc\', \'{}\', '
        '4, \'["id"]\', \'[{"name": "id", "ascending": false}]\'), '
        '(2, \'[{"name": "line", "type": "string", "comment": null}]\', \'csv\', \'{"sep": ";"}\', -1, \'[]\', \'[]\')',
        "INSERT INTO tables (id, database_id, name, type, storage_descriptor_id, primary_cluster, location, "
        "partition_keys, parameters, owner, comment, created_ms, dropped) VALUES "
        "(5, 2, 'sales', 'MANAGED_TABLE', 1, 'c1', 'shop.db/sales', "
        '\'[{"name": "ds", "type": "string", "comment": "the day"}]\', '
        '\'{"transactional": "true", "transactional_properties": "default"}\', \'ann\', \'all of them\', 1, false), '
        "(6, 2, 'lines', 'EXTERNAL_TABLE', 2, 'c2', 'elsewhere/lines', '[]', '{}', NULL, NULL, 2, false)",
        "INSERT INTO partitions (id, table_id, name, location, parameters, created_ms, dropped) VALUES "
        "(8, 5, 'ds=2024-01-01', 'shop.db/sales/ds=2024-01-01', '{\"made\": \"by hand\"}', 3, false), "
        "(9, 5, 'ds=2024-01-02', 'shop.db/sales/ds=2024-01-02', '{}', 4, false)",
        "INSERT INTO partition_key_values (partition_id, position, table_id, value) "
        "VALUES (8, 0, 5, '2024-01-01'), (9, 0, 5, '2024-01-02')",
        'INSERT INTO txns (id, state, type, started_ms, heartbeat_ms, timeout_s, "user", host, agent_info, reason) '
        "VALUES (1, 'c', 0, 1, 1, 300, 'etl', 'here', NULL, NULL), (2, 'c', 0, 2, 2, 300, 'etl', 'here', NULL, NULL), "
        "(3, 'a', 0, 3, 3, 300, 'etl', 'here', 'task', 'timed out'), (4, 'o', 0, 4, 4, 300, 'etl', 'here', NULL, NULL)",
        "UPDATE counters SET value = 4 WHERE name = 'txn'",
        "UPDATE counters SET value = 1 WHERE name = 'event'",
        "INSERT INTO next_write_ids (table_id, next) VALUES (5, 4)",
        "INSERT INTO txn_to_write_id (table_id, txn_id, write_id) VALUES (5, 1, 1), (5, 2, 2), (5, 3, 3)",
        'INSERT INTO txn_components (id, txn_id, table_id, "partition", operation, write_id) '
        "VALUES (1, 3, 5, 'ds=2024-01-01', 'i', 3)",
        "INSERT INTO directories (id, table_id, partition_id, name, kind, min_write_id, max_write_id, statement_id, "
        'visibility_txn_id, row_layout, files, "rows", size_bytes, txn_id) VALUES '
        "(11, 5, 8, 'delta_0000002_0000002_0000', 'delta', 2, 2, 0, 0, 'flat', 1, 10, 1000, 2), "
        "(12, 5, 9, 'base_0000002', 'base', 0, 2, NULL, 0, 'flat', 2, 20, 2000, 2)",
        "INSERT INTO directory_copies (directory_id, cluster, registered_ms) VALUES (11, 'c2', 5)",
        "INSERT INTO cluster_storage_descriptors (id, table_id, partition_id, cluster, location, valid_write_ids, "
        "registered_ms) VALUES (1, 5, NULL, 'c2', 'copies/sales', 'shop.sales:2:9223372036854775807::', 5), "
        "(2, 5, 8, 'c2', 'copies/sales/ds=2024-01-01', 'shop.sales:2:9223372036854775807::', 5)",
        'INSERT INTO notification_log (event_id, event_ms, type, "database", "table", txn_id, message) '
        "VALUES (1, 1, 'CREATE_TABLE', 'shop', 'sales', 1, '{\"name\": \"sales\"}')",
        'INSERT INTO locks (lock_id, internal_id, txn_id, "database", "table", "partition", full_table, resource, '
        'type, strictness, operation, state, requested_ms, heartbeat_ms, acquired_ms, "user", host) VALUES '
        "(1, 1, 4, 'shop', 'sales', '', 'shop/sales', 'shop/sales/', 'r', 1, 2, 'a', 4, 4, 4, 'etl', 'here')",
        "UPDATE counters SET value = 1 WHERE name = 'lock'",
        'INSERT INTO completed_txn_components (id, txn_id, table_id, "partition", write_id, updates, committed_ms) '
        "VALUES (1, 2, 5, 'ds=2024-01-01', 2, false, 2)",
        'INSERT INTO write_set (id, table_id, "partition", txn_id, commit_id, operation) '
        "VALUES (1, 5, 'ds=2024-01-01', 2, 3, 'u')",
        "UPDATE txns SET min_open_id = 4 WHERE id = 4",
        "UPDATE txns SET reason_code = 1, ended_ms = 9 WHERE id = 3",
        "UPDATE txns SET key = 'dag/run', statements = 1, snapshot = '4:4:4:' WHERE id = 4",
        "INSERT INTO txn_to_write_id (table_id, txn_id, write_id) VALUES (5, 4, 4)",
        "UPDATE next_write_ids SET next = 5 WHERE table_id = 5",
        "INSERT INTO pending_writes (id, txn_id, statement_id, table_id, writer, document, written) "
        "VALUES (1, 4, 0, 5, 'task', '{\"write_id\": 4}', NULL)",
        "INSERT INTO storage_descriptors (id, columns, format, serde_parameters, num_buckets, bucket_columns, "
        "sort_columns) VALUES "
        "(3, '[{\"name\": \"id\", \"type\": \"int\", \"comment\": null}]', 'orc', '{}', -1, '[]', '[]')",
        "INSERT INTO tables (id, database_id, name, type, storage_descriptor_id, primary_cluster, location, "
        "partition_keys, parameters, created_ms, dropped, view_original_text, view_expanded_text) VALUES "
        "(7, 2, 'seen', 'VIRTUAL_VIEW', 3, 'c1', '', '[]', '{}', 7, false, 'SELECT id FROM sales', "
        "'SELECT `id` FROM `shop`.`sales`')",
        "INSERT INTO statistics (id, table_id, partition_id, num_rows, num_files, total_size, valid_write_ids, "
        "computed_ms, columns) VALUES (1, 5, 8, 10, 1, 1000, 'shop.sales:2:9223372036854775807::', 6, '{}')",
        'INSERT INTO compaction_queue (id, table_id, "database", "table", "partition", state, type, properties, '
        "enqueued_ms) VALUES (2, 5, 'shop', 'sales', 'ds=2024-01-01', 'i', 'a', '{}', 6)",
        'INSERT INTO completed_compactions (id, table_id, "database", "table", "partition", state, type, properties, '
        "enqueued_ms, error_message, ended_ms) "
        "VALUES (1, 5, 'shop', 'sales', 'ds=2024-01-02', 'f', 'i', '{}', 5, 'no room', 6)",
        "UPDATE counters SET value = 2 WHERE name = 'compaction'",
        "INSERT INTO written_batches (table_id, app_id, batch_id, txn_id) VALUES (5, 'stream', 17, 2)",
        "INSERT INTO cluster_roots (cluster, root_id, is_marked, registered_ms) "
        "VALUES ('c1', '7f0d6bd2-57d0-4fd1-a27c-0c5f0f3ff1a0', false, 8)",
        'INSERT INTO kept_snapshots (txn_id, table_id, settled_txn_id, started_ms, expires_ms, "user") '
        "VALUES (2, 5, 3, 2, 99, 'ann')",
        "UPDATE storage_descriptors SET input_format = 'In', output_format = 'Out', serde = '{\"name\": \"s\"}', "
        'parameters = \'{"of": "storage"}\', compressed = true, stored_as_sub_directories = true WHERE id = 1',
        "UPDATE tables SET owner_type = 'ROLE', last_accessed_ms = 12, retention = 7 WHERE id = 5",
        "INSERT INTO storage_descriptors (id, columns, format, serde_parameters, num_buckets, bucket_columns, "
        "sort_columns) VALUES (4, '[]', 'orc', '{}', -1, '[]', '[]')",
        "UPDATE partitions SET storage_descriptor_id = 4, last_accessed_ms = 13 WHERE id = 9",
        'INSERT INTO recorded_events (sequence, event_ms, type, "database", "table", txn_id, message) '
        "VALUES (1, 9, 'ALTER_TABLE', 'shop', 'sales', 2, '{\"name\": \"sales\"}')",
        "UPDATE tables SET version = 21 WHERE id = 5",
        "UPDATE directory_copies SET checksum = 'sha256:00' WHERE directory_id = 11",
        "INSERT INTO copied_moments (id, taken_ms, valid_txns) VALUES (1, 14, '3:9223372036854775807::')",
        "UPDATE cluster_storage_descriptors SET moment_id = 1",
        "UPDATE tables SET history_txn_id = 2, history_write_id = 1 WHERE id = 5",
        "UPDATE partitions SET history_write_id = 2 WHERE id = 9",
        "INSERT INTO copy_places (id, table_id, cluster, location, directory_id, files, txn_id, process, noted_ms, "
        "is_complete) VALUES (1, 5, 'c2', 'shop.db/sales/delta_1', 11, '[\"bucket_00000\"]', 2, 'p', 14, false)",
        "INSERT INTO links (id, database_id, table_name, namespace, table_id, type, after_partition_id, parameters, "
        "owner, created_ms) VALUES (1, 1, 'sales', 'shop', 5, 'STATIC_LINK_TABLE', 0, '{}', 'ann', 15)",
        "INSERT INTO link_partitions (link_id, partition_id, is_shown, changed_ms) VALUES (1, 8, true, 16)",
        "INSERT INTO caches (id, host, process_id, started_ms, seen_ms, armed_until_ms, event_id, counts) "
        "VALUES (1, 'here', 17, 1, 2, 3, 4, '{\"tables\": 5}')",
        "INSERT INTO quotas (id, database_id, cluster, size_bytes, warning_percent) VALUES (1, 1, 'c1', 1000, 90)",
        "INSERT INTO capacity_history (database, cluster, day, owned_bytes, owned_rows, secondary_bytes, "
        "obsolete_bytes) VALUES ('shop', 'c1', 20000, 1, 2, 3, 4)",
        "INSERT INTO former_write_ids (database, \"table\", next, left_ms) VALUES ('shop', 'old_sales', 7, 18)",
        "INSERT INTO namespace_moves (id, database_id, namespace, cluster, state, copies_linked, keeps_copies, "
        "\"user\", started_ms, ended_ms) VALUES (1, 2, 'shop', 'c2', 'switched', false, true, 'ann', 20, 21)",
        "INSERT INTO moved_copies (move_id, table_id, cluster, is_new, noted_ms, drop_after_ms) "
        "VALUES (1, 5, 'c2', true, 22, NULL)",
        "INSERT INTO namespace_homes (namespace, metastore, noted_ms) VALUES ('shop', 'hivex_shop', 19)",
        "INSERT INTO functions (id, database_id, name, class_name, resources, owner, owner_type, created_ms) "
        "VALUES (1, 2, 'f', 'org.example.F', '[{\"type\": \"JAR\", \"uri\": \"hdfs:///f.jar\"}]', 'ann', 'USER', 23)",
        'INSERT INTO table_commits (id, table_id, write_id, txn_id, committed_ms, "user", agent_info, operation, '
        "rows_added, rows_deleted, size_bytes) VALUES (1, 5, 1, 3, 25, 'ann', 'dag=d', 'INSERT', 1, 2, 3)",
        'INSERT INTO partition_events (database, "table", partition, type, event_ms) '
        "VALUES ('shop', 'lines', 'ds=2024-01-01', 1, 26)",
        "INSERT INTO change_streams (table_id, stream, batch_id, since_write_id) VALUES (5, 'copy', 2, 1)",
        "INSERT INTO loaded_files (table_id, path_key, path, size_bytes, changed, txn_id, rows_of_load, loaded_ms) "
        "VALUES (5, '00ff', 'raw/sales.csv', 10, '2024-01-01', 2, 3, 27)",
        'INSERT INTO ended_statements (id, started_ms, ended_ms, outcome, kind, text, "database", tables, target, '
        '"user", host, dag_id, task_id, run_id, try_number, txn_id, cluster, rows_written, wait_ms, steps) VALUES '
        "(1, 28, 29, 's', 'INSERT', 'INSERT INTO sales ...', 'shop', ' shop.sales ', 'shop.sales', 'ann', 'here', "
        "'d', 't', 'r', 1, 2, 'c1', 3, 0, '{\"job\": 1}')",
    ),
}
"""Rows as releases of each schema have written them, by the first revision that has the columns."""

RELEASED: dict[str, str] = {}
"""The SHA-256 of the file of each migration that a release has, by the file's name. A release adds lines, and changes
none (CONTRIBUTING.md, "How a release is made")."""


def test_migrations_of_releases_stay_as_they_were_released() -> None:
    versions = migrating.MIGRATIONS / "versions"
    assert {name: sha256((versions / name).read_bytes()).hexdigest() for name in RELEASED} == RELEASED


@pytest.mark.evidence(cases=4)
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_upgrade_keeps_every_row_of_a_released_schema(
    empty_metastore_url: str, revision: str, counts: Counts
) -> None:
    before = _made(empty_metastore_url, revision)
    with _store(empty_metastore_url) as store:
        assert migrating.upgrade(store).found == revision
        with store.read() as connection:
            after = _contents(connection)
            context = MigrationContext.configure(connection, opts={"version_table": migrating.VERSION_TABLE})
            assert compare_metadata(context, metadata) == []
    for table, rows in before.items():
        columns = rows[0].keys() if rows else ()
        kept = [{name: row[name] for name in columns} for row in after[table]]
        # An upgrade may add a counter.
        assert [row for row in rows if row not in kept] == [], table
        assert len(kept) == len(rows) or table == "counters", table
    with Metastore.open(empty_metastore_url, clusters=CLUSTERS, default_cluster="c1") as metastore:
        _check_in_use(metastore)
    counts["Upgraded from earlier schemas, every row kept"] = {
        "databases": 1,
        "rows": sum(map(len, before.values())),
    }


def _made(url: str, revision: str) -> dict[str, list[dict[str, Any]]]:
    """Make a database as a release of that schema has left it, and return its rows."""
    with _store(url) as store:
        with store.engine.connect().execution_options(hivex_writing=True) as connection:
            config = migrating.alembic_config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            connection.commit()
        applied = REVISIONS[: REVISIONS.index(revision) + 1]
        statements = [each for since, of_it in ROWS.items() if since in applied for each in of_it]
        store.write(lambda connection: [connection.exec_driver_sql(each) for each in statements])
        with store.read() as connection:
            found = _contents(connection)
    assert [table for table, rows in found.items() if not rows] == []
    return found


@contextmanager
def _store(url: str) -> Iterator[Store]:
    store = Store(url)
    try:
        yield store
    finally:
        store.close()


def _contents(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables, by name, each as its columns."""
    reflected = MetaData()
    reflected.reflect(connection)
    return {
        name: [dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
        for name, table in reflected.tables.items()
        if name != migrating.VERSION_TABLE
    }


def _check_in_use(metastore: Metastore) -> None:
    """Check what a user finds, and that ids go on behind those that were given."""
    catalog = metastore.catalog
    assert (catalog.get_database("shop").owner, catalog.get_database("shop").parameters) == ("ann", {"quality": "raw"})
    table = catalog.get_table("shop", "sales")
    assert [(column.name, column.comment) for column in table.columns] == [("id", "the number")]
    assert (table.storage.primary.cluster, [each.cluster for each in table.storage.secondaries]) == ("c1", ["c2"])
    assert catalog.list_partition_names("shop", "sales") == ["ds=2024-01-01", "ds=2024-01-02"]
    assert catalog.get_table("shop", "lines").storage.serde_parameters == {"sep": ";"}
    snapshot = metastore.transactions.valid_txns()
    assert [snapshot.is_valid(txn_id) for txn_id in (1, 2, 3, 4)] == [True, True, False, False]
    assert snapshot.is_aborted(3)
    assert metastore.transactions.open(user="etl") == [5]
