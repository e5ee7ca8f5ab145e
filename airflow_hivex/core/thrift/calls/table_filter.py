"""The call that finds tables by their owner and parameters, as Trino finds its views."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.model.expressions import Value
from airflow_hivex.core.model.predicates import Predicate, Truth, columns_in, evaluate
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
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
    predicate = _read(args.filter or "")
    endpoint.catalog.get_database(name.name)
    names = endpoint.catalog.list_tables(name.name)
    found = [
        stored.name
        for stored in endpoint.catalog.get_tables(name.name, names)
        if _holds(predicate, endpoint.hive_table(stored, name.given, None))
    ]
    most = args.max_tables
    return sorted(found)[: None if most is None or most < 0 else most]


def _read(text: str) -> Predicate:
    if not text.strip():
        raise ttypes.InvalidOperationException("The filter of tables is empty")
    try:
        predicate = read_filter(text)
    except InvalidFilterError as error:
        raise ttypes.MetaException(str(error)) from error
    for column in columns_in(predicate):
        if column.name not in (_OWNER, _LAST_ACCESS) and not column.name.startswith(_PARAMETERS):
            raise ttypes.MetaException(f"{column.name} is not a valid key of a filter of tables")
    return predicate


def _holds(predicate: Predicate, hive: Any) -> bool:
    parameters = {name.lower(): value for name, value in hive.parameters.items()}
    values: dict[str, Value] = {_OWNER: hive.owner, _LAST_ACCESS: hive.lastAccessTime}
    for column in columns_in(predicate):
        if column.name.startswith(_PARAMETERS):
            values[column.name] = parameters.get(column.name.removeprefix(_PARAMETERS))
    answer = evaluate(predicate, values)
    if answer is Truth.MAYBE:
        raise ttypes.MetaException("The filter of tables has a condition that cannot be decided")
    return answer is Truth.YES
