"""Moves of namespaces to other clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0019"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "namespace_moves",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("namespace", sa.String(128), nullable=False),
        sa.Column("cluster", sa.String(128), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("copies_linked", sa.Boolean(), nullable=False),
        sa.Column("keeps_copies", sa.Boolean(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_namespace_moves_database_id", "namespace_moves", ["database_id"])
    op.create_table(
        "moved_copies",
        sa.Column("move_id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(128), nullable=False),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.Column("drop_after_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["move_id"], ["namespace_moves.id"]),
        sa.PrimaryKeyConstraint("move_id", "table_id", "cluster"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("moved_copies")
    op.drop_table("namespace_moves")
