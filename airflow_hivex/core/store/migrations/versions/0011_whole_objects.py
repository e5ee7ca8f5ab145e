"""All of Hive's storage descriptor, also of partitions; events that are recorded without waiting for an id."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_STORAGE_OF_PARTITION = "storage_descriptor_id"


def _added() -> dict[str, list[sa.Column[Any]]]:
    """Return the columns that are added, by table."""
    return {
        "storage_descriptors": [
            sa.Column("input_format", sa.Text()),
            sa.Column("output_format", sa.Text()),
            sa.Column("serde", sa.JSON(), nullable=False, server_default="{}"),
            sa.Column("parameters", sa.JSON(), nullable=False, server_default="{}"),
            sa.Column("compressed", sa.Boolean(), nullable=False, server_default=sa.false()),
            sa.Column("skew", sa.JSON()),
            sa.Column("stored_as_sub_directories", sa.Boolean(), nullable=False, server_default=sa.false()),
        ],
        "tables": [
            sa.Column("owner_type", sa.String(16), nullable=False, server_default="USER"),
            sa.Column("last_accessed_ms", sa.BigInteger()),
            sa.Column("retention", sa.Integer(), nullable=False, server_default="0"),
        ],
        "partitions": [sa.Column("last_accessed_ms", sa.BigInteger())],
    }


def upgrade() -> None:
    """Make the change."""
    for table, columns in _added().items():
        for column in columns:
            op.add_column(table, column)
    # Written out, as SQLite takes a column with a foreign key only so without copying the table.
    op.execute(
        f"ALTER TABLE partitions ADD COLUMN {_STORAGE_OF_PARTITION} "
        f"{'INTEGER' if op.get_bind().dialect.name == 'sqlite' else 'BIGINT'} "
        "CONSTRAINT fk_partitions_storage_descriptor_id_storage_descriptors REFERENCES storage_descriptors (id)"
    )
    op.create_index("ix_partitions_storage_descriptor_id", "partitions", [_STORAGE_OF_PARTITION])
    # DROP TABLE left the storage descriptor behind.
    op.execute("DELETE FROM storage_descriptors WHERE id NOT IN (SELECT storage_descriptor_id FROM tables)")
    op.create_table(
        "recorded_events",
        sa.Column("sequence", _ID, nullable=False),
        sa.Column("event_ms", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("database", sa.String(128)),
        sa.Column("table", sa.String(128)),
        sa.Column("txn_id", sa.BigInteger()),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sequence"),
        sqlite_autoincrement=True,
    )
    op.execute("INSERT INTO counters (name, value) VALUES ('purged_event', 0)")


def downgrade() -> None:
    """Undo it; parts of storage descriptors that only this release keeps are lost, and events that nobody has read."""
    op.execute("DELETE FROM counters WHERE name = 'purged_event'")
    op.drop_table("recorded_events")
    op.drop_index("ix_partitions_storage_descriptor_id", "partitions")
    with op.batch_alter_table("partitions", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.drop_constraint("fk_partitions_storage_descriptor_id_storage_descriptors", type_="foreignkey")
        batch.drop_column(_STORAGE_OF_PARTITION)
    for table, columns in _added().items():
        for column in columns:
            op.drop_column(table, column.name)
