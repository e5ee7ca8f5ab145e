"""The reader of statements: it finds the kind of a statement, and the objects that are read and written.

Statements of this project, and statements that define objects, are read directly from the tokens. sqlglot parses
queries to find their tables, columns and filters. The text of a query stays unchanged. No other folder uses sqlglot.
"""

from __future__ import annotations
