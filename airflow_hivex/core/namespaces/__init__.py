"""Namespaces: the links between namespaces, the names that statements in a namespace can use, and sizes."""
