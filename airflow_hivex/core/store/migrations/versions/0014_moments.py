"""The moments that were copied to clusters, and how far back the history of a table goes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "copied_moments",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("taken_ms", sa.BigInteger(), nullable=False),
        sa.Column("valid_txns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_copied_moments")),
        sqlite_autoincrement=True,
    )
    op.add_column("cluster_storage_descriptors", sa.Column("moment_id", sa.BigInteger(), nullable=True))
    op.create_index(
        op.f("ix_cluster_storage_descriptors_moment_id"), "cluster_storage_descriptors", ["moment_id"], unique=False
    )
    op.add_column("tables", sa.Column("history_txn_id", sa.BigInteger(), nullable=True))
    op.add_column("tables", sa.Column("history_write_id", sa.BigInteger(), nullable=True))
    op.add_column("partitions", sa.Column("history_write_id", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("partitions", "history_write_id")
    op.drop_column("tables", "history_write_id")
    op.drop_column("tables", "history_txn_id")
    op.drop_index(op.f("ix_cluster_storage_descriptors_moment_id"), table_name="cluster_storage_descriptors")
    op.drop_column("cluster_storage_descriptors", "moment_id")
    op.drop_table("copied_moments")
