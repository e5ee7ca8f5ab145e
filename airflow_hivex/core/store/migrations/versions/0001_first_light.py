"""The schema of the first release, with its counters and the default database."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "databases",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
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
    with op.batch_alter_table("notification_log", schema=None) as batch_op:
        batch_op.create_index("ix_notification_log_event_ms", ["event_ms"], unique=False)

    op.create_table(
        "storage_descriptors",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("format", sa.String(length=64), nullable=False),
        sa.Column("serde_parameters", sa.JSON(), nullable=False),
        sa.Column("num_buckets", sa.Integer(), nullable=False),
        sa.Column("bucket_columns", sa.JSON(), nullable=False),
        sa.Column("sort_columns", sa.JSON(), nullable=False),
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
        sa.PrimaryKeyConstraint("id", name=op.f("pk_txns")),
    )
    with op.batch_alter_table("txns", schema=None) as batch_op:
        batch_op.create_index(
            "ix_txns_unsettled",
            ["state", "id"],
            unique=False,
            sqlite_where=sa.text("state <> 'c'"),
            postgresql_where=sa.text("state <> 'c'"),
        )

    op.create_table(
        "tables",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("database_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("storage_descriptor_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("primary_cluster", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("partition_keys", sa.JSON(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name=op.f("fk_tables_database_id_databases")),
        sa.ForeignKeyConstraint(
            ["storage_descriptor_id"],
            ["storage_descriptors.id"],
            name=op.f("fk_tables_storage_descriptor_id_storage_descriptors"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tables")),
    )
    with op.batch_alter_table("tables", schema=None) as batch_op:
        batch_op.create_index("ix_tables_location", ["primary_cluster", "location"], unique=False)
        batch_op.create_index(batch_op.f("ix_tables_storage_descriptor_id"), ["storage_descriptor_id"], unique=False)
        batch_op.create_index(
            "uq_tables_database_id_name",
            ["database_id", "name"],
            unique=True,
            sqlite_where=sa.text("dropped = 0"),
            postgresql_where=sa.text("NOT dropped"),
        )

    op.create_table(
        "next_write_ids",
        sa.Column(
            "table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_next_write_ids_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", name=op.f("pk_next_write_ids")),
    )
    op.create_table(
        "partitions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_partitions_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partitions")),
    )
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.create_index(
            "uq_partitions_table_id_name",
            ["table_id", "name"],
            unique=True,
            sqlite_where=sa.text("dropped = 0"),
            postgresql_where=sa.text("NOT dropped"),
        )

    op.create_table(
        "txn_components",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("operation", sa.String(length=1), nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_txn_components_table_id_tables")),
        sa.ForeignKeyConstraint(["txn_id"], ["txns.id"], name=op.f("fk_txn_components_txn_id_txns")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_txn_components")),
    )
    with op.batch_alter_table("txn_components", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_txn_components_table_id"), ["table_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_txn_components_txn_id"), ["txn_id"], unique=False)

    op.create_table(
        "txn_to_write_id",
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_txn_to_write_id_table_id_tables")),
        sa.PrimaryKeyConstraint("table_id", "txn_id", name=op.f("pk_txn_to_write_id")),
        sa.UniqueConstraint("table_id", "write_id", name=op.f("uq_txn_to_write_id_table_id_write_id")),
    )
    with op.batch_alter_table("txn_to_write_id", schema=None) as batch_op:
        batch_op.create_index("ix_txn_to_write_id_txn_id", ["txn_id"], unique=False)

    op.create_table(
        "cluster_storage_descriptors",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("valid_write_ids", sa.Text(), nullable=True),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_cluster_storage_descriptors_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(
            ["table_id"], ["tables.id"], name=op.f("fk_cluster_storage_descriptors_table_id_tables")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_storage_descriptors")),
    )
    with op.batch_alter_table("cluster_storage_descriptors", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_cluster_storage_descriptors_partition_id"), ["partition_id"], unique=False)
        batch_op.create_index(
            "uq_cluster_storage_descriptors_partition",
            ["table_id", "cluster", "partition_id"],
            unique=True,
            sqlite_where=sa.text("partition_id IS NOT NULL"),
            postgresql_where=sa.text("partition_id IS NOT NULL"),
        )
        batch_op.create_index(
            "uq_cluster_storage_descriptors_table",
            ["table_id", "cluster"],
            unique=True,
            sqlite_where=sa.text("partition_id IS NULL"),
            postgresql_where=sa.text("partition_id IS NULL"),
        )

    op.create_table(
        "directories",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
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
    )
    with op.batch_alter_table("directories", schema=None) as batch_op:
        batch_op.create_index("ix_directories_partition_id", ["partition_id"], unique=False)
        batch_op.create_index("ix_directories_table_id_partition_id", ["table_id", "partition_id"], unique=False)

    op.create_table(
        "partition_key_values",
        sa.Column("partition_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name=op.f("fk_partition_key_values_partition_id_partitions")
        ),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_partition_key_values_table_id_tables")),
        sa.PrimaryKeyConstraint("partition_id", "position", name=op.f("pk_partition_key_values")),
    )
    with op.batch_alter_table("partition_key_values", schema=None) as batch_op:
        batch_op.create_index(
            "ix_partition_key_values_lookup", ["table_id", "position", "value", "partition_id"], unique=False
        )

    op.create_table(
        "directory_copies",
        sa.Column("directory_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["directory_id"], ["directories.id"], name=op.f("fk_directory_copies_directory_id_directories")
        ),
        sa.PrimaryKeyConstraint("directory_id", "cluster", name=op.f("pk_directory_copies")),
    )
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    op.bulk_insert(counters, [{"name": "txn", "value": 0}, {"name": "event", "value": 0}])
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


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("directory_copies")
    with op.batch_alter_table("partition_key_values", schema=None) as batch_op:
        batch_op.drop_index("ix_partition_key_values_lookup")

    op.drop_table("partition_key_values")
    with op.batch_alter_table("directories", schema=None) as batch_op:
        batch_op.drop_index("ix_directories_table_id_partition_id")
        batch_op.drop_index("ix_directories_partition_id")

    op.drop_table("directories")
    with op.batch_alter_table("cluster_storage_descriptors", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_cluster_storage_descriptors_table",
            sqlite_where=sa.text("partition_id IS NULL"),
            postgresql_where=sa.text("partition_id IS NULL"),
        )
        batch_op.drop_index(
            "uq_cluster_storage_descriptors_partition",
            sqlite_where=sa.text("partition_id IS NOT NULL"),
            postgresql_where=sa.text("partition_id IS NOT NULL"),
        )
        batch_op.drop_index(batch_op.f("ix_cluster_storage_descriptors_partition_id"))

    op.drop_table("cluster_storage_descriptors")
    with op.batch_alter_table("txn_to_write_id", schema=None) as batch_op:
        batch_op.drop_index("ix_txn_to_write_id_txn_id")

    op.drop_table("txn_to_write_id")
    with op.batch_alter_table("txn_components", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_txn_components_txn_id"))
        batch_op.drop_index(batch_op.f("ix_txn_components_table_id"))

    op.drop_table("txn_components")
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_partitions_table_id_name", sqlite_where=sa.text("dropped = 0"), postgresql_where=sa.text("NOT dropped")
        )

    op.drop_table("partitions")
    op.drop_table("next_write_ids")
    with op.batch_alter_table("tables", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_tables_database_id_name", sqlite_where=sa.text("dropped = 0"), postgresql_where=sa.text("NOT dropped")
        )
        batch_op.drop_index(batch_op.f("ix_tables_storage_descriptor_id"))
        batch_op.drop_index("ix_tables_location")

    op.drop_table("tables")
    with op.batch_alter_table("txns", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_txns_unsettled", sqlite_where=sa.text("state <> 'c'"), postgresql_where=sa.text("state <> 'c'")
        )

    op.drop_table("txns")
    op.drop_table("storage_descriptors")
    with op.batch_alter_table("notification_log", schema=None) as batch_op:
        batch_op.drop_index("ix_notification_log_event_ms")

    op.drop_table("notification_log")
    op.drop_table("databases")
    op.drop_table("counters")
