"""The call that finds tables by their owner and parameters, as Trino finds its views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_hivex.core.model.column_types import Primitive
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.filter_conditions import Key, Texts, decided
from airflow_hivex.core.thrift.partition_filter import InvalidFilterError, read_filter

_OWNER = "hive_filter_field_owner__"
_LAST_ACCESS = "hive_filter_field_last_access__"
_PARAMETERS = "hive_filter_field_params__"


@call("get_table_names_by_filter")
def get_table_names_by_filter(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of the tables and views that a filter on owner, last access and parameters leaves.

    Names cannot mislead a client, so that transactional tables are among them.
    """
    name = read_database(args.dbname)
    holds, keys = _read(args.filter or "")
    endpoint.catalog.get_database(name.name)
    names = endpoint.catalog.list_tables(name.name)
    found = [
        stored.name
        for stored in endpoint.catalog.get_tables(name.name, names)
        if holds(_values(endpoint.hive_table(stored, name.given, None), keys))
    ]
    most = args.max_tables
    return sorted(found)[: None if most is None or most < 0 else most]


def _read(text: str) -> tuple[Callable[[Texts], bool | None], list[str]]:
    """Return the function that decides a filter, and the keys whose values it takes, in their order."""
    if not text.strip():
        raise ttypes.InvalidOperationException("The filter of tables is empty")
    keys: dict[str, Key] = {}

    def key_of(name: str) -> Key:
        if name not in (_OWNER, _LAST_ACCESS) and not name.startswith(_PARAMETERS):
            raise InvalidFilterError(f"{name} is not a valid key of a filter of tables")
        of = Primitive("int" if name == _LAST_ACCESS else "string")
        return keys.setdefault(name, Key(name, len(keys), of))

    try:
        holds = decided(read_filter(text), key_of)
    except InvalidFilterError as error:
        raise ttypes.MetaException(str(error)) from error
    return holds, list(keys)


def _values(hive: Any, keys: Sequence[str]) -> list[str | None]:
    parameters = {name.lower(): value for name, value in hive.parameters.items()}
    known = {_OWNER: hive.owner, _LAST_ACCESS: str(hive.lastAccessTime or 0)}
    return [known[key] if key in known else parameters.get(key.removeprefix(_PARAMETERS)) for key in keys]
