"""Calls about the constraints of tables: DEFAULT, NOT NULL and CHECK, and keys that nothing enforces."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.errors import InvalidObjectError, NoSuchObjectError
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.statements import ChangeConstraints, TableName
from airflow_hivex.core.statements.constraint_changes import change_constraints
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
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

# -- reading -----------------------------------------------------------------------------


@call("get_all_table_constraints")
def get_all_table_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the constraints of a table or link."""
    request = args.request
    name = read_database(request.dbName, request.catName)
    table = _read(endpoint, client, name, request.tblName, request.validWriteIdList)
    return ttypes.AllTableConstraintsResponse(
        allTableConstraints=ttypes.SQLAllTableConstraints(
            primaryKeys=primary_keys(table, name.given),
            foreignKeys=foreign_keys(table, name.given),
            uniqueConstraints=unique_constraints(table, name.given),
            notNullConstraints=not_null_constraints(table, name.given),
            defaultConstraints=default_constraints(table, name.given),
            checkConstraints=check_constraints(table, name.given),
        )
    )


@call("get_primary_keys")
def get_primary_keys(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the primary key of a table or link."""
    name, table = _requested(endpoint, client, args.request)
    return ttypes.PrimaryKeysResponse(primaryKeys=primary_keys(table, name.given))


@call("get_foreign_keys")
def get_foreign_keys(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the foreign keys of a table or link. Without such a table in the request there are none."""
    request = args.request
    if not request.foreign_tbl_name:
        return ttypes.ForeignKeysResponse(foreignKeys=[])
    name = read_database(request.foreign_db_name or request.parent_db_name, request.catName)
    found = foreign_keys(_read(endpoint, client, name, request.foreign_tbl_name, request.validWriteIdList), name.given)
    if request.parent_tbl_name:
        parent = (normalise(request.parent_db_name or name.name), normalise(request.parent_tbl_name))
        found = [each for each in found if (each.pktable_db, each.pktable_name) == parent]
    return ttypes.ForeignKeysResponse(foreignKeys=found)


@call("get_unique_constraints")
def get_unique_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the unique constraints of a table or link."""
    name, table = _requested(endpoint, client, args.request)
    return ttypes.UniqueConstraintsResponse(uniqueConstraints=unique_constraints(table, name.given))


@call("get_not_null_constraints")
def get_not_null_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the columns of a table or link that are never NULL."""
    name, table = _requested(endpoint, client, args.request)
    return ttypes.NotNullConstraintsResponse(notNullConstraints=not_null_constraints(table, name.given))


@call("get_default_constraints")
def get_default_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the default values of the columns of a table or link."""
    name, table = _requested(endpoint, client, args.request)
    return ttypes.DefaultConstraintsResponse(defaultConstraints=default_constraints(table, name.given))


@call("get_check_constraints")
def get_check_constraints(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the CHECKs of a table or link."""
    name, table = _requested(endpoint, client, args.request)
    return ttypes.CheckConstraintsResponse(checkConstraints=check_constraints(table, name.given))


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


@call("add_primary_key")
def add_primary_key(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add a primary key that nothing enforces."""
    _add(endpoint, client, Given(primary_keys=args.req.primaryKeyCols))


@call("add_foreign_key")
def add_foreign_key(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add a foreign key that nothing enforces."""
    _add(endpoint, client, Given(foreign_keys=args.req.foreignKeyCols))


@call("add_unique_constraint")
def add_unique_constraint(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add a unique constraint that nothing enforces."""
    _add(endpoint, client, Given(unique=args.req.uniqueConstraintCols))


@call("add_not_null_constraint")
def add_not_null_constraint(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add NOT NULL to columns. A job compares the rows of the table with it."""
    _add(endpoint, client, Given(not_null=args.req.notNullConstraintCols))


@call("add_default_constraint")
def add_default_constraint(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add default values to columns."""
    _add(endpoint, client, Given(defaults=args.req.defaultConstraintCols))


@call("add_check_constraint")
def add_check_constraint(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Add CHECKs to a table. A job compares its rows with them."""
    _add(endpoint, client, Given(checks=args.req.checkConstraintCols))


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
