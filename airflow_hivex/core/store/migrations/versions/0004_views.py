"""Views: the text of their queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.add_column("tables", sa.Column("view_original_text", sa.Text(), nullable=True))
    op.add_column("tables", sa.Column("view_expanded_text", sa.Text(), nullable=True))


def downgrade() -> None:
    """Undo it. There may be no views, since nothing else is known of them."""
    op.drop_column("tables", "view_expanded_text")
    op.drop_column("tables", "view_original_text")
