"""Transactions of several statements and several processes: keys, statement numbers, pending writes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_HAS_KEY = sa.text("key IS NOT NULL")


def upgrade() -> None:
    """Make the change."""
    op.add_column("txns", sa.Column("key", sa.String(length=1024), nullable=True))
    op.add_column("txns", sa.Column("statements", sa.Integer(), server_default="0", nullable=False))
    op.add_column("txns", sa.Column("snapshot", sa.Text(), nullable=True))
    op.create_index("uq_txns_key", "txns", ["key"], unique=True, sqlite_where=_HAS_KEY, postgresql_where=_HAS_KEY)
    op.create_table(
        "pending_writes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("statement_id", sa.Integer(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("writer", sa.String(length=1024), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("written", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_pending_writes_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pending_writes")),
    )
    op.create_index("ix_pending_writes_txn_id", "pending_writes", ["txn_id"])
    op.create_table(
        "replayed_txns",
        sa.Column("policy", sa.String(length=256), nullable=False),
        sa.Column("source_txn_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "source_txn_id", name=op.f("pk_replayed_txns")),
    )


def downgrade() -> None:
    """Undo it. Pending writes are lost, so no transaction may be open."""
    op.drop_table("replayed_txns")
    op.drop_table("pending_writes")
    op.drop_index("uq_txns_key", table_name="txns")
    op.drop_column("txns", "snapshot")
    op.drop_column("txns", "statements")
    op.drop_column("txns", "key")
