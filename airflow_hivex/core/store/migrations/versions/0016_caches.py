"""The caches of metadata, which follow the notification log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "caches",
        sa.Column("id", identity, primary_key=True, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("process_id", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("armed_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("caches")
