"""Namespaces: the links between them, the names that they may use, and their sizes."""
