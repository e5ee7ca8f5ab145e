"""The methods of Hive's Thrift interface, read from the bindings of a package.

The bindings for Hive 4 are a part of pyiceberg. Clients of Hive 2.3 understand the answers
(``docs/reference/hive-metastore-calls.md``, "Clients of earlier releases").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from fb303 import FacebookService
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.Thrift import TType

__all__ = ["Method", "all_methods", "method", "ttypes"]


_OPTIONAL = frozenset({"environment_context", "hiveObject", "catName", "getOpenTxnsRequest"})
"""The names of the structures that a call is allowed to omit. A call must have all other structures."""
_NAMES = frozenset(
    {"dbname", "db_name", "dbName", "tbl_name", "table_name", "tableName", "tblName", "funcName", "name"}
)
"""The arguments that name databases, tables and functions. A call must have these arguments."""
_WITHOUT_NAMES = frozenset({"get_config_value"})

_SWAPPED = frozenset({"get_partition_names"})
"""The methods that can raise only a MetaException in Hive 2.3, which is the first field of the result.

Clients of Hive 2.3 read only this field. So all exceptions of these methods are returned in this field.
"""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the structures of its arguments and result, and the exceptions that a reply can have."""

    name: str
    arguments: type[Any]
    result: type[Any] | None
    exceptions: dict[type[Any], str]
    has_success: bool
    needed: tuple[str, ...] = ()
    """The structures and names among the arguments that a call must have."""

    def declared(self, error: Any) -> str | None:
        """Return the name of the result's field for an exception, or None for an exception that is not declared."""
        return self.exceptions.get(error.__class__)


@cache
def method(name: str) -> Method | None:
    """Return the method with a name, or None if the interface does not have the method."""
    for service in (ThriftHiveMetastore, FacebookService):
        arguments = getattr(service, f"{name}_args", None)
        if arguments is None:
            continue
        result = getattr(service, f"{name}_result", None)
        fields = [field for field in (result.thrift_spec if result is not None else ()) if field]
        exceptions = {field[3][0]: field[2] for field in fields if field[0] != 0}
        if name in _SWAPPED:
            exceptions = dict.fromkeys(exceptions, next(field[2] for field in fields if field[0] == 1))
        given = [field for field in arguments.thrift_spec or () if field]
        structures = [field[2] for field in given if field[1] == TType.STRUCT and field[2] not in _OPTIONAL]
        names = [field[2] for field in given if field[1] == TType.STRING and field[2] in _NAMES]
        needed = (*structures, *(() if name in _WITHOUT_NAMES else names))
        return Method(name, arguments, result, exceptions, any(field[0] == 0 for field in fields), needed)
    return None


def all_methods() -> list[str]:
    """Return the names of all methods of the interface, sorted."""
    names = {name for service in (ThriftHiveMetastore, FacebookService) for name in dir(service.Iface)}
    return sorted(name for name in names if not name.startswith("_"))
