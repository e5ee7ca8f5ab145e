"""A checksum of each copy of a directory, where one is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.add_column("directory_copies", sa.Column("checksum", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("directory_copies", "checksum")
