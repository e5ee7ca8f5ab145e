"""A version of each table, for those who keep what they have read of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.add_column("tables", sa.Column("version", sa.BigInteger(), server_default="0", nullable=False))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("tables", "version")
