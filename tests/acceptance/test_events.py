"""Every change of what the metastore holds leaves an event, in the database transaction of the change."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from sqlalchemy import text

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.objects import Database, StoredTable
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import metadata
from scripts.reference_pages.event_types import described
from tests.acceptance.conftest import CopyTable

pytestmark = pytest.mark.spark
on_postgresql = pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)

WATCHED = {
    "databases": "INSERT OR UPDATE OR DELETE",
    "functions": "INSERT OR UPDATE OR DELETE",
    "tables": "INSERT OR UPDATE OR DELETE",
    "partitions": "INSERT OR UPDATE OR DELETE",
    "cluster_storage_descriptors": "INSERT OR UPDATE OR DELETE",
    "directories": "INSERT OR UPDATE OR DELETE",
    "links": "INSERT OR UPDATE OR DELETE",
    "directory_copies": "INSERT OR UPDATE OR DELETE",
    "statistics": "INSERT OR UPDATE OR DELETE",
    # They come and go with the rows of tables and partitions.
    "storage_descriptors": "UPDATE",
    "partition_key_values": "UPDATE",
}
WITHOUT_EVENTS = {
    "link_partitions": "the event of the link has them",
    "quotas": "the event of the database has them",
    "capacity_history": "sums of the numbers of other events",
    "counters": "numbers that were handed out",
    "cluster_roots": "where clusters are, as they are configured",
    "txns": "a commit or abort that has written leaves an event; a snapshot has the others",
    "txn_to_write_id": "a snapshot has them",
    "next_write_ids": "a snapshot has them",
    "txn_components": "for commits",
    "completed_txn_components": "for commits",
    "write_set": "for commits",
    "pending_writes": "seen by their own transaction only",
    "written_batches": "for streaming clients",
    "table_commits": "the record of commits, which have events",
    "change_streams": "how far a stream of changes is",
    "loaded_files": "for later COPY INTO",
    "kept_snapshots": "for the cleaner",
    "copied_moments": "for queries that accept copies that lag",
    "copy_places": "for replications and the housekeeping",
    "moved_copies": "for the housekeeping, whose withdrawals have events",
    "namespace_moves": "how far a move is; its switch has an event for each table",
    "namespace_homes": "of other metastores",
    "former_write_ids": "of names whose tables are gone, whose event says so",
    "locks": "not kept",
    "partition_events": "marks for clients of Hive, which has no events for them",
    "compaction_queue": "requests, which change nothing that is read",
    "completed_compactions": "their history",
    "ended_statements": "the history of statements, which no statement reads",
    "caches": "who follows the events",
    "recorded_events": "the events",
    "notification_log": "the events",
}
# Rows of tables and partitions that no reader sees need no event: those of a CREATE TABLE AS SELECT that has not
# committed, and those that were dropped, until their files are gone.
WATCH = """
CREATE TABLE seen_changes (transaction bigint, name text, operation text);
CREATE FUNCTION is_hidden(watched text, changed jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE of_directory jsonb;
BEGIN
  IF changed IS NULL THEN RETURN true; END IF;
  IF (changed->>'dropped')::boolean THEN RETURN true; END IF;
  IF watched = 'directory_copies' THEN
    SELECT to_jsonb(d) INTO of_directory FROM directories d WHERE d.id = (changed->>'directory_id')::bigint;
    -- Without it, the directory's own row says whether it is seen.
    RETURN of_directory IS NULL OR is_hidden('directories', of_directory);
  END IF;
  RETURN EXISTS (SELECT FROM tables t WHERE t.id = (changed->>'table_id')::bigint AND t.dropped)
    OR EXISTS (SELECT FROM partitions p WHERE p.id = (changed->>'partition_id')::bigint AND p.dropped);
END $$;
CREATE FUNCTION see_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (is_hidden(TG_TABLE_NAME, CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END)
      AND is_hidden(TG_TABLE_NAME, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END)) THEN
    INSERT INTO seen_changes VALUES (txid_current(), TG_TABLE_NAME, TG_OP);
  END IF;
  RETURN NULL;
END $$;
"""

READS = {
    "catalog": {
        *(
            "get_database",
            "list_databases",
            "get_function",
            "get_functions",
            "list_functions",
            "get_table",
            "get_tables",
            "list_tables",
            "tables_with_moving_folders",
            "new_partition",
        ),
        *("get_partition", "get_partitions", "get_partitions_by_expr", "list_partition_names", "joining"),
        *("contents", "snapshot", "copy_checksums", "registered_ms", "history", "get_partitions_by_names"),
        # Those of a catalog with a cache.
        *("keep_written", "prewarm_table", "refresh", "renew"),
        # Part of the commit of the rows, which leaves the event.
        "record_loaded_files",
    },
    "transactions": {
        *("get", "find", "show", "valid_txns", "valid_write_ids", "written_since", "would_conflict", "check_open"),
        # Transactions and write ids: a snapshot has them, and the commit that follows leaves the event.
        *("open", "heartbeat", "heartbeat_in", "heartbeat_range", "allocate_write_ids", "allocate_in", "allocate_one"),
        *("add_dynamic_partitions", "seed_txn_ids", "seed_write_ids", "begin_again", "commit"),
        *("open_together", "commit_together"),
        *("abort", "abort_in", "abort_many", "abort_timed_out", "described"),
    },
    # The changes that a commit at once has are those of statements.
    "locks": {
        *("acquire", "acquire_together", "check", "commit_at_once", "described", "drop_timed_out", "heartbeat", "show"),
        *("begin", "unlock"),
    },
    "commits": {"mark", "after", "directories_of", "of_transactions", "volumes"},
    "cache": {"cancel_prewarm", "catch_up", "close", "prewarm", "state"},
    "notification_log": {"bookmark", "current_event_id", "events", "lag", "note_restore", "purge", "read"},
    # Marks, which have no event in Hive.
    "partition_events": {"is_marked", "mark", "purge"},
    "compactor": {
        *("abort", "cancel", "explain", "housekeep", "initiate", "plan_clean", "request", "request_each", "show"),
        "wait",
    },
    "doctor": {"examine"},
    "capacity": {"by_age", "by_format", "by_link", "by_table", "drop_quota", "history", "record", "set_quota", "show"},
    "namespaces": {"check", "check_all", "check_definition", "check_function", "check_view", "is_closed"},
    # Those that change the partitions of links change no row that is watched; their events are tested with links.
    "links": {
        *("check", "find", "get", "of_table", "partitions", "show", "show_all", "source", "sources", "joining"),
        *("add_partitions", "drop_partitions", "expire"),
    },
    # Besides a read, the parts of a change of the primary cluster.
    "replicator": {"copies", "replicate_alone", "copy_directories", "finish_copies"},
    # The other changes of a move are those of a replicator, and are tested with moves.
    "moves": {"cancel", "clean", "show"},
    "homes": {"find", "forget", "note", "show"},
    "catalog_listing": {"clusters", "commits", "copies", "copy_lags", "deltas", "directories", "partitions", "tables"},
    "transaction_listing": {"counts", "locks", "of_agents", "transactions", "waits"},
    "compaction_listing": {"compactions", "counts", "kept_until"},
    # The history of statements, which no statement reads.
    "statements": {"counts", "dags", "grown", "page", "purge", "record", "settle", "show"},
}


@pytest.fixture(autouse=True)
def with_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of the cache are among those that are counted."""
    monkeypatch.delenv("HIVEX_RAWSTORE_IMPL", raising=False)


@pytest.fixture
def watched(metastore: Metastore, metastore_url: str) -> Iterator[Store]:
    """The metastore's database, which notes which transaction changes what."""
    store = Store(metastore_url)
    store.write(lambda connection: connection.execute(text(WATCH)))
    for name, operations in {**WATCHED, "recorded_events": "INSERT"}.items():
        trigger = f"CREATE TRIGGER watch AFTER {operations} ON {name} FOR EACH ROW EXECUTE FUNCTION see_change()"
        store.write(lambda connection, trigger=trigger: connection.execute(text(trigger)))
    yield store
    store.close()


def changes(store: Store) -> tuple[set[str], set[str]]:
    """What was changed since the last call, and what of it by transactions that have recorded no event."""
    with store.read() as connection:
        rows = connection.execute(text("SELECT transaction, name, operation FROM seen_changes")).all()
    store.write(lambda connection: connection.execute(text("DELETE FROM seen_changes")))
    with_event = {transaction for transaction, name, _ in rows if name == "recorded_events"}
    seen = {f"{operation} {name}": transaction for transaction, name, operation in rows if name in WATCHED}
    silent = {
        f"{operation} {name}"
        for transaction, name, operation in rows
        if name in WATCHED and transaction not in with_event
    }
    return set(seen), silent


def public_calls(metastore: Metastore) -> set[str]:
    """``service.method`` for each public method of each public service."""
    # Some parts of a metastore are loaded at their first use.
    parts = (name for name, part in vars(type(metastore)).items() if isinstance(part, property | cached_property))
    services = {name: getattr(metastore, name) for name in (*vars(metastore), *parts) if not name.startswith("_")}
    return {
        f"{service}.{name}"
        for service, value in services.items()
        if service not in ("settings", "clusters", "services")
        for name, _ in inspect.getmembers(type(value), inspect.isfunction)
        if not name.startswith("_")
    }


def keys_of_messages(metastore: Metastore) -> dict[EventType, set[str]]:
    """The keys of all messages of each type in the log, but for those that all events of tables have."""
    keys: dict[EventType, set[str]] = {}
    for event in metastore.notification_log.events(limit=10_000):
        of_quota = event.message.get("quota", {})
        of_tables = {"table_id", "valid_write_ids"} if "table_id" in event.message else set()
        keys.setdefault(event.type, set()).update(event.message.keys() - of_tables, of_quota)
    return keys


def documented_keys(type: EventType) -> set[str]:
    """The keys that the page of events names for a type."""
    words = described()[type.name]
    if "the fields of CREATE_LINK" in words:
        words = described()[EventType.CREATE_LINK.name]
    return set(re.findall(r"``(\w+)``", words))


def test_each_table_of_the_schema_is_watched_or_needs_no_events() -> None:
    assert set(metadata.tables) == WATCHED.keys() | WITHOUT_EVENTS.keys()
    assert not WATCHED.keys() & WITHOUT_EVENTS.keys()


@on_postgresql
def test_every_call_that_changes_something_leaves_an_event(
    metastore: Metastore, session: Session, copy_table: CopyTable, watched: Store, tmp_path: Path
) -> None:
    catalog, transactions = metastore.catalog, metastore.transactions
    dropped: dict[str, list[object]] = {}
    session.sql("CREATE DATABASE other")

    def stored(name: str = "t") -> StoredTable:
        return catalog.get_table("default", name)

    def commit_with_property() -> None:
        (txn_id,) = transactions.open()
        metastore.commits.commit_with_property(txn_id, "default", "t", "_meta.offset", "2")

    def insert() -> None:
        session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        session.sql("INSERT INTO t VALUES (3, 1), (4, 2)")

    def register_copy() -> None:
        copy_table("t", "c2")

    def convert() -> None:
        session.sql("CREATE EXTERNAL TABLE plain (id int) STORED AS ORC LOCATION 'plain'")
        (tmp_path / "c1/plain").mkdir(parents=True, exist_ok=True)
        orc.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "c1/plain/a.orc")
        session.sql("ALTER TABLE plain SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')")

    def set_location() -> None:
        session.sql("CREATE EXTERNAL TABLE outside (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'outside'")
        session.sql("ALTER TABLE outside ADD PARTITION (p = 1)")
        catalog.set_location("default", "outside", "elsewhere")
        catalog.set_location("default", "outside", "elsewhere/p=1", "p=1")

    def work(partition: str) -> None:
        metastore.compactor.request("default", "t", partition, "major")
        assert metastore.compactor.work("host-1") is not None

    def keep(name: str, found: object) -> None:
        dropped[name] = list(found) if isinstance(found, list) else [found]

    # In an order in which each has something to do.
    calls: dict[str, Callable[[], object]] = {
        "catalog.create_database": lambda: catalog.create_database(Database("d")),
        "catalog.alter_database": lambda: catalog.alter_database("d", Database("d", description="changed")),
        "catalog.change_database": lambda: catalog.change_database("d", lambda found: replace(found, owner="ann")),
        "catalog.create_function": lambda: catalog.create_function(PermanentFunction("d", "f", "org.example.F")),
        "catalog.alter_function": lambda: catalog.alter_function(
            "d", "f", PermanentFunction("d", "f", "org.example.G")
        ),
        "catalog.drop_function": lambda: catalog.drop_function("d", "f"),
        "catalog.create_function again": lambda: catalog.create_function(PermanentFunction("d", "f", "org.example.F")),
        "catalog.drop_database": lambda: catalog.drop_database("d", cascade=True),
        "catalog.create_table": lambda: session.sql(
            "CREATE TABLE t (id int) PARTITIONED BY (p int) TBLPROPERTIES ('_meta.offset' = '1')"
        ),
        "catalog.alter_table": lambda: catalog.alter_table("default", "t", replace(stored(), comment="changed")),
        "commits.commit_with_property": commit_with_property,
        "catalog.register an INSERT": insert,
        "catalog.add_partitions": lambda: catalog.add_partitions(
            "default", "t", [catalog.new_partition(stored(), [number]) for number in (7, 8)]
        ),
        "catalog.register originals": convert,
        "catalog.set_location": set_location,
        "catalog.move_folder": lambda: catalog.move_folder("default", "outside", "moved"),
        "catalog.alter_partitions": lambda: catalog.alter_partitions(
            "default", "t", [replace(catalog.get_partition("default", "t", ["7"]), parameters={"a": "b"})]
        ),
        "catalog.rename_partition": lambda: catalog.rename_partition("default", "t", "p=7", "p=9"),
        "catalog.register_copy": register_copy,
        "catalog.unregister_copy": lambda: catalog.unregister_copy("default", "t", "c2"),
        "replicator.replicate": lambda: metastore.replicator.replicate("default.t", "c3"),
        "replicator.drop_copy": lambda: metastore.replicator.drop_copy("default.t", "c3"),
        "replicator.clean": metastore.replicator.clean,
        "primaries.change": lambda: metastore.primaries.change("default.t", "c2"),
        "catalog.add_copies": lambda: catalog.add_copies(stored(), "c3", [], partitions=["p=1"]),
        "links.create": lambda: metastore.links.create("other", "t@default"),
        "links.set_properties": lambda: metastore.links.set_properties("other", "t@default", {"a": "b"}),
        "links.drop": lambda: metastore.links.drop("other", "t@default"),
        "moves.move": lambda: metastore.moves.move("other", "c2"),
        "catalog.register a compaction": lambda: work("p=2"),
        "compactor.work": lambda: work("p=1"),
        "compactor.clean": lambda: metastore.compactor.clean(),
        "catalog.drop_partitions": lambda: keep("p", catalog.drop_partitions("default", "t", ["p=8", "p=2"])),
        "catalog.forget_partitions": lambda: catalog.forget_partitions(dropped["p"]),  # type: ignore[arg-type]
        "catalog.drop_table": lambda: keep("t", catalog.drop_table("default", "t")),
        "catalog.forget_tables": lambda: catalog.forget_tables(dropped["t"]),  # type: ignore[arg-type]
        "housekeeper.run": lambda: metastore.housekeeper.run(),
    }
    silent = {f"{service}.{name}" for service, names in READS.items() for name in names}
    called = {name.partition(" ")[0] for name in calls}
    assert public_calls(metastore) == called | silent, "say of a new call whether it changes something"
    # What is not seen any more changes nothing for others.
    unseen = {"catalog.forget_partitions", "catalog.forget_tables", "housekeeper.run", "replicator.clean"}
    for name, call in calls.items():
        changes(watched)
        call()
        changed, without_event = changes(watched)
        assert without_event == set(), name
        assert bool(changed) == (name not in unseen), name
    session.sql("CREATE TABLE counted (id INT) PARTITIONED BY (p INT)")
    session.sql("INSERT INTO counted VALUES (1, 1)")
    session.sql("ANALYZE TABLE counted COMPUTE STATISTICS FOR COLUMNS id")
    session.sql("ALTER TABLE counted RENAME TO other.counted")
    (txn_id,) = transactions.open()
    transactions.allocate_write_ids([txn_id], "other", "counted")
    metastore.abort(txn_id)
    metastore.capacity.set_quota("default", 10**12)
    assert keys_of_messages(metastore) == {
        each: documented_keys(each) for each in EventType if each is not EventType.UNKNOWN
    }


@on_postgresql
def test_every_statement_that_changes_something_leaves_an_event(
    metastore: Metastore, session: Session, watched: Store
) -> None:
    for sql in (
        "CREATE DATABASE d",
        "ALTER DATABASE d SET DBPROPERTIES ('a' = 'b')",
        "CREATE TABLE t (id int, v string) PARTITIONED BY (p int)",
        "INSERT INTO t VALUES (1, 'a', 1)",
        "UPDATE t SET v = 'b' WHERE id = 1",
        "INSERT OVERWRITE t PARTITION (p = 1) VALUES (1, 'c')",
        "CREATE TABLE made AS SELECT id, p FROM t",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id",
        "ALTER TABLE t ADD PARTITION (p = 2)",
        "ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 3)",
        "ALTER TABLE t ADD COLUMNS (w int)",
        "TRUNCATE TABLE t",
        "ALTER TABLE t DROP PARTITION (p = 3)",
        "CREATE VIEW seen AS SELECT id FROM t",
        "DROP VIEW seen",
        "ALTER TABLE made RENAME TO made_again",
        "DROP TABLE t",
        "DROP DATABASE d CASCADE",
    ):
        changes(watched)
        session.sql(sql)
        changed, without_event = changes(watched)
        assert without_event == set(), sql
        assert changed, sql
    for event_type, keys in keys_of_messages(metastore).items():
        assert keys <= documented_keys(event_type), event_type
