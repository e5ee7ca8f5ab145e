"""Copies of tables on other clusters: planned from registered directories, copied, verified and published."""
