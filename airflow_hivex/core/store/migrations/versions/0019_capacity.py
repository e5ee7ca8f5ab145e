"""Quotas of namespaces, and how much each held day by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0016"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "quotas",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(128), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("warning_percent", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("database_id", "cluster"),
    )
    op.create_table(
        "capacity_history",
        sa.Column("database", sa.String(128), nullable=False),
        sa.Column("cluster", sa.String(128), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("owned_bytes", sa.BigInteger(), nullable=False),
        sa.Column("owned_rows", sa.BigInteger(), nullable=False),
        sa.Column("secondary_bytes", sa.BigInteger(), nullable=False),
        sa.Column("obsolete_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "cluster", "day"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("capacity_history")
    op.drop_table("quotas")
