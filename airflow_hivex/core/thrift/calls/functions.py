"""Calls about permanent functions, which are not kept here."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client
from airflow_hivex.core.thrift.endpoint import Endpoint


@call("get_functions")
def get_functions(_endpoint: Endpoint, _client: Client, _args: Any) -> list[str]:
    """Return none."""
    return []


@call("get_all_functions")
def get_all_functions(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return none."""
    return ttypes.GetAllFunctionsResponse(functions=[])


@call("get_function", "drop_function")
def get_function(_endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Report that there is no such function."""
    raise ttypes.NoSuchObjectException(f"Function {args.dbName}.{args.funcName} does not exist")


@call("create_function", "alter_function")
def create_function(_endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Refuse a permanent function."""
    function = getattr(args, "func", None) or getattr(args, "newFunc", None)
    name = "" if function is None else f" {function.dbName}.{function.functionName}"
    raise ttypes.MetaException(
        f"Function{name} cannot be kept: permanent functions are not supported; use CREATE TEMPORARY FUNCTION"
    )
