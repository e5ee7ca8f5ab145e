"""The metastore database: one schema, its migrations, and transactions on it."""
