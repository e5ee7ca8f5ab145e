"""Calls about the constraints of tables: DEFAULT, NOT NULL, CHECK, and keys that are not enforced.

Hive has a name for each constraint. This project stores only the names of CHECKs, and makes other names of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_hivex.core.commands.constraints import change_constraints
from airflow_hivex.core.errors import InvalidObjectError, NoSuchObjectError, SqlError
from airflow_hivex.core.model.constraints import Constraints, Key, KeyKind
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.parser.grammar.constraints import expression_columns
from airflow_hivex.core.parser.statements import ChangeConstraints, TableName
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import Serve, call
from airflow_hivex.core.thrift.calls.tables import list_of
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

_KINDS = {KeyKind.PRIMARY_KEY: "primary_keys", KeyKind.UNIQUE: "unique", KeyKind.FOREIGN_KEY: "foreign_keys"}
_NAMES = {KeyKind.PRIMARY_KEY: "pk_name", KeyKind.UNIQUE: "uk_name", KeyKind.FOREIGN_KEY: "fk_name"}
_ENFORCED = {"enable_cstr": True, "validate_cstr": True, "rely_cstr": True}
_NOT_NULL, _DEFAULT = "_not_null", "_default"


class Given(NamedTuple):
    """The lists of constraints in a call. A missing list is None."""

    primary_keys: Sequence[Any] | None = None
    foreign_keys: Sequence[Any] | None = None
    unique: Sequence[Any] | None = None
    not_null: Sequence[Any] | None = None
    defaults: Sequence[Any] | None = None
    checks: Sequence[Any] | None = None


def _not_null_constraints(table: Table, given: str) -> list[Any]:
    """Return the NOT NULL constraints of a table."""
    constraints = Constraints.of(table.parameters)
    enforced = [
        ttypes.SQLNotNullConstraint(**_of_table(table, given), column_name=each, nn_name=each + _NOT_NULL)
        for each in constraints.not_null
    ]
    return enforced + [
        ttypes.SQLNotNullConstraint(**_of_table(table, given, key), column_name=column, nn_name=name)
        for name, key in constraints.keys.items()
        if key.kind is KeyKind.NOT_NULL
        for column in key.columns
    ]


def _columns_of_keys(kind: KeyKind, structure: type[Any]) -> Callable[[Table, str], list[Any]]:
    """Return a function that returns the columns of a table's keys of one kind, as structures of Hive."""

    def of(table: Table, given: str) -> list[Any]:
        return [
            structure(**_of_table(table, given, key), column_name=column, key_seq=number, **{_NAMES[kind]: name})
            for name, key in _keys(table, kind)
            for number, column in enumerate(key.columns, start=1)
        ]

    return of


def _foreign_keys(table: Table, given: str) -> list[Any]:
    """Return the columns of the foreign keys of a table."""
    found = []
    for name, key in _keys(table, KeyKind.FOREIGN_KEY):
        assert key.parent is not None
        of_table = _of_table(table, given, key)
        of_table = {"fktable_db": of_table.pop("table_db"), "fktable_name": of_table.pop("table_name"), **of_table}
        for number, (column, parent) in enumerate(zip(key.columns, key.parent_columns, strict=True), start=1):
            found.append(
                ttypes.SQLForeignKey(
                    **of_table,
                    pktable_db=key.parent[0],
                    pktable_name=key.parent[1],
                    pkcolumn_name=parent,
                    fkcolumn_name=column,
                    key_seq=number,
                    fk_name=name,
                )
            )
    return found


def _keys(table: Table, kind: KeyKind) -> list[tuple[str, Key]]:
    return [each for each in Constraints.of(table.parameters).keys.items() if each[1].kind is kind]


def _default_constraints(table: Table, given: str) -> list[Any]:
    """Return the default values of a table's columns."""
    defaults = Constraints.of(table.parameters).defaults
    return [
        ttypes.SQLDefaultConstraint(
            **_of_table(table, given), column_name=each, default_value=text, dc_name=each + _DEFAULT
        )
        for each, text in defaults.items()
    ]


def _check_constraints(table: Table, given: str) -> list[Any]:
    """Return the CHECKs of a table. As in Hive, a CHECK of a single column has the column's name."""
    found = []
    for name, text in Constraints.of(table.parameters).checks.items():
        columns = expression_columns(text)
        column = columns[0] if len(columns) == 1 else None
        found.append(
            ttypes.SQLCheckConstraint(
                **_of_table(table, given), column_name=column, check_expression=text, dc_name=name
            )
        )
    return found


def described_constraints(table: str, given: Given, taken: Iterable[str] = ()) -> Constraints:
    """Return the constraints that a client describes. ``taken`` are the names of the table's other constraints.

    Raises:
        InvalidObjectError: a key is declared as enforced, another constraint is declared as not enforced, a constraint
            is given twice, or the text of a constraint cannot be read.
    """
    keys: dict[str, Key] = {}
    for kind in _KINDS:
        keys |= _described_keys(table, kind, given, {*taken, *keys})
    not_null: list[str] = []
    for each in given.not_null or ():
        if each.enable_cstr is False:
            column = normalise(each.column_name or "")
            key = Key(KeyKind.NOT_NULL, (column,), rely=bool(each.rely_cstr))
            keys[_key_name(each.nn_name, f"{column}{_NOT_NULL}", keys)] = key
            continue
        column = _column(table, "NOT NULL", each)
        if column in not_null:
            raise InvalidObjectError("constraint", f"NOT NULL of {column}", "it is given twice")
        not_null.append(column)
    defaults: dict[str, str] = {}
    for each in given.defaults or ():
        column = _column(table, "DEFAULT", each)
        if column in defaults:
            raise InvalidObjectError("constraint", f"DEFAULT of {column}", "it is given twice")
        if _columns_of(f"DEFAULT of {column}", each.default_value):
            raise InvalidObjectError("constraint", f"DEFAULT of {column}", "it reads a column; a text needs quotes")
        defaults[column] = each.default_value
    checks: dict[str, str] = {}
    names = {normalise(name) for name in taken}
    for each in given.checks or ():
        name = normalise(each.dc_name or _free_name(names | checks.keys()))
        _check_enforced(table, f"CHECK {name}", each)
        if name in checks or name in keys:
            raise InvalidObjectError("constraint", name, "it is given twice")
        if not _columns_of(name, each.check_expression):
            raise InvalidObjectError("constraint", name, "it compares no column of the table")
        checks[name] = each.check_expression
    return Constraints(defaults, tuple(not_null), checks, keys)


def _described_keys(table: str, kind: KeyKind, given: Given, taken: Collection[str]) -> dict[str, Key]:
    """Return a dict from name to key for the keys of one kind. A client lists the columns of a key, numbered from 1.

    Raises:
        InvalidObjectError: a key is declared as enforced.
    """
    found: list[tuple[str, list[Any]]] = []
    for each in getattr(given, _KINDS[kind]) or ():
        if each.enable_cstr:
            raise InvalidObjectError("table", table, f"nothing enforces a {kind.value}; disable it, and it is kept")
        name = normalise(getattr(each, _NAMES[kind]) or "")
        # As in Hive, a key without a name begins with its first column.
        begun = (
            next((columns for of, columns in found if of == name), None) if name else found[-1][1] if found else None
        )
        if begun is None or (not name and each.key_seq == 1):
            found.append((name, [each]))
        else:
            begun.append(each)
    keys: dict[str, Key] = {}
    for name, columns in found:
        columns.sort(key=lambda each: each.key_seq or 0)
        key = Key(kind, tuple(_key_column(each) for each in columns), rely=bool(columns[0].rely_cstr))
        if kind is KeyKind.FOREIGN_KEY:
            parent = (normalise(columns[0].pktable_db or ""), normalise(columns[0].pktable_name or ""))
            key = replace(key, parent=parent, parent_columns=tuple(normalise(each.pkcolumn_name) for each in columns))
        keys[_key_name(name, kind.value.lower().replace(" ", "_"), {*taken, *keys})] = key
    return keys


def _key_column(constraint: Any) -> str:
    name = constraint.fkcolumn_name if isinstance(constraint, ttypes.SQLForeignKey) else constraint.column_name
    return normalise(name or "")


def _key_name(given: str | None, otherwise: str, taken: Collection[str]) -> str:
    """Return the name that the client gives for a key, or else an unused name made from ``otherwise``.

    Raises:
        InvalidObjectError: another constraint has the name.
    """
    name, number = normalise(given or otherwise), 1
    while not given and name in taken:
        number += 1
        name = f"{otherwise}_{number}"
    if name in taken:
        raise InvalidObjectError("constraint", name, "it is given twice")
    return name


def _dropping(table: Table, name: str) -> ChangeConstraints | None:
    """Return the statement that drops a constraint, or None if the table does not have the constraint.

    ``name`` is the name of the constraint in answers.
    """
    constraints = Constraints.of(table.parameters)
    named = TableName(table.name, table.database)
    wanted = normalise(name)
    if wanted in constraints.names:
        return ChangeConstraints(named, dropped_name=wanted)
    for column in constraints.not_null:
        if wanted == column + _NOT_NULL:
            return ChangeConstraints(named, dropped_not_null=column)
    for column in constraints.defaults:
        if wanted == column + _DEFAULT:
            return ChangeConstraints(named, dropped_default=column)
    return None


def _of_table(table: Table, given: str, key: Key | None = None) -> dict[str, Any]:
    enforced = _ENFORCED if key is None else {"enable_cstr": False, "validate_cstr": False, "rely_cstr": key.rely}
    return {"catName": "hive", "table_db": given, "table_name": table.name, **enforced}


def _column(table: str, kind: str, constraint: Any) -> str:
    column = normalise(constraint.column_name or "")
    _check_enforced(table, f"{kind} of {column}", constraint)
    return column


def _check_enforced(table: str, name: str, constraint: Any) -> None:
    if constraint.enable_cstr is False:
        reason = f"{name} is disabled, and a constraint that is not enforced is not kept; leave it out"
        raise InvalidObjectError("table", table, reason)


def _columns_of(name: str, text: str | None) -> tuple[str, ...]:
    if not text:
        raise InvalidObjectError("constraint", name, "it has no expression")
    try:
        return expression_columns(text)
    except SqlError as error:
        reason = f"{text} is not a valid expression here: {str(error).splitlines()[0].rstrip('.')}"
        raise InvalidObjectError("constraint", name, reason) from error


def _free_name(taken: Iterable[str]) -> str:
    names, number = set(taken), 1
    while f"check_{number}" in names:
        number += 1
    return f"check_{number}"


class Kind(NamedTuple):
    """A kind of constraints: the name in Hive's interface, a function ``of``, and the field of :class:`Given`.

    ``of`` returns the constraints of a table as structures. The second argument of ``of`` is the name of the database
    in answers.
    """

    name: str
    of: Callable[[StoredTable, str], list[Any]]
    given: str

    @property
    def field(self) -> str:
        """Return the name of the field in answers, such as ``primaryKeys``."""
        first, *others = f"{self.name}s".split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def answer(self) -> type[Any]:
        """Return the class of an answer, such as ``PrimaryKeysResponse``."""
        found: type[Any] = getattr(ttypes, f"{self.field[0].upper()}{self.field[1:]}Response")
        return found


_FOREIGN_KEY = "foreign_key"
KINDS = (
    Kind("primary_key", _columns_of_keys(KeyKind.PRIMARY_KEY, ttypes.SQLPrimaryKey), "primary_keys"),
    Kind(_FOREIGN_KEY, _foreign_keys, "foreign_keys"),
    Kind("unique_constraint", _columns_of_keys(KeyKind.UNIQUE, ttypes.SQLUniqueConstraint), "unique"),
    Kind("not_null_constraint", _not_null_constraints, "not_null"),
    Kind("default_constraint", _default_constraints, "defaults"),
    Kind("check_constraint", _check_constraints, "checks"),
)
"""The kinds of constraints. The calls are registered from this list.

When a NOT NULL or CHECK is added, the rows of the table are checked.
"""


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
    """Return the function that serves reads of one kind of constraints of a table or link."""

    def serve(endpoint: Endpoint, client: Client, args: Any) -> Any:
        name, table = _requested(endpoint, client, args.request)
        return kind.answer(**{kind.field: kind.of(table, name.given)})

    return serve


@call("get_foreign_keys")
def get_foreign_keys(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the foreign keys of the table or link ``foreign_tbl_name``, or no keys for a request without this name."""
    request = args.request
    if not request.foreign_tbl_name:
        return ttypes.ForeignKeysResponse(foreignKeys=[])
    name = read_database(request.foreign_db_name or request.parent_db_name, request.catName)
    found = _foreign_keys(_read(endpoint, client, name, request.foreign_tbl_name, request.validWriteIdList), name.given)
    if request.parent_tbl_name:
        parent = (normalise(request.parent_db_name or name.name), normalise(request.parent_tbl_name))
        found = [each for each in found if (each.pktable_db, each.pktable_name) == parent]
    return ttypes.ForeignKeysResponse(foreignKeys=found)


def _requested(endpoint: Endpoint, client: Client, request: Any) -> tuple[DatabaseName, StoredTable]:
    name = read_database(request.db_name, request.catName)
    return name, _read(endpoint, client, name, request.tbl_name, request.validWriteIdList)


def _read(endpoint: Endpoint, client: Client, name: DatabaseName, table: str | None, ids: str | None) -> StoredTable:
    """Return a table, or the source of a link. ``ids`` is a write id list; without a list, return the current state."""
    given = list_of(ids)
    linked = endpoint.link(name, table or "")
    if linked is not None:
        return linked[1]
    if given is None:
        return endpoint.catalog.get_table(name.name, table or "")
    return endpoint.catalog.get_table(name.name, table or "", given, client.cluster(name))


# -- changes -----------------------------------------------------------------------------


def _adding(kind: Kind) -> Serve:
    """Return the function that serves additions of one kind of constraints."""
    field = f"{kind.field.removesuffix('s')}Cols"
    return lambda endpoint, client, args: _add(endpoint, client, Given(**{kind.given: getattr(args.req, field)}))


def _add(endpoint: Endpoint, client: Client, given: Given) -> None:
    """Add constraints to the table that all these constraints name, as ALTER TABLE does.

    Raises:
        NoSuchTableError: the table does not exist.
        InvalidObjectError: the constraints belong to several tables, or cannot be stored.
        ConstraintViolationError: a row of the table violates a constraint.
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
    """Drop a constraint. The request has the name by which answers name the constraint.

    Raises:
        NoSuchObjectError: the table does not have the constraint.
    """
    request = args.req
    name = read_database(request.dbname, request.catName)
    table = endpoint.catalog.get_table(name.name, request.tablename or "")
    statement = _dropping(table, request.constraintname or "")
    if statement is None:
        sentence = f"Table {table.full_name} has no constraint {request.constraintname}"
        raise NoSuchObjectError(sentence)
    change_constraints(endpoint.context(client, name), statement)


for _kind in KINDS:
    if _kind.name != _FOREIGN_KEY:
        call(f"get_{_kind.name}s")(_get(_kind))
    call(f"add_{_kind.name}")(_adding(_kind))
