"""The reader of statements, which finds the kind of each, its reads and its writes.

No other folder knows sqlglot. Statements of this project, and statements that define objects, are read directly from
the tokens. sqlglot parses queries to find their tables, columns and filters, while the user's text stays unchanged.
"""

from __future__ import annotations
