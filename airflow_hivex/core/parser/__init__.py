"""The reader of statements. It finds the kind of a statement, and the objects that the statement reads and writes.

No other folder uses sqlglot. Statements of this project, and statements that define objects, are read directly from
the tokens. sqlglot parses queries to find their tables, columns and filters, while the user's text stays unchanged.
"""

from __future__ import annotations
