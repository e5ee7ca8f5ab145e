"""Queries, which sqlglot parses: what they read, and under which conditions."""
