"""Locks: requests, the queue in which they wait, grants, and circles of waiting transactions."""
