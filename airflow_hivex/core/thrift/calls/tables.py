"""Calls that read tables, views and links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_hivex.core.catalog import given_lists
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.errors import MissingWriteIdListError, NoSuchDatabaseError, NoSuchObjectError
from airflow_hivex.core.model.column_types import Primitive
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable, TableType
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import Raw, call, from_memory
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.filter_conditions import Key, Texts, decided
from airflow_hivex.core.thrift.messages import STRUCT_RESULT
from airflow_hivex.core.thrift.partition_filter import InvalidFilterError, read_filter


def list_of(text: str | None) -> ValidWriteIdList | str | None:
    """Return the parsed write id list of a request, or None if the request does not have a list."""
    return ValidWriteIdList.parse(text) if text and text.strip() else None


def check_writer(endpoint: Endpoint, table: StoredTable, text: str | None) -> None:
    """Check that a request to change a transactional table has a write id list of this table.

    Raises:
        MissingWriteIdListError: the table is transactional, and the call has no list.
        InvalidWriteIdListError: the list belongs to another table, or to a dropped table of the same name.
    """
    ids = given_lists.checked_list(table.database, table.name, list_of(text))
    with endpoint.services.store.read() as connection:
        given_lists.check_writer(connection, table, ids)


_NO_ACCESS = 1
"""Hive's number of the access type NONE: the client cannot read the table."""
_DATA_SOURCE = "spark.sql.sources."


def read_table(
    endpoint: Endpoint, client: Client, name: DatabaseName, table: str, ids: GivenList, context: Any = None
) -> Any:
    """Return the structure of a table or link.

    Raises:
        MissingWriteIdListError: the table is transactional, and the call has no list.
    """
    cluster = client.cluster(name, context)
    linked = endpoint.link(name, table)
    if linked is not None:
        link, source = linked
        endpoint.catalog.get_table(*link.source, ids, cluster)
        return endpoint.linked_table(link, source, name.given, cluster)
    stored = endpoint.catalog.get_table(name.name, table, ids, cluster)
    return endpoint.hive_table(stored, name.given, cluster)


def described_table(
    endpoint: Endpoint, client: Client, name: DatabaseName, table: str, ids: GivenList
) -> StoredTable | Any:
    """Return a table or, if the client is not allowed to read the table's files, a structure without the location.

    Without a write id list, a transactional table has no location, so that no client reads the directories of the table
    as plain files. The call is not refused, because a client also reads a table before it drops the table. A link is
    always returned as a structure.
    """
    if "@" in table:
        return read_table(endpoint, client, name, table, ids)
    cluster = client.cluster(name)
    try:
        return endpoint.catalog.get_table(name.name, table, ids, cluster)
    except MissingWriteIdListError:
        stored = endpoint.catalog.get_table(name.name, table, cluster=cluster)
        return without_place(endpoint.hive_table(stored, name.given, cluster))


def without_place(hive: Any) -> Any:
    """Remove the location from a table's structure, set Hive's access type NONE, and return the structure."""
    hive.sd.location, hive.accessType = None, _NO_ACCESS
    # Spark reads the table of a data source in its path; without a path the table is empty.
    options = hive.sd.serdeInfo.parameters
    hive.sd.serdeInfo.parameters = {key: value for key, value in options.items() if key.lower() != "path"}
    hive.parameters = {key: value for key, value in hive.parameters.items() if not key.startswith(_DATA_SOURCE)}
    return hive


@call("get_table")
def get_table(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return a table. A transactional table is returned without its location."""
    name = read_database(args.dbname)
    found = described_table(endpoint, client, name, args.tbl_name or "", None)
    if not isinstance(found, StoredTable):
        return found
    return Raw(STRUCT_RESULT + endpoint.table_bytes(found, name.given, client.cluster(name)))


@from_memory("get_table")
def recall_table(endpoint: Endpoint, client: Client, args: Any) -> bytes | None:
    """Return a table from memory, or None if memory does not have the table."""
    name = read_database(args.dbname)
    cluster = client.cluster(name)
    kept = endpoint.kept_table(name, args.tbl_name or "", None, cluster)
    return None if kept is None else STRUCT_RESULT + endpoint.table_bytes(kept, name.given, cluster)


@call("get_table_req")
def get_table_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return a table as of the request's write id list.

    Without a write id list, a transactional table is returned without its location.
    """
    request = args.req
    name = read_database(request.dbName, request.catName)
    found = described_table(endpoint, client, name, request.tblName or "", list_of(request.validWriteIdList))
    if isinstance(found, StoredTable):
        found = endpoint.hive_table(found, name.given, client.cluster(name))
    return ttypes.GetTableResult(table=found)


def _wrapped(table: bytes) -> bytes:
    # The table is the first field of GetTableResult.
    return STRUCT_RESULT + b"\x0c\x00\x01" + table + b"\x00"


@from_memory("get_table_req")
def recall_table_req(endpoint: Endpoint, client: Client, args: Any) -> bytes | None:
    """Return a table from memory, or None if memory does not have the table for an equivalent write id list."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    ids = list_of(request.validWriteIdList)
    full_name = f"{name.name}.{normalise(request.tblName or '')}"
    if isinstance(ids, ValidWriteIdList) and (ids.table or "").lower() != full_name:
        return None
    cluster = client.cluster(name)
    kept = endpoint.kept_table(name, request.tblName or "", ids, cluster)
    return None if kept is None else _wrapped(endpoint.table_bytes(kept, name.given, cluster))


_READS_TRANSACTIONAL = frozenset({"HIVEFULLACIDREAD", "HIVEMANAGEDINSERTREAD"})


def _tables(
    endpoint: Endpoint,
    client: Client,
    name: DatabaseName,
    names: Sequence[str],
    pattern: str | None = None,
    *,
    reads_transactional: bool = False,
) -> list[Any]:
    """Return the structures of the named tables, or of the tables that match a pattern.

    Unless ``reads_transactional`` is set, a transactional table has no location, so that the client does not read the
    directories of the table as plain files.
    """
    cluster = client.cluster(name)
    if pattern is not None:
        names = endpoint.catalog.list_tables(name.name, pattern)
    lists: dict[str, GivenList] = dict.fromkeys((each for each in names if "@" not in each), None)
    try:
        stored = endpoint.catalog.get_tables(name.name, list(lists), lists, cluster)
    except MissingWriteIdListError:
        stored = endpoint.catalog.get_tables(name.name, list(lists), None, cluster)
    if names and not stored:
        endpoint.catalog.get_database(name.name)
    found = {}
    for table in stored:
        hive = endpoint.hive_table(table, name.given, cluster)
        if table.is_transactional and not reads_transactional:
            without_place(hive)
        found[table.name] = hive
    for each in names:
        if "@" in each:
            try:
                found[normalise(each)] = read_table(endpoint, client, name, each, None)
            except NoSuchObjectError:
                continue
    return [found[each] for each in dict.fromkeys(map(normalise, names)) if each in found]


@call("get_table_objects_by_name")
def get_table_objects_by_name(endpoint: Endpoint, client: Client, args: Any) -> list[Any]:
    """Return the named tables that exist."""
    return _tables(endpoint, client, read_database(args.dbname), args.tbl_names or ())


@call("get_table_objects_by_name_req")
def get_table_objects_by_name_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the named tables that exist, or the tables that match a pattern."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    pattern = request.tablesPattern if not request.tblNames else None
    if pattern is None and request.tblNames is None:
        raise ttypes.InvalidOperationException(f"The names of the tables of {name.given} are missing")
    declared = () if request.capabilities is None else request.capabilities.values or ()
    reads = ttypes.ClientCapability.INSERT_ONLY_TABLES in declared or not _READS_TRANSACTIONAL.isdisjoint(
        map(str.upper, request.processorCapabilities or ())
    )
    found = _tables(endpoint, client, name, request.tblNames or (), pattern, reads_transactional=reads)
    return ttypes.GetTablesResult(tables=found)


# -- names: a list of names cannot mislead a client without a write id list


_TYPES_WITHOUT_TABLES = ("INDEX_TABLE", "MATERIALIZED_VIEW")


def table_names(endpoint: Endpoint, name: DatabaseName, pattern: str | None, type: str | None = None) -> list[str]:
    """Return the sorted names of tables, views and links. As in Hive, the list for an unknown database is empty."""
    try:
        if type is None:
            links = [each.name.in_database for each in endpoint.services.links.show(name.name, pattern)]
            return sorted([*endpoint.catalog.list_tables(name.name, pattern), *links])
        if type == TableType.MANAGED_TABLE.value:
            return sorted(set(_of_type(endpoint, name, pattern, managed=True)))
        if type == TableType.EXTERNAL_TABLE.value:
            return sorted(_of_type(endpoint, name, pattern, managed=False))
        if type == TableType.VIRTUAL_VIEW.value:
            return endpoint.catalog.list_tables(name.name, pattern, TableType.VIRTUAL_VIEW)
        if type in ("LINK_TABLE", "STATIC_LINK_TABLE"):
            found = endpoint.services.links.show(name.name, pattern)
            return [each.name.in_database for each in found if each.type.value == type]
    except NoSuchDatabaseError:
        return []
    if type not in _TYPES_WITHOUT_TABLES:
        raise ttypes.MetaException(f"{type} is not a valid type of a table")
    return []


def _of_type(endpoint: Endpoint, name: DatabaseName, pattern: str | None, *, managed: bool) -> list[str]:
    """Return the names of tables.

    With ``managed``, return the tables that a client sees as managed. Otherwise return the external tables.
    """
    catalog = endpoint.catalog
    external = catalog.list_tables(name.name, pattern, TableType.EXTERNAL_TABLE)
    translated = {
        each.name
        for each in catalog.get_tables(name.name, external)
        if endpoint.hive_table(each, name.given, None).tableType == TableType.MANAGED_TABLE.value
    }
    if managed:
        return [*catalog.list_tables(name.name, pattern, TableType.MANAGED_TABLE), *translated]
    return [each for each in external if each not in translated]


@call("get_all_tables")
def get_all_tables(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of all tables, views and links of a database. Tables that other namespaces link come first.

    For DROP DATABASE CASCADE, a client of Hive drops one table after the other in this order. A linked table cannot be
    dropped. So the client fails before it has dropped a table.
    """
    name = read_database(args.db_name)
    linked = endpoint.services.links.sources(name.name)
    return sorted(table_names(endpoint, name, None), key=lambda each: each not in linked)


@call("get_tables")
def get_tables(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of tables, views and links that match a pattern."""
    return table_names(endpoint, read_database(args.db_name), args.pattern)


@call("get_tables_by_type")
def get_tables_by_type(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of tables of one type that match a pattern."""
    return table_names(endpoint, read_database(args.db_name), args.pattern, args.tableType)


@call("get_materialized_views_for_rewriting", "get_all_materialized_view_objects_for_rewriting")
def get_materialized_views(_endpoint: Endpoint, _client: Client, _args: Any) -> list[Any]:
    """Return an empty list: materialized views are not supported."""
    return []


@call("get_table_meta")
def get_table_meta(endpoint: Endpoint, _client: Client, args: Any) -> list[Any]:
    """Return names, types and comments of the tables that match patterns of databases and tables."""
    wanted = set(args.tbl_types or ())
    answers = []
    for database in endpoint.catalog.list_databases(read_database(args.db_patterns).name or None):
        name = DatabaseName(database, database)
        names = endpoint.catalog.list_tables(database, args.tbl_patterns)
        for stored in endpoint.catalog.get_tables(database, names):
            hive = endpoint.hive_table(stored, name.given, None)
            if not wanted or hive.tableType in wanted:
                answers.append(
                    ttypes.TableMeta(
                        dbName=database,
                        tableName=stored.name,
                        tableType=hive.tableType,
                        comments=stored.comment,
                        catName="hive",
                    )
                )
    return answers


@call("get_fields", "get_fields_with_environment_context")
def get_fields(endpoint: Endpoint, client: Client, args: Any) -> list[Any]:
    """Return the columns of a table without its partition keys."""
    table = _known_table(endpoint, client, args.db_name, args.table_name)
    return list(table.sd.cols)


@call("get_schema", "get_schema_with_environment_context")
def get_schema(endpoint: Endpoint, client: Client, args: Any) -> list[Any]:
    """Return the columns of a table with its partition keys."""
    table = _known_table(endpoint, client, args.db_name, args.table_name)
    return [*table.sd.cols, *table.partitionKeys]


@call("get_fields_req")
def get_fields_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the columns of a table without its partition keys, as of the request's write id list."""
    return ttypes.GetFieldsResponse(fields=list(_requested_table(endpoint, client, args.req).sd.cols))


@call("get_schema_req")
def get_schema_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the columns of a table with its partition keys, as of the request's write id list."""
    table = _requested_table(endpoint, client, args.req)
    return ttypes.GetSchemaResponse(fields=[*table.sd.cols, *table.partitionKeys])


def _requested_table(endpoint: Endpoint, client: Client, request: Any) -> Any:
    name = read_database(request.dbName, request.catName)
    ids = list_of(request.validWriteIdList)
    context = {} if request.envContext is None else request.envContext.properties
    return read_table(endpoint, client, name, request.tblName or "", ids, context)


def _known_table(endpoint: Endpoint, client: Client, database: str, table: str) -> Any:
    return read_table(endpoint, client, read_database(database), table, None)


_OWNER = "hive_filter_field_owner__"
_LAST_ACCESS = "hive_filter_field_last_access__"
_PARAMETERS = "hive_filter_field_params__"


@call("get_table_names_by_filter")
def get_table_names_by_filter(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of the tables and views that match a filter on owner, last access and parameters.

    No write id list is required, since names do not let a client read files.
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
    """Return a pair: a function that decides whether values satisfy a filter, and the keys of these values in order."""
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
