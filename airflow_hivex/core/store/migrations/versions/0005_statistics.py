"""Statistics: what ANALYZE has found of tables, partitions and their columns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "statistics",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("table_id", _ID, sa.ForeignKey("tables.id"), nullable=False),
        sa.Column("partition_id", _ID, sa.ForeignKey("partitions.id")),
        sa.Column("num_rows", sa.BigInteger()),
        sa.Column("num_files", sa.BigInteger(), nullable=False),
        sa.Column("total_size", sa.BigInteger(), nullable=False),
        sa.Column("valid_write_ids", sa.Text()),
        sa.Column("computed_ms", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
    )
    op.create_index("ix_statistics_table_id", "statistics", ["table_id"])
    for name, column, condition in (
        ("uq_statistics_table", "table_id", "partition_id IS NULL"),
        ("uq_statistics_partition", "partition_id", "partition_id IS NOT NULL"),
    ):
        where = sa.text(condition)
        op.create_index(name, "statistics", [column], unique=True, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Undo it; ANALYZE finds the same again."""
    op.drop_table("statistics")
