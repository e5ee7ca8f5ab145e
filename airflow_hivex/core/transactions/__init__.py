"""Transactions: states and ids, snapshots, heartbeats, and the housekeeper."""
