"""Snapshots: the transactions and write ids that are open, aborted or committed at one moment."""
