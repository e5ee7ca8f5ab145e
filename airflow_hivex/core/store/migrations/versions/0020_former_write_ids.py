"""The write ids that tables of a name have taken, so that a later table of the name takes others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "former_write_ids",
        sa.Column("database", sa.String(128), nullable=False),
        sa.Column("table", sa.String(128), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("left_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "table"),
    )
    op.create_index("ix_former_write_ids_left_ms", "former_write_ids", ["left_ms"])


def downgrade() -> None:
    """Undo it."""
    op.drop_table("former_write_ids")
