"""Transactions: states and ids, snapshots, heartbeats, and those who clean up after the dead."""
