"""Calls about the constraints of tables: DEFAULT, NOT NULL and CHECK, and keys that nothing enforces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from airflow_hivex.core.commands.constraints import change_constraints
from airflow_hivex.core.errors import InvalidObjectError, NoSuchObjectError
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.parser.statements import ChangeConstraints, TableName
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import Serve, call
from airflow_hivex.core.thrift.calls.tables import list_of
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.hive_constraints import (
    Given,
    check_constraints,
    default_constraints,
    described_constraints,
    dropping,
    foreign_keys,
    not_null_constraints,
    primary_keys,
    unique_constraints,
)


class Kind(NamedTuple):
    """A kind of constraints: its name in Hive's interface, its reader, and its field of :class:`Given`."""

    name: str
    of: Callable[[StoredTable, str], list[Any]]
    given: str

    @property
    def field(self) -> str:
        """Return the field of answers: ``primaryKeys``."""
        first, *others = f"{self.name}s".split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def answer(self) -> type[Any]:
        """Return the structure of an answer: ``PrimaryKeysResponse``."""
        found: type[Any] = getattr(ttypes, f"{self.field[0].upper()}{self.field[1:]}Response")
        return found


_FOREIGN_KEY = "foreign_key"
KINDS = (
    Kind("primary_key", primary_keys, "primary_keys"),
    Kind(_FOREIGN_KEY, foreign_keys, "foreign_keys"),
    Kind("unique_constraint", unique_constraints, "unique"),
    Kind("not_null_constraint", not_null_constraints, "not_null"),
    Kind("default_constraint", default_constraints, "defaults"),
    Kind("check_constraint", check_constraints, "checks"),
)
"""The kinds, whose calls are made from this table. Rows are compared with NOT NULL and CHECK when these are added."""


# -- reading -----------------------------------------------------------------------------


@call("get_all_table_constraints")
def get_all_table_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the constraints of a table or link."""
    request = args.request
    name = read_database(request.dbName, request.catName)
    table = _read(endpoint, client, name, request.tblName, request.validWriteIdList)
    found = {kind.field: kind.of(table, name.given) for kind in KINDS}
    return ttypes.AllTableConstraintsResponse(allTableConstraints=ttypes.SQLAllTableConstraints(**found))


def _get(kind: Kind) -> Serve:
    """Return the call that returns the constraints of a kind of a table or link."""

    def serve(endpoint: Endpoint, client: Client, args: Any) -> Any:
        name, table = _requested(endpoint, client, args.request)
        return kind.answer(**{kind.field: kind.of(table, name.given)})

    return serve


@call("get_foreign_keys")
def get_foreign_keys(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the foreign keys of a table or link. Without such a table in the request there are no foreign keys."""
    request = args.request
    if not request.foreign_tbl_name:
        return ttypes.ForeignKeysResponse(foreignKeys=[])
    name = read_database(request.foreign_db_name or request.parent_db_name, request.catName)
    found = foreign_keys(_read(endpoint, client, name, request.foreign_tbl_name, request.validWriteIdList), name.given)
    if request.parent_tbl_name:
        parent = (normalise(request.parent_db_name or name.name), normalise(request.parent_tbl_name))
        found = [each for each in found if (each.pktable_db, each.pktable_name) == parent]
    return ttypes.ForeignKeysResponse(foreignKeys=found)


def _requested(endpoint: Endpoint, client: Client, request: Any) -> tuple[DatabaseName, StoredTable]:
    name = read_database(request.db_name, request.catName)
    return name, _read(endpoint, client, name, request.tbl_name, request.validWriteIdList)


def _read(endpoint: Endpoint, client: Client, name: DatabaseName, table: str | None, ids: str | None) -> StoredTable:
    """Return a table, or the source of a link. A request without a write id list gets the table as it is now.

    Constraints say nothing about files, so that such a request is not misled by them.
    """
    given = list_of(ids)
    linked = endpoint.link(name, table or "")
    if linked is not None:
        return linked[1]
    if given is None:
        return endpoint.catalog.get_table(name.name, table or "")
    return endpoint.catalog.get_table(name.name, table or "", given, client.cluster(name))


# -- changes -----------------------------------------------------------------------------


def _adding(kind: Kind) -> Serve:
    """Return the call that adds constraints of a kind."""
    field = f"{kind.field.removesuffix('s')}Cols"
    return lambda endpoint, client, args: _add(endpoint, client, Given(**{kind.given: getattr(args.req, field)}))


def _add(endpoint: Endpoint, client: Client, given: Given) -> None:
    """Add constraints to the one table that they name, as ALTER TABLE does.

    Raises:
        NoSuchTableError: it does not exist.
        InvalidObjectError: they are of several tables, or cannot be kept.
        ConstraintViolationError: a row of the table violates one.
    """
    of = {_table_of(each) for each in (constraint for found in given for constraint in found or ())}
    if not of:
        return
    if len(of) > 1:
        names = ", ".join(sorted(f"{name.name}.{table}" for name, table in of))
        raise InvalidObjectError("constraint", names, "the constraints of one call belong to one table")
    ((name, table_name),) = of
    table = endpoint.catalog.get_table(name.name, table_name)
    added = described_constraints(table.full_name, given, Constraints.of(table.parameters).names)
    statement = ChangeConstraints(TableName(table.name, table.database), added)
    change_constraints(endpoint.context(client, name), statement)


def _table_of(constraint: Any) -> tuple[DatabaseName, str]:
    if isinstance(constraint, ttypes.SQLForeignKey):
        return read_database(constraint.fktable_db, constraint.catName), normalise(constraint.fktable_name or "")
    return read_database(constraint.table_db, constraint.catName), normalise(constraint.table_name or "")


@call("drop_constraint")
def drop_constraint(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Drop a constraint by the name that answers give it.

    Raises:
        NoSuchObjectError: the table does not have it.
    """
    request = args.req
    name = read_database(request.dbname, request.catName)
    table = endpoint.catalog.get_table(name.name, request.tablename or "")
    statement = dropping(table, request.constraintname or "")
    if statement is None:
        sentence = f"Table {table.full_name} has no constraint {request.constraintname}"
        raise NoSuchObjectError(sentence)
    change_constraints(endpoint.context(client, name), statement)


for _kind in KINDS:
    if _kind.name != _FOREIGN_KEY:
        call(f"get_{_kind.name}s")(_get(_kind))
    call(f"add_{_kind.name}")(_adding(_kind))
