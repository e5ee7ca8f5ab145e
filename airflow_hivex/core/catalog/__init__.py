"""The catalog: databases, functions, tables, partitions, directories, their copies, and links."""
