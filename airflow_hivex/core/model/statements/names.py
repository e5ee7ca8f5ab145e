"""The names of tables in statements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as the user names it: ``table`` or ``database.table``, both normalised.

    ``namespace`` is the Y of a link's name ``T@Y``.
    """

    name: str
    database: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        qualified = f"{self.database}.{self.name}" if self.database else self.name
        return f"{qualified}@{self.namespace}" if self.namespace else qualified
