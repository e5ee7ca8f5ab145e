"""The places that replications write to, with the files of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "copy_places",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("cluster", sa.String(128), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("directory_id", _ID),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.Column("unused_txn_id", sa.BigInteger()),
        sa.Column("unused_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_copy_places")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_copy_places_table_id_cluster", "copy_places", ["table_id", "cluster"])


def downgrade() -> None:
    """Undo it; after that the files of killed replications are not found any more."""
    op.drop_table("copy_places")
