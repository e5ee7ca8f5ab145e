"""Alembic's environment: migrations run on the connection of ``store.migrating``."""

from __future__ import annotations

from alembic import context

from airflow_hivex.core.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="hivex_alembic_version",
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
