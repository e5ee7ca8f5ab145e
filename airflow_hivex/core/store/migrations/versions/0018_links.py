"""Links to tables of other namespaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0015"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "links",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("table_name", sa.String(128), nullable=False),
        sa.Column("namespace", sa.String(128), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("after_partition_id", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(128), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"]),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("database_id", "table_name", "namespace"),
        sa.UniqueConstraint("database_id", "table_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_links_table_id", "links", ["table_id"])
    op.create_table(
        "link_partitions",
        sa.Column("link_id", _ID, nullable=False),
        sa.Column("partition_id", _ID, nullable=False),
        sa.Column("is_shown", sa.Boolean(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["link_id"], ["links.id"]),
        sa.ForeignKeyConstraint(["partition_id"], ["partitions.id"]),
        sa.PrimaryKeyConstraint("link_id", "partition_id"),
    )
    op.create_index("ix_link_partitions_partition_id", "link_partitions", ["partition_id"])


def downgrade() -> None:
    """Undo it."""
    op.drop_table("link_partitions")
    op.drop_table("links")
