"""Calls about permanent functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_hivex.core.errors import NoSuchFunctionError
from airflow_hivex.core.imports.conversion import JAVA, OWNER_NUMBERS, RESOURCE_NUMBERS, convert_function
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint


@call("create_function")
def create_function(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a function."""
    function = _described(client, args.func)
    endpoint.services.namespaces.check_function(function)
    endpoint.catalog.create_function(function)


@call("get_function")
def get_function(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return a function."""
    name = read_database(args.dbName)
    return _structure(endpoint.catalog.get_function(name.name, args.funcName or ""), name.given)


@call("get_functions")
def get_functions(endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the names of functions that match a pattern. As in Hive, an unknown database has no functions."""
    found = endpoint.catalog.get_functions(read_database(args.dbName).name, args.pattern)
    return [each.name for each in found]


@call("get_all_functions")
def get_all_functions(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the functions of all databases."""
    found = endpoint.catalog.get_functions()
    return ttypes.GetAllFunctionsResponse(functions=[_structure(each, each.database) for each in found])


@call("alter_function")
def alter_function(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store a changed function."""
    name = read_database(args.dbName)
    function = _described(client, args.newFunc)
    endpoint.services.namespaces.check_function(function)
    try:
        endpoint.catalog.alter_function(name.name, args.funcName or "", function)
    except NoSuchFunctionError as error:
        # As in Hive, tables and partitions have another exception for this.
        raise ttypes.MetaException(str(error)) from error


@call("drop_function")
def drop_function(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Drop a function."""
    endpoint.catalog.drop_function(read_database(args.dbName).name, args.funcName or "")


def _described(client: Client, hive: Any) -> PermanentFunction:
    function = convert_function(hive, read_database(hive.dbName, hive.catName).name)
    return replace(function, owner=function.owner or client.user or None)


def _structure(function: PermanentFunction, given: str) -> Any:
    return ttypes.Function(
        functionName=function.name,
        dbName=given,
        className=function.class_name,
        ownerName=function.owner,
        ownerType=OWNER_NUMBERS[function.owner_type],
        createTime=0 if function.created_at is None else int(function.created_at.timestamp()),
        functionType=JAVA,
        resourceUris=[ttypes.ResourceUri(RESOURCE_NUMBERS[each.type], each.uri) for each in function.resources],
        catName="hive",
    )
