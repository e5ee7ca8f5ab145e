"""Snapshots: the open, aborted and committed transactions and write ids at a moment."""
