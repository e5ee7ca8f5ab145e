"""Reading statements: what kind each one is, what it reads and what it writes.

The only folder that knows sqlglot. Statements that are ours, and those that define
things, are read from the tokens directly; queries are parsed by sqlglot to find their
tables, columns and filters, while their text stays as the user wrote it.
"""

from __future__ import annotations
