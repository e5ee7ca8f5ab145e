"""The rules by which common.sql writes SQL for the warehouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.sql.dialects.dialect import Dialect

from airflow_hivex.core.errors import InvalidOperationError

if TYPE_CHECKING:
    from airflow_hivex.hooks.hivex import HivexHook

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HivexDialect(Dialect):
    """Names in backquotes, ``?`` markers, columns of the catalog. Tables have no primary keys."""

    hook: HivexHook

    def escape_word(self, word: str) -> str:
        """Return a name, in backquotes unless it is a plain one."""
        name = self.unescape_word(word)
        return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"

    def unescape_word(self, word: str) -> str:  # type: ignore[override]
        """Return a name without its backquotes."""
        is_quoted = len(word) > 1 and word.startswith("`") and word.endswith("`")
        return word[1:-1].replace("``", "`") if is_quoted else word

    def get_column_names(
        self, table: str, schema: str | None = None, predicate: Callable[[Any], bool] | None = None
    ) -> list[str]:
        """Return the columns of a table, its partition columns last."""
        columns = self.hook.get_table_schema(table, schema)
        return [column["name"] for column in columns if predicate is None or predicate(column)]

    def get_target_fields(self, table: str, schema: str | None = None) -> list[str]:
        """Return the columns of a table that an INSERT fills: all of them."""
        return self.get_column_names(table, schema)

    def get_primary_keys(self, table: str, schema: str | None = None) -> None:  # noqa: ARG002
        """Return None: tables have no primary keys."""
        return

    def generate_replace_sql(
        self,
        table: str,
        values: Sequence[Any],  # noqa: ARG002 - the signature of common.sql
        target_fields: Sequence[str] | None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> str:
        """Refuse: a table has no key by which a row could replace another.

        :raises InvalidOperationError: always
        """
        raise InvalidOperationError("REPLACE", table, "a table has no key; write MERGE with a condition of its own")
