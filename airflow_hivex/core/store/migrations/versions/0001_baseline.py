"""The schema of the first release, with its counters and the default database."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_COUNTERS = ("txn", "event", "lock", "compaction", "purged_event")


def upgrade() -> None:
    """Create all tables, and insert the counters and the default database."""
    op.create_table(
        "caches",
        sa.Column("id", _ID, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("process_id", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("armed_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_caches")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "capacity_history",
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("owned_bytes", sa.BigInteger(), nullable=False),
        sa.Column("owned_rows", sa.BigInteger(), nullable=False),
        sa.Column("secondary_bytes", sa.BigInteger(), nullable=False),
        sa.Column("obsolete_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "cluster", "day", name=op.f("pk_capacity_history")),
    )
    op.create_table(
        "cluster_roots",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("is_marked", sa.Boolean(), nullable=False),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_cluster_roots")),
    )
    op.create_table(
        "compaction_queue",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("type", sa.String(length=1), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("pool", sa.String(length=128), nullable=True),
        sa.Column("buckets", sa.Integer(), nullable=True),
        sa.Column("order_by", sa.Text(), nullable=True),
        sa.Column("run_as", sa.String(length=128), nullable=True),
        sa.Column("initiator_id", sa.String(length=255), nullable=True),
        sa.Column("initiator_version", sa.String(length=64), nullable=True),
        sa.Column("enqueued_ms", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.String(length=255), nullable=True),
        sa.Column("worker_version", sa.String(length=64), nullable=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("highest_write_id", sa.BigInteger(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("next_txn_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=True),
        sa.Column("cleaner_started_ms", sa.BigInteger(), nullable=True),
        sa.Column("retry_retention_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("job_id", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compaction_queue")),
    )
    op.create_index("ix_compaction_queue_state", "compaction_queue", ["state", "pool", "id"], unique=False)
    op.create_index(
        "ix_compaction_queue_table_id_partition", "compaction_queue", ["table_id", "partition"], unique=False
    )
    op.create_index(
        "uq_compaction_queue_active",
        "compaction_queue",
        ["table_id", "partition"],
        unique=True,
        sqlite_where=sa.text("state IN ('i', 'w')"),
        postgresql_where=sa.text("state IN ('i', 'w')"),
    )
    op.create_table(
        "completed_compactions",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("type", sa.String(length=1), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("pool", sa.String(length=128), nullable=True),
        sa.Column("buckets", sa.Integer(), nullable=True),
        sa.Column("order_by", sa.Text(), nullable=True),
        sa.Column("run_as", sa.String(length=128), nullable=True),
        sa.Column("initiator_id", sa.String(length=255), nullable=True),
        sa.Column("initiator_version", sa.String(length=64), nullable=True),
        sa.Column("enqueued_ms", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.String(length=255), nullable=True),
        sa.Column("worker_version", sa.String(length=64), nullable=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("highest_write_id", sa.BigInteger(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("next_txn_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=True),
        sa.Column("cleaner_started_ms", sa.BigInteger(), nullable=True),
        sa.Column("retry_retention_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("job_id", sa.String(length=255), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_completed_compactions")),
    )
    op.create_index("ix_completed_compactions_state", "completed_compactions", ["state"], unique=False)
    op.create_index(
        "ix_completed_compactions_table_id_partition",
        "completed_compactions",
        ["table_id", "partition", "id"],
        unique=False,
    )
    op.create_table(
        "copied_moments",
        sa.Column("id", _ID, nullable=False),
        sa.Column("taken_ms", sa.BigInteger(), nullable=False),
        sa.Column("valid_txns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_copied_moments")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "copy_places",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("directory_id", _ID, nullable=True),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.Column("unused_txn_id", sa.BigInteger(), nullable=True),
        sa.Column("unused_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_copy_places")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_copy_places_table_id_cluster", "copy_places", ["table_id", "cluster"], unique=False)
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "databases",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_databases")),
        sa.UniqueConstraint("name", name=op.f("uq_databases_name")),
    )
    op.create_table(
        "former_write_ids",
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("left_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "table", name=op.f("pk_former_write_ids")),
    )
    op.create_index(op.f("ix_former_write_ids_left_ms"), "former_write_ids", ["left_ms"], unique=False)
    op.create_table(
        "locks",
        sa.Column("lock_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("internal_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("full_table", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("type", sa.String(length=1), nullable=False),
        sa.Column("strictness", sa.Integer(), nullable=False),
        sa.Column("operation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("requested_ms", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_ms", sa.BigInteger(), nullable=False),
        sa.Column("acquired_ms", sa.BigInteger(), nullable=True),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("blocked_by_lock_id", sa.BigInteger(), nullable=True),
        sa.Column("blocked_by_internal_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("lock_id", "internal_id", name=op.f("pk_locks")),
    )
    op.create_index(
        "ix_locks_blocked_by_lock_id",
        "locks",
        ["blocked_by_lock_id"],
        unique=False,
        sqlite_where=sa.text("blocked_by_lock_id IS NOT NULL"),
        postgresql_where=sa.text("blocked_by_lock_id IS NOT NULL"),
    )
    op.create_index("ix_locks_database", "locks", ["database", "strictness"], unique=False)
    op.create_index("ix_locks_full_table", "locks", ["full_table", "strictness"], unique=False)
    op.create_index("ix_locks_resource", "locks", ["resource", "strictness"], unique=False)
    op.create_index("ix_locks_txn_id", "locks", ["txn_id"], unique=False)
    op.create_index(
        "ix_locks_waiting",
        "locks",
        ["txn_id"],
        unique=False,
        sqlite_where=sa.text("state = 'w'"),
        postgresql_where=sa.text("state = 'w'"),
    )
    op.create_table(
        "namespace_homes",
        sa.Column("namespace", sa.String(length=128), nullable=False),
        sa.Column("metastore", sa.Text(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", name=op.f("pk_namespace_homes")),
    )
    op.create_table(
        "namespace_moves",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("namespace", sa.String(length=128), nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("copies_linked", sa.Boolean(), nullable=False),
        sa.Column("keeps_copies", sa.Boolean(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_namespace_moves")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_namespace_moves_database_id", "namespace_moves", ["database_id"], unique=False)
    op.create_table(
        "notification_log",
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_ms", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("database", sa.String(length=128), nullable=True),
        sa.Column("table", sa.String(length=128), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_notification_log")),
    )
    op.create_index("ix_notification_log_event_ms", "notification_log", ["event_ms"], unique=False)
    op.create_table(
        "partition_events",
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("type", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "table", "partition", "type", name=op.f("pk_partition_events")),
    )
    op.create_index("ix_partition_events_event_ms", "partition_events", ["event_ms"], unique=False)
    op.create_table(
        "recorded_events",
        sa.Column("sequence", _ID, nullable=False),
        sa.Column("event_ms", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("database", sa.String(length=128), nullable=True),
        sa.Column("table", sa.String(length=128), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_recorded_events")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "storage_descriptors",
        sa.Column("id", _ID, nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("format", sa.String(length=64), nullable=False),
        sa.Column("serde_parameters", sa.JSON(), nullable=False),
        sa.Column("num_buckets", sa.Integer(), nullable=False),
        sa.Column("bucket_columns", sa.JSON(), nullable=False),
        sa.Column("sort_columns", sa.JSON(), nullable=False),
        sa.Column("input_format", sa.Text(), nullable=True),
        sa.Column("output_format", sa.Text(), nullable=True),
        sa.Column("serde", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("parameters", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("compressed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("skew", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("stored_as_sub_directories", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_descriptors")),
    )
    op.create_table(
        "txns",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("type", sa.Integer(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_ms", sa.BigInteger(), nullable=False),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("reason_code", sa.Integer(), nullable=True),
        sa.Column("min_open_id", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.String(length=1024), nullable=True),
        sa.Column("statements", sa.Integer(), server_default="0", nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=True),
        sa.Column("statement", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_txns")),
    )
    op.create_index(
        "ix_txns_min_open_id",
        "txns",
        ["min_open_id"],
        unique=False,
        sqlite_where=sa.text("state = 'o'"),
        postgresql_where=sa.text("state = 'o'"),
    )
    op.create_index(
        "ix_txns_unsettled",
        "txns",
        ["state", "id"],
        unique=False,
        sqlite_where=sa.text("state <> 'c'"),
        postgresql_where=sa.text("state <> 'c'"),
    )
    op.create_index(
        "uq_txns_key",
        "txns",
        ["key"],
        unique=True,
        sqlite_where=sa.text("key IS NOT NULL"),
        postgresql_where=sa.text("key IS NOT NULL"),
    )
    op.create_table(
        "ended_statements",
        sa.Column("id", _ID, nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=1), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("tables", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("dag_id", sa.String(length=250), nullable=True),
        sa.Column("task_id", sa.String(length=250), nullable=True),
        sa.Column("run_id", sa.String(length=250), nullable=True),
        sa.Column("map_index", sa.Integer(), nullable=True),
        sa.Column("try_number", sa.Integer(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("cluster", sa.String(length=128), nullable=True),
        sa.Column("route", sa.Text(), nullable=True),
        sa.Column("rows_written", sa.BigInteger(), nullable=True),
        sa.Column("rows_deleted", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("wait_ms", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ended_statements")),
    )
    op.create_index(op.f("ix_ended_statements_ended_ms"), "ended_statements", ["ended_ms"], unique=False)
    op.create_index(op.f("ix_ended_statements_txn_id"), "ended_statements", ["txn_id"], unique=False)
    op.create_index(
        "ix_ended_statements_open",
        "ended_statements",
        ["txn_id"],
        unique=False,
        sqlite_where=sa.text("outcome = 'o'"),
        postgresql_where=sa.text("outcome = 'o'"),
    )
    op.create_table(
        "functions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("resources", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("owner_type", sa.String(length=16), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name=op.f("fk_functions_database_id_databases")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_functions")),
        sa.UniqueConstraint("database_id", "name", name=op.f("uq_functions_database_id_name")),
    )
    op.create_table(
        "moved_copies",
        sa.Column("move_id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.Column("drop_after_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["move_id"], ["namespace_moves.id"], name=op.f("fk_moved_copies_move_id_namespace_moves")
        ),
        sa.PrimaryKeyConstraint("move_id", "table_id", "cluster", name=op.f("pk_moved_copies")),
    )
    op.create_table(
        "quotas",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("warning_percent", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name=op.f("fk_quotas_database_id_databases")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
        sa.UniqueConstraint("database_id", "cluster", name=op.f("uq_quotas_database_id_cluster")),
    )
    op.create_table(
        "tables",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("storage_descriptor_id", _ID, nullable=False),
        sa.Column("primary_cluster", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("partition_keys", sa.JSON(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.Column("view_original_text", sa.Text(), nullable=True),
        sa.Column("view_expanded_text", sa.Text(), nullable=True),
        sa.Column("owner_type", sa.String(length=16), server_default="USER", nullable=False),
        sa.Column("last_accessed_ms", sa.BigInteger(), nullable=True),
        sa.Column("retention", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("history_txn_id", sa.BigInteger(), nullable=True),
        sa.Column("history_write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name=op.f("fk_tables_database_id_databases")),
        sa.ForeignKeyConstraint(
            ["storage_descriptor_id"],
            ["storage_descriptors.id"],
            name=op.f("fk_tables_storage_descriptor_id_storage_descriptors"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tables")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tables_location", "tables", ["primary_cluster", "location"], unique=False)
    op.create_index(op.f("ix_tables_storage_descriptor_id"), "tables", ["storage_descriptor_id"], unique=False)
    op.create_index(
        "uq_tables_database_id_name",
        "tables",
        ["database_id", "name"],
        unique=True,
        sqlite_where=sa.text("dropped = 0"),
        postgresql_where=sa.text("NOT dropped"),
    )
    op.create_table(
        "change_streams",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("stream", sa.String(length=128), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("since_write_id", sa.BigInteger(), nullable=True),
        sa.Column("until_write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_change_streams_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", "stream", name=op.f("pk_change_streams")),
    )
    op.create_table(
        "loaded_files",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("path_key", sa.String(length=32), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.Text(), nullable=False),
        sa.Column("checksum", sa.String(length=64), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("rows_of_load", sa.BigInteger(), nullable=False),
        sa.Column("loaded_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_loaded_files_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", "path_key", name=op.f("pk_loaded_files")),
    )
    op.create_table(
        "completed_txn_components",
        sa.Column("id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.Column("updates", sa.Boolean(), nullable=False),
        sa.Column("committed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_completed_txn_components_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_completed_txn_components")),
    )
    op.create_index(
        "ix_completed_txn_components_table_id_partition",
        "completed_txn_components",
        ["table_id", "partition"],
        unique=False,
    )
    op.create_table(
        "kept_snapshots",
        sa.Column("txn_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("settled_txn_id", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_kept_snapshots_table_id_tables")),
        sa.PrimaryKeyConstraint("txn_id", "table_id", name=op.f("pk_kept_snapshots")),
    )
    op.create_table(
        "links",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("table_name", sa.String(length=128), nullable=False),
        sa.Column("namespace", sa.String(length=128), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("after_partition_id", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name=op.f("fk_links_database_id_databases")),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_links_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_links")),
        sa.UniqueConstraint("database_id", "table_id", name=op.f("uq_links_database_id_table_id")),
        sa.UniqueConstraint(
            "database_id", "table_name", "namespace", name=op.f("uq_links_database_id_table_name_namespace")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_links_table_id", "links", ["table_id"], unique=False)
    op.create_table(
        "next_write_ids",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_next_write_ids_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", name=op.f("pk_next_write_ids")),
    )
    op.create_table(
        "partitions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.Column("storage_descriptor_id", _ID, nullable=True),
        sa.Column("last_accessed_ms", sa.BigInteger(), nullable=True),
        sa.Column("history_write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["storage_descriptor_id"],
            ["storage_descriptors.id"],
            name=op.f("fk_partitions_storage_descriptor_id_storage_descriptors"),
        ),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_partitions_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partitions")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_partitions_storage_descriptor_id"), "partitions", ["storage_descriptor_id"], unique=False)
    op.create_index(
        "uq_partitions_table_id_name",
        "partitions",
        ["table_id", "name"],
        unique=True,
        sqlite_where=sa.text("dropped = 0"),
        postgresql_where=sa.text("NOT dropped"),
    )
    op.create_table(
        "pending_writes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("statement_id", sa.Integer(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("writer", sa.String(length=1024), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("written", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_pending_writes_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pending_writes")),
    )
    op.create_index(op.f("ix_pending_writes_txn_id"), "pending_writes", ["txn_id"], unique=False)
    op.create_table(
        "table_commits",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("operation", sa.String(length=256), nullable=False),
        sa.Column("rows_added", sa.BigInteger(), nullable=False),
        sa.Column("rows_deleted", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("columns_before", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_table_commits_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_table_commits")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_table_commits_committed_ms", "table_commits", ["committed_ms"], unique=False)
    op.create_index("ix_table_commits_table_id_id", "table_commits", ["table_id", "id"], unique=False)
    op.create_table(
        "txn_components",
        sa.Column("id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("operation", sa.String(length=1), nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_txn_components_table_id_tables")),
        sa.ForeignKeyConstraint(["txn_id"], ["txns.id"], name=op.f("fk_txn_components_txn_id_txns")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_txn_components")),
    )
    op.create_index(op.f("ix_txn_components_table_id"), "txn_components", ["table_id"], unique=False)
    op.create_index(op.f("ix_txn_components_txn_id"), "txn_components", ["txn_id"], unique=False)
    op.create_table(
        "txn_to_write_id",
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_txn_to_write_id_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", "txn_id", name=op.f("pk_txn_to_write_id")),
        sa.UniqueConstraint("table_id", "write_id", name=op.f("uq_txn_to_write_id_table_id_write_id")),
    )
    op.create_index("ix_txn_to_write_id_txn_id", "txn_to_write_id", ["txn_id"], unique=False)
    op.create_table(
        "write_set",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("commit_id", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.String(length=1), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_write_set_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_write_set")),
    )
    op.create_index("ix_write_set_commit_id", "write_set", ["commit_id"], unique=False)
    op.create_index("ix_write_set_table_id_commit_id", "write_set", ["table_id", "commit_id"], unique=False)
    op.create_table(
        "written_batches",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("app_id", sa.String(length=128), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_written_batches_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", "app_id", name=op.f("pk_written_batches")),
    )
    op.create_table(
        "cluster_storage_descriptors",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition_id", _ID, nullable=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("valid_write_ids", sa.Text(), nullable=True),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.Column("moment_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_cluster_storage_descriptors_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(
            ["table_id"], ["tables.id"], name=op.f("fk_cluster_storage_descriptors_table_id_tables")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_storage_descriptors")),
    )
    op.create_index(
        op.f("ix_cluster_storage_descriptors_moment_id"), "cluster_storage_descriptors", ["moment_id"], unique=False
    )
    op.create_index(
        op.f("ix_cluster_storage_descriptors_partition_id"),
        "cluster_storage_descriptors",
        ["partition_id"],
        unique=False,
    )
    op.create_index(
        "uq_cluster_storage_descriptors_partition",
        "cluster_storage_descriptors",
        ["table_id", "cluster", "partition_id"],
        unique=True,
        sqlite_where=sa.text("partition_id IS NOT NULL"),
        postgresql_where=sa.text("partition_id IS NOT NULL"),
    )
    op.create_index(
        "uq_cluster_storage_descriptors_table",
        "cluster_storage_descriptors",
        ["table_id", "cluster"],
        unique=True,
        sqlite_where=sa.text("partition_id IS NULL"),
        postgresql_where=sa.text("partition_id IS NULL"),
    )
    op.create_table(
        "directories",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition_id", _ID, nullable=True),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("min_write_id", sa.BigInteger(), nullable=False),
        sa.Column("max_write_id", sa.BigInteger(), nullable=False),
        sa.Column("statement_id", sa.Integer(), nullable=True),
        sa.Column("visibility_txn_id", sa.BigInteger(), nullable=False),
        sa.Column("row_layout", sa.String(length=16), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_directories_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_directories_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_directories")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_directories_partition_id", "directories", ["partition_id"], unique=False)
    op.create_index("ix_directories_table_id_partition_id", "directories", ["table_id", "partition_id"], unique=False)
    op.create_table(
        "link_partitions",
        sa.Column("link_id", _ID, nullable=False),
        sa.Column("partition_id", _ID, nullable=False),
        sa.Column("is_shown", sa.Boolean(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["link_id"], ["links.id"], name=op.f("fk_link_partitions_link_id_links")),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_link_partitions_partition_id_partitions")
        ),
        sa.PrimaryKeyConstraint("link_id", "partition_id", name=op.f("pk_link_partitions")),
    )
    op.create_index("ix_link_partitions_partition_id", "link_partitions", ["partition_id"], unique=False)
    op.create_table(
        "partition_key_values",
        sa.Column("partition_id", _ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_partition_key_values_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_partition_key_values_table_id_tables")),
        sa.PrimaryKeyConstraint("partition_id", "position", name=op.f("pk_partition_key_values")),
    )
    op.create_index(
        "ix_partition_key_values_lookup",
        "partition_key_values",
        ["table_id", "position", "value", "partition_id"],
        unique=False,
    )
    op.create_table(
        "statistics",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition_id", _ID, nullable=True),
        sa.Column("num_rows", sa.BigInteger(), nullable=True),
        sa.Column("num_files", sa.BigInteger(), nullable=False),
        sa.Column("total_size", sa.BigInteger(), nullable=False),
        sa.Column("valid_write_ids", sa.Text(), nullable=True),
        sa.Column("computed_ms", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_statistics_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_statistics_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_statistics")),
    )
    op.create_index("ix_statistics_table_id", "statistics", ["table_id"], unique=False)
    op.create_index(
        "uq_statistics_partition",
        "statistics",
        ["partition_id"],
        unique=True,
        sqlite_where=sa.text("partition_id IS NOT NULL"),
        postgresql_where=sa.text("partition_id IS NOT NULL"),
    )
    op.create_index(
        "uq_statistics_table",
        "statistics",
        ["table_id"],
        unique=True,
        sqlite_where=sa.text("partition_id IS NULL"),
        postgresql_where=sa.text("partition_id IS NULL"),
    )
    op.create_table(
        "directory_copies",
        sa.Column("directory_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["directory_id"], ["directories.id"], name=op.f("fk_directory_copies_directory_id_directories")
        ),
        sa.PrimaryKeyConstraint("directory_id", "cluster", name=op.f("pk_directory_copies")),
    )

    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    op.bulk_insert(counters, [{"name": name, "value": 0} for name in _COUNTERS])
    databases = sa.table(
        "databases",
        sa.column("name"),
        sa.column("location"),
        sa.column("description"),
        sa.column("parameters", sa.JSON()),
        sa.column("created_ms"),
    )
    default = {
        "name": "default",
        "location": "default.db",
        "description": "Default Hive database",
        "parameters": {},
        "created_ms": int(time.time() * 1000),
    }
    op.bulk_insert(databases, [default])
