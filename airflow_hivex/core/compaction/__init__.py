"""Which tables are compacted, in which order, and what became of it."""
