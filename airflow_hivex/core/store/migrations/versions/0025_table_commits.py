"""The record of commits of each table, and streams of their changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0023"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "table_commits",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("operation", sa.String(256), nullable=False),
        sa.Column("rows_added", sa.BigInteger(), nullable=False),
        sa.Column("rows_deleted", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("columns_before", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_table_commits_table_id_id", "table_commits", ["table_id", "id"])
    op.create_index("ix_table_commits_committed_ms", "table_commits", ["committed_ms"])
    op.create_table(
        "change_streams",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("stream", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("since_write_id", sa.BigInteger(), nullable=True),
        sa.Column("until_write_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"]),
        sa.PrimaryKeyConstraint("table_id", "stream"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("change_streams")
    op.drop_table("table_commits")
