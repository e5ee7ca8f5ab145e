"""Transactions: their states, write ids, snapshots, locks and heartbeats, and the housekeeper."""
