"""The catalog: databases, tables, partitions, their copies, and the log of changes."""
