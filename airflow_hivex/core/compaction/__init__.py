"""Compaction: the queue, the initiator, the worker, the cleaner and the history."""
