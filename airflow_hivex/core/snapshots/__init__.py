"""Snapshots: which transactions and write ids are open, aborted or committed at one moment."""
