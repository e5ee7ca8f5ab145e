"""The functions that serve the methods of Hive's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from airflow_hivex.core.thrift.bindings import Method, method
from airflow_hivex.core.thrift.clients import Client
from airflow_hivex.core.thrift.endpoint import Endpoint

Serve: TypeAlias = Callable[[Endpoint, Client, Any], Any]
"""A function that returns the result of a call from its structure of arguments. It can use the database."""
Recall: TypeAlias = Callable[[Endpoint, Client, Any], bytes | None]
"""A function that returns the encoded result of a call from memory. None means: :data:`Serve` must serve the call.

The function never waits.
"""
ServeTogether: TypeAlias = Callable[[Endpoint, Sequence[tuple[Client, Any]]], Sequence[Any]]
"""A function that serves calls of several clients together, and returns one result for each call.

The result :data:`ALONE` means that the function has not served the call.
"""

ALONE = object()
"""The result of :data:`ServeTogether` for a call that :data:`Serve` must serve."""


class Raw(NamedTuple):
    """A result that is already encoded as a field of the reply."""

    field: bytes


@dataclass(slots=True)
class Call:
    """A method of Hive's interface, with the functions that serve its calls."""

    method: Method
    serve: Serve
    recall: Recall | None = None
    serve_together: ServeTogether | None = None


_MODULES = (
    *("server", "databases", "tables", "table_changes", "constraints", "functions"),
    *("partitions", "partition_changes", "statistics", "transactions", "compactions", "notifications"),
)
_CALLS: dict[str, Call] = {}


def call(*names: str) -> Callable[[Serve], Serve]:
    """Register a function as the :data:`Serve` of the methods with these names."""

    def register(serve: Serve) -> Serve:
        for name in names:
            known = method(name)
            assert known is not None, name
            _CALLS[name] = Call(known, serve)
        return serve

    return register


def from_memory(name: str) -> Callable[[Recall], Recall]:
    """Register a function as the :data:`Recall` of a registered method."""

    def register(recall: Recall) -> Recall:
        _CALLS[name].recall = recall
        return recall

    return register


def together(name: str) -> Callable[[ServeTogether], ServeTogether]:
    """Register a function as the :data:`ServeTogether` of a registered method.

    The function serves several calls in one database transaction.
    """

    def register(serve: ServeTogether) -> ServeTogether:
        _CALLS[name].serve_together = serve
        return serve

    return register


def calls() -> dict[bytes, Call]:
    """Return a dict from method name to :class:`Call`, for all registered methods."""
    for module in _MODULES:
        import_module(f"airflow_hivex.core.thrift.calls.{module}")
    return {name.encode(): found for name, found in sorted(_CALLS.items())}
