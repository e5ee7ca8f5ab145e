"""Namespaces: links between them, what they may name, and how much they hold."""
