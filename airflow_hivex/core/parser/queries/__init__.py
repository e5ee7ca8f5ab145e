"""Queries, which sqlglot parses: the tables that they read, and the conditions on their rows."""
