"""The reader of statements: the kind of each, its reads and its writes.

The only folder that knows sqlglot. Our own statements, and statements that define objects, are read from the tokens
directly. sqlglot parses queries to find their tables, columns and filters, while their text stays as the user wrote it.
"""

from __future__ import annotations
