"""Calls about databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_hivex.core.commands import databases
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.metadata_changes import check_location
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.objects import Database, TableType
from airflow_hivex.core.parser.statements import DropDatabase
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.files import drop_owned_files, make_directories
from airflow_hivex.core.thrift.hive_objects import hive_database


def _described(endpoint: Endpoint, client: Client, name: DatabaseName) -> Any:
    database = endpoint.catalog.get_database(name.name)
    clusters = endpoint.services.clusters
    cluster = clusters.get(client.cluster(name) or clusters.default)
    return hive_database(database, name.given or database.name, cluster.uri(database.location))


@call("get_database")
def get_database(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return a database with its location on the client's cluster, or else on the default cluster."""
    return _described(endpoint, client, read_database(args.name))


@call("get_database_req")
def get_database_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return a database."""
    return _described(endpoint, client, read_database(args.request.name, args.request.catalogName))


@call("get_databases")
def get_databases(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of databases that match a pattern."""
    return endpoint.catalog.list_databases(read_database(args.pattern).name or None)


@call("get_all_databases")
def get_all_databases(endpoint: Endpoint, _client: Client, _args: Any) -> list[str]:
    """Return the names of all databases."""
    return endpoint.catalog.list_databases()


@call("create_database")
def create_database(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a database and its directory."""
    hive = args.database
    name = read_database(hive.name, hive.catalogName)
    context = endpoint.context(client, name)
    clusters = endpoint.services.clusters
    cluster = clusters.get(client.cluster(name) or clusters.default)
    parameters = dict(hive.parameters or {})
    databases.check_new_database(context, name.name, parameters, hive.locationUri or None, cluster)
    database = endpoint.catalog.create_database(
        Database(
            name=name.name,
            location=cluster.relative(hive.locationUri) if hive.locationUri else "",
            description=hive.description,
            owner=hive.ownerName or client.user or None,
            parameters=parameters,
        )
    )
    make_directories(endpoint, cluster, [database.location])


@call("alter_database")
def alter_database(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store the changed description, owner, location and parameters of a database."""
    name, hive = read_database(args.dbname), args.db
    stored = endpoint.catalog.get_database(name.name)
    clusters = endpoint.services.clusters
    cluster = clusters.get(client.cluster(name) or clusters.default)
    location = cluster.relative(hive.locationUri) if hive.locationUri else stored.location
    context = endpoint.context(client, name)
    if location != stored.location:
        check_location(context, "database", name.name, hive.locationUri, name.name, cluster)
    parameters = dict(hive.parameters or {})
    new = {key: value for key, value in parameters.items() if stored.parameters.get(key) != value}
    databases.check_database_properties(context, name.name, new)
    changed = replace(
        stored,
        description=hive.description,
        owner=hive.ownerName or stored.owner,
        location=location,
        parameters=parameters,
    )
    endpoint.catalog.alter_database(name.name, changed)


@call("drop_database")
def drop_database(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Drop a database. With ``cascade`` its tables are dropped, too."""
    _drop(endpoint, client, read_database(args.name), if_exists=False, cascade=bool(args.cascade))


@call("drop_database_req")
def drop_database_req(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Drop a database."""
    request = args.req
    name = read_database(request.name, request.catalogName)
    _drop(endpoint, client, name, if_exists=bool(request.ignoreUnknownDb), cascade=bool(request.cascade))


def _drop(endpoint: Endpoint, client: Client, name: DatabaseName, *, if_exists: bool, cascade: bool) -> None:
    if name.name == DEFAULT_DATABASE:
        raise ttypes.MetaException(f"Can not drop {DEFAULT_DATABASE} database")
    context = endpoint.context(client)
    owning = []
    if cascade:
        external = endpoint.catalog.list_tables(name.name, None, TableType.EXTERNAL_TABLE)
        owning = endpoint.catalog.get_tables(name.name, external)
    try:
        databases.drop_database(context, DropDatabase(name.name, if_exists=if_exists, cascade=cascade))
    except InvalidOperationError as error:
        if not cascade and endpoint.catalog.list_tables(name.name):
            # Spark parses this sentence.
            sentence = f"Database {name.name} is not empty. One or more tables exist."
            raise ttypes.InvalidOperationException(sentence) from error
        if not cascade and endpoint.catalog.list_functions(name.name):
            sentence = f"Database {name.name} is not empty. One or more functions exist."
            raise ttypes.InvalidOperationException(sentence) from error
        raise
    drop_owned_files(endpoint, owning)
