"""A script of calls about databases, tables, partitions, functions and statistics, most of them wrong.

It runs on any Hive Metastore, so that the exceptions of two servers can be compared call by call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hive_metastore import ttypes
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from tests.hive_endpoint import descriptor, partition, table

Call = tuple[str, Callable[[Any], object]]
NO_ANSWER = "no answer"
_LONG = "x" * 200


DELIBERATE = (
    # More is accepted than by Hive, or an error has a name that Hive does not have.
    r"get_partitions_with_auth of a (missing .*|table of an empty name)",
    r"get_partitions_by_names of (another order|null)",
    r"add_partitions? .*of no (table|database|storage descriptor)|add_partition\w* of no (table|database)",
    r"add_partition\w* of no storage descriptor",
    r"(add|alter)_partitions of null",
    r"append_partition_by_name of null",
    r"partition_name_to_\w+ of null",
    r"get_table_objects_by_name of names that are null",
    r"get_partitions_pspec of a table without keys",
    r"rename_partition of (no values|null)",
    r"get_partitions_statistics_req $",
    r"\w+_partition_column_statistics .*",
    r"create_database of no name",
    r"drop_database of a (missing|dropped) one",
    r"setMetaConf and getMetaConf of .* = None",
    r"setMetaConf .*disallow.incompatible.col.type.changes.*",
    r"setMetaConf .*partition.name.whitelist.pattern.*",
    # The folder of the warehouse is another one.
    r"get_config_value of the warehouse",
    # Objects that cannot be kept here.
    r"create_\w+ of a long name",
    r"create_table\w* of (no database|no storage descriptor|an empty type|no columns|an unknown kind of table)",
    r"create_table\w* of a (column twice|key that is a column|column of an empty name|column with a comma)",
    r"alter_table to a column with a comma",
    r"create_table\w* of a (column|key) with a blank|alter_table to a column with a blank",
    r"get_fields of a column with a blank",
    r"add_partition\w* of a key's value of another type",
    r"get_partition_names after .*",
    # Names of tables are lower case here, also in marks of partitions.
    r"isPartitionMarkedForEvent of another name of the table",
)
"""What is answered otherwise than by Hive (docs/reference/hive-metastore-calls.md, "Deliberate differences")."""


def is_internal_error(answer: str) -> bool:
    """Return whether the server has failed itself, so that any exception is as good."""
    return answer in (NO_ANSWER, "TApplicationException")


def run(client: Any) -> list[tuple[str, str]]:
    """Return the answers of all calls, with what each call is."""
    _make_objects(client)
    return [(label, _answer(client, call)) for part in _PARTS for label, call in part()]


def _answer(client: Any, call: Callable[[Any], object]) -> str:
    try:
        return _shown(call(client))
    except TApplicationException:
        return "TApplicationException"
    except TTransportException:
        # Hive has ended the connection's thread without an answer.
        transport = client._iprot.trans  # noqa: SLF001 - the bindings have no public name for it
        transport.close()
        transport.open()
        return NO_ANSWER
    except TException as error:
        return type(error).__name__


def _shown(answer: object) -> str:
    """Return the names in an answer, which are all that two servers agree on."""
    if isinstance(answer, list | tuple | set | frozenset):
        return str([_shown(each) for each in (answer if isinstance(answer, list | tuple) else sorted(answer))])
    if isinstance(answer, dict):
        return str({key: _shown(value) for key, value in sorted(answer.items())})
    for name in ("tableName", "functionName", "values", "name", "colName"):
        if hasattr(answer, name):
            return f"{type(answer).__name__} {getattr(answer, name)}"
    if hasattr(answer, "thrift_spec"):
        return f"{type(answer).__name__} {_shown({key: each for key, each in vars(answer).items() if each})}"
    return str(answer)


def _make_objects(client: Any) -> None:
    client.create_database(ttypes.Database("d", None, None, {}))
    client.create_database(ttypes.Database("other", None, None, {}))
    client.create_table(table("d", "t"))
    client.create_table(table("d", "p", keys={"ds": "string", "hr": "int"}))
    for values in (("a", "1"), ("b", "2")):
        client.add_partition(partition("d", "p", *values))
    client.create_function(function("f"))


def function(name: str | None, database: str | None = "d", **given: Any) -> Any:
    """A function of Java."""
    described = {
        "functionName": name,
        "dbName": database,
        "className": "org.example.F",
        "ownerName": "ann",
        "ownerType": 1,
        "createTime": 1,
        "functionType": 1,
        "resourceUris": [],
        **given,
    }
    return ttypes.Function(**described)


def statistics(database: str | None, name: str | None, part: str | None = None, column: str | None = "id") -> Any:
    """Statistics of one column."""
    about = ttypes.ColumnStatisticsDesc(part is None, database, name, part)
    data = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(1, 2, 0, 2))
    return ttypes.ColumnStatistics(about, [ttypes.ColumnStatisticsObj(column, "bigint", data)])


def _names(*, tables: bool = True) -> Iterator[tuple[str, str | None, str | None]]:
    yield "of a missing database", "nowhere", "t"
    if tables:
        yield "of a missing table", "d", "missing"
        yield "of a table without a name", "d", None
        yield "of a table of an empty name", "d", ""
    yield "of a database without a name", None, "t"


def _reading_databases() -> Iterator[Call]:
    for label, database, _ in (("of a database", "d", ""), *_names(tables=False)):
        yield f"get_database {label}", lambda c, d=database: c.get_database(d)
        yield f"get_all_tables {label}", lambda c, d=database: c.get_all_tables(d)
        yield f"get_tables {label}", lambda c, d=database: c.get_tables(d, "*")
        yield f"get_tables_by_type {label}", lambda c, d=database: c.get_tables_by_type(d, "*", "VIRTUAL_VIEW")
        yield f"get_functions {label}", lambda c, d=database: c.get_functions(d, "*")
    yield "get_databases of a pattern", lambda c: c.get_databases("d|o*")
    yield "get_databases without a pattern", lambda c: c.get_databases(None)
    yield "get_all_databases", lambda c: c.get_all_databases()
    yield "get_tables without a pattern", lambda c: c.get_tables("d", None)
    yield "get_table_meta of missing databases", lambda c: c.get_table_meta("nowhere", "*", [])
    yield "get_table_meta", lambda c: sorted(c.get_table_meta("d", "*", []), key=str)
    yield "get_tables_by_type of an unknown type", lambda c: c.get_tables_by_type("d", "*", "NOTHING")


def _reading_tables() -> Iterator[Call]:
    for label, database, name in (("", "d", "t"), *_names()):
        yield f"get_table {label}", lambda c, d=database, t=name: c.get_table(d, t)
        yield f"get_table_req {label}", lambda c, d=database, t=name: c.get_table_req(ttypes.GetTableRequest(d, t))
        yield f"get_fields {label}", lambda c, d=database, t=name: c.get_fields(d, t)
        yield f"get_schema {label}", lambda c, d=database, t=name: c.get_schema(d, t)
        yield (
            f"get_fields_with_environment_context {label}",
            lambda c, d=database, t=name: c.get_fields_with_environment_context(d, t, None),
        )
        yield (
            f"get_schema_with_environment_context {label}",
            lambda c, d=database, t=name: c.get_schema_with_environment_context(d, t, None),
        )
    for label, database, names in (
        ("some missing", "d", ["t", "missing", "T", "t"]),
        ("no names", "d", []),
        ("names that are null", "d", None),
        ("a missing database", "nowhere", ["t"]),
        ("an empty database", "", ["t"]),
        ("a database without a name", None, ["t"]),
    ):
        yield f"get_table_objects_by_name of {label}", lambda c, d=database, n=names: c.get_table_objects_by_name(d, n)
        yield (
            f"get_table_objects_by_name_req of {label}",
            lambda c, d=database, n=names: c.get_table_objects_by_name_req(ttypes.GetTablesRequest(d, n)).tables,
        )
    for label, database, text in (
        ("a missing database", "nowhere", 'hive_filter_field_owner__ = "ann"'),
        ("an empty database", "", 'hive_filter_field_owner__ = "ann"'),
        ("no filter", "d", None),
        ("nonsense", "d", "nonsense of ("),
        ("an owner", "d", 'hive_filter_field_owner__ = "ann"'),
    ):
        yield (
            f"get_table_names_by_filter of {label}",
            lambda c, d=database, f=text: sorted(c.get_table_names_by_filter(d, f, -1)),
        )


def _reading_partitions() -> Iterator[Call]:
    for label, database, name in (("", "d", "p"), ("of a table without keys", "d", "t"), *_names()):
        yield from _reading_partitions_of(label, database, name)
    for label, values in (
        ("a missing one", ["z", "9"]),
        ("too few values", ["a"]),
        ("too many values", ["a", "1", "x"]),
        ("no values", []),
        ("values that are null", None),
        ("an empty value", ["", "1"]),
        ("a value of another type", ["a", "one"]),
    ):
        yield f"get_partition of {label}", lambda c, v=values: c.get_partition("d", "p", v)
        yield f"get_partition_with_auth of {label}", lambda c, v=values: c.get_partition_with_auth("d", "p", v, "u", [])
        yield f"get_partitions_ps of {label}", lambda c, v=values: c.get_partitions_ps("d", "p", v, -1)
        yield (
            f"get_partitions_ps_with_auth of {label}",
            lambda c, v=values: c.get_partitions_ps_with_auth("d", "p", v, -1, "u", []),
        )
        yield f"get_partition_names_ps of {label}", lambda c, v=values: c.get_partition_names_ps("d", "p", v, -1)
    for label, text in (
        ("a missing one", "ds=z/hr=9"),
        ("a part", "ds=a"),
        ("other keys", "x=a/y=1"),
        ("another order", "hr=1/ds=a"),
        ("nonsense", "nonsense"),
        ("nothing", ""),
        ("null", None),
    ):
        yield f"get_partition_by_name of {label}", lambda c, n=text: c.get_partition_by_name("d", "p", n)
        yield f"get_partitions_by_names of {label}", lambda c, n=text: c.get_partitions_by_names("d", "p", [n or ""])
        yield f"partition_name_to_vals of {label}", lambda c, n=text: c.partition_name_to_vals(n)
        yield f"partition_name_to_spec of {label}", lambda c, n=text: c.partition_name_to_spec(n)
    yield "get_partitions_by_names of no names", lambda c: c.get_partitions_by_names("d", "p", [])
    yield "get_partitions_by_names of null", lambda c: c.get_partitions_by_names("d", "p", None)
    for most in (0, 1, -1, -2):
        yield f"get_partitions, at most {most}", lambda c, n=most: len(c.get_partitions("d", "p", n))
        yield f"get_partition_names, at most {most}", lambda c, n=most: len(c.get_partition_names("d", "p", n))


def _reading_partitions_of(label: str, database: str | None, name: str | None) -> Iterator[Call]:
    d, t = database, name
    yield f"get_partition {label}", lambda c: c.get_partition(d, t, ["a", "1"])
    yield f"get_partition_with_auth {label}", lambda c: c.get_partition_with_auth(d, t, ["a", "1"], "u", [])
    yield f"get_partition_by_name {label}", lambda c: c.get_partition_by_name(d, t, "ds=a/hr=1")
    yield f"get_partitions {label}", lambda c: c.get_partitions(d, t, -1)
    yield f"get_partitions_with_auth {label}", lambda c: c.get_partitions_with_auth(d, t, -1, "u", [])
    yield f"get_partition_names {label}", lambda c: c.get_partition_names(d, t, -1)
    yield f"get_partitions_ps {label}", lambda c: c.get_partitions_ps(d, t, ["a"], -1)
    yield f"get_partitions_ps_with_auth {label}", lambda c: c.get_partitions_ps_with_auth(d, t, ["a"], -1, "u", [])
    yield f"get_partition_names_ps {label}", lambda c: c.get_partition_names_ps(d, t, ["a"], -1)
    yield f"get_partitions_by_names {label}", lambda c: c.get_partitions_by_names(d, t, ["ds=a/hr=1"])
    yield f"get_partitions_by_filter {label}", lambda c: c.get_partitions_by_filter(d, t, 'ds = "a"', -1)
    yield f"get_num_partitions_by_filter {label}", lambda c: c.get_num_partitions_by_filter(d, t, 'ds = "a"')
    yield f"get_partitions_pspec {label}", lambda c: len(c.get_partitions_pspec(d, t, -1))
    yield f"get_part_specs_by_filter {label}", lambda c: len(c.get_part_specs_by_filter(d, t, 'ds = "a"', -1))
    yield (
        f"isPartitionMarkedForEvent {label}",
        lambda c: c.isPartitionMarkedForEvent(d, t, {"ds": "a", "hr": "1"}, 1),
    )


def _changing_databases() -> Iterator[Call]:
    for label, name in (
        ("an existing one", "d"),
        ("a name with a dot", "a.b"),
        ("a name with a dash", "a-b"),
        ("an empty name", ""),
        ("no name", None),
        ("a long name", _LONG),
    ):
        yield f"create_database of {label}", lambda c, n=name: c.create_database(ttypes.Database(n, None, None, {}))
    yield "create_database of null", lambda c: c.create_database(None)
    for label, name in (("a missing one", "nowhere"), ("an empty name", ""), ("no name", None)):
        yield f"drop_database of {label}", lambda c, n=name: c.drop_database(n, True, False)
    yield "drop_database with tables", lambda c: c.drop_database("d", True, False)
    yield "drop_database default", lambda c: c.drop_database("default", True, False)
    yield "get_all_databases after changes", lambda c: c.get_all_databases()


def _creating_tables() -> Iterator[Call]:
    for label, described in (
        ("an existing one", table("d", "t")),
        ("an existing one in capitals", table("D", "T")),
        ("a missing database", table("nowhere", "t")),
        ("a name with a dot", table("d", "a.b")),
        ("a name with a dash", table("d", "a-b")),
        ("an empty name", table("d", "")),
        ("no name", table("d", None)),
        ("no database", table(None, "n1")),
        ("an empty database", table("", "n2")),
        ("a long name", table("d", _LONG)),
        ("no storage descriptor", table("d", "n3", sd=None)),
        ("an unknown type", table("d", "n4", sd=descriptor(id="nonsense"))),
        ("an empty type", table("d", "n5", sd=descriptor(id=""))),
        ("a column twice", table("d", "n6", sd=_columns("id", "ID"))),
        ("a key that is a column", table("d", "n7", keys={"id": "string"})),
        ("a column of an empty name", table("d", "n8", sd=_columns(""))),
        ("a column with a comma", table("d", "n9", sd=_columns("a,b"))),
        ("a column with a blank", table("d", "n10", sd=_columns("a b"))),
        ("a key with a blank", table("d", "n11", keys={"a b": "string"})),
        ("a key of an unknown type", table("d", "n12", keys={"ds": "nonsense"})),
        ("no partition keys", table("d", "n13", partitionKeys=None)),
        ("no parameters", table("d", "n14", parameters=None)),
        ("an unknown kind of table", table("d", "n15", tableType="NOTHING")),
        ("no columns", table("d", "n16", sd=_columns())),
    ):
        yield f"create_table of {label}", lambda c, x=described: c.create_table(x)
        yield (
            f"create_table_with_environment_context of {label}",
            lambda c, x=described: c.create_table_with_environment_context(x, None),
        )
    yield "create_table of null", lambda c: c.create_table(None)
    yield "get_fields of a column with a blank", lambda c: c.get_fields("d", "n10")


def _columns(*names: str) -> Any:
    found = descriptor(id="bigint")
    found.cols = [ttypes.FieldSchema(name, "bigint", None) for name in names]
    return found


def _changing_tables() -> Iterator[Call]:
    def altered(client: Any, name: str = "t", **given: Any) -> Any:
        found = client.get_table("d", name)
        for key, value in given.items():
            setattr(found, key, value)
        return found

    for label, database, name in _names():
        yield f"alter_table {label}", lambda c, d=database, t=name: c.alter_table(d, t, altered(c))
        yield (
            f"alter_table_with_environment_context {label}",
            lambda c, d=database, t=name: c.alter_table_with_environment_context(d, t, altered(c), None),
        )
        yield (
            f"alter_table_with_cascade {label}",
            lambda c, d=database, t=name: c.alter_table_with_cascade(d, t, altered(c), True),
        )
        yield f"drop_table {label}", lambda c, d=database, t=name: c.drop_table(d, t, True)
        yield (
            f"drop_table_with_environment_context {label}",
            lambda c, d=database, t=name: c.drop_table_with_environment_context(d, t, True, None),
        )
        yield f"truncate_table {label}", lambda c, d=database, t=name: c.truncate_table(d, t, [])
    for label, given in (
        ("the name of another one", {"tableName": "p"}),
        ("a name with a dot", {"tableName": "a.b"}),
        ("an empty name", {"tableName": ""}),
        ("no name", {"tableName": None}),
        ("a missing database", {"dbName": "nowhere"}),
        ("no storage descriptor", {"sd": None}),
        ("an unknown type", {"sd": descriptor(id="nonsense")}),
        ("a column twice", {"sd": _columns("id", "ID")}),
        ("a column with a comma", {"sd": _columns("a,b")}),
        ("a column with a blank", {"sd": _columns("a b")}),
        ("other partition keys", {"partitionKeys": [ttypes.FieldSchema("x", "string", None)]}),
    ):
        yield f"alter_table to {label}", lambda c, x=given: c.alter_table("d", "t", altered(c, **x))
    yield "alter_table to null", lambda c: c.alter_table("d", "t", None)
    yield "get_table after changes", lambda c: c.get_table("d", "t")
    yield "alter_table of keys", lambda c: c.alter_table("d", "p", altered(c, "p", partitionKeys=[]))
    renamed = [ttypes.FieldSchema("x", "string", None), ttypes.FieldSchema("hr", "int", None)]
    yield "alter_table of a key's name", lambda c: c.alter_table("d", "p", altered(c, "p", partitionKeys=renamed))


def _adding_partitions() -> Iterator[Call]:
    for label, described in (
        ("an existing one", partition("d", "p", "a", "1")),
        ("a missing table", partition("d", "missing", "a", "1")),
        ("a missing database", partition("nowhere", "p", "a", "1")),
        ("a table without keys", partition("d", "t", "a")),
        ("too few values", partition("d", "p", "a")),
        ("too many values", partition("d", "p", "a", "1", "x")),
        ("no values", partition("d", "p")),
        ("values that are null", _partition_of(None)),
        ("no table", partition("d", None, "n", "1")),
        ("no database", partition(None, "p", "n", "2")),
        ("no storage descriptor", partition("d", "p", "n", "3", sd=None)),
        ("a key's value of another type", partition("d", "p", "n", "one")),
    ):
        yield f"add_partition of {label}", lambda c, x=described: c.add_partition(x)
        yield (
            f"add_partition_with_environment_context of {label}",
            lambda c, x=described: c.add_partition_with_environment_context(x, None),
        )
        yield f"add_partitions of {label}", lambda c, x=described: c.add_partitions([x])
        yield (
            f"add_partitions_req of {label}",
            lambda c, x=described: c.add_partitions_req(ttypes.AddPartitionsRequest("d", "p", [x], False)).partitions,
        )
    yield "add_partition of null", lambda c: c.add_partition(None)
    yield "add_partitions of nothing", lambda c: c.add_partitions([])
    yield "add_partitions of null", lambda c: c.add_partitions(None)
    twice = [partition("d", "p", "w", "1"), partition("d", "p", "w", "1")]
    yield "add_partitions of one twice", lambda c: c.add_partitions(twice)
    others = [partition("d", "p", "w", "2"), partition("d", "t", "w")]
    yield "add_partitions of two tables", lambda c: c.add_partitions(others)
    for label, database, name in (("of an existing one", "d", "p"), ("without keys", "d", "t"), *_names()):
        yield f"append_partition {label}", lambda c, d=database, t=name: c.append_partition(d, t, ["a", "1"])
        yield (
            f"append_partition_by_name {label}",
            lambda c, d=database, t=name: c.append_partition_by_name(d, t, "ds=a/hr=1"),
        )
    for label, values in (("too few values", ["n"]), ("no values", []), ("null", None)):
        yield f"append_partition of {label}", lambda c, v=values: c.append_partition("d", "p", v)
    for label, text in (("a part", "ds=n"), ("other keys", "x=n/y=1"), ("nonsense", "nonsense"), ("null", None)):
        yield f"append_partition_by_name of {label}", lambda c, n=text: c.append_partition_by_name("d", "p", n)
    yield "get_partition_names after changes", lambda c: c.get_partition_names("d", "p", -1)


def _partition_of(values: list[str] | None) -> Any:
    found = partition("d", "p")
    found.values = values
    return found


def _changing_partitions() -> Iterator[Call]:
    for label, database, name in (("without keys", "d", "t"), *_names()):
        found = partition("d", "p", "a", "1")
        yield f"alter_partition {label}", lambda c, d=database, t=name, x=found: c.alter_partition(d, t, x)
        yield f"alter_partitions {label}", lambda c, d=database, t=name, x=found: c.alter_partitions(d, t, [x])
        yield (
            f"rename_partition {label}",
            lambda c, d=database, t=name, x=found: c.rename_partition(d, t, ["a", "1"], x),
        )
        yield f"drop_partition {label}", lambda c, d=database, t=name: c.drop_partition(d, t, ["z", "1"], True)
        yield (
            f"drop_partition_by_name {label}",
            lambda c, d=database, t=name: c.drop_partition_by_name(d, t, "ds=z/hr=1", True),
        )
        yield (
            f"markPartitionForEvent {label}",
            lambda c, d=database, t=name: c.markPartitionForEvent(d, t, {"ds": "a", "hr": "1"}, 1),
        )
    for label, values in (
        ("a missing one", ["z", "9"]),
        ("too few values", ["a"]),
        ("too many values", ["a", "1", "x"]),
        ("no values", []),
        ("null", None),
    ):
        other = _partition_of(values)
        yield f"alter_partition of {label}", lambda c, x=other: c.alter_partition("d", "p", x)
        yield f"alter_partitions of {label}", lambda c, x=other: c.alter_partitions("d", "p", [x])
        new = partition("d", "p", "new", "1")
        yield f"rename_partition of {label}", lambda c, v=values, x=new: c.rename_partition("d", "p", v, x)
        if label != "a missing one":
            yield f"rename_partition to {label}", lambda c, x=other: c.rename_partition("d", "p", ["a", "1"], x)
        yield f"drop_partition of {label}", lambda c, v=values: c.drop_partition("d", "p", v, True)
    yield "alter_partition to null", lambda c: c.alter_partition("d", "p", None)
    yield "alter_partitions of nothing", lambda c: c.alter_partitions("d", "p", [])
    yield "alter_partitions of null", lambda c: c.alter_partitions("d", "p", None)
    existing = partition("d", "p", "b", "2")
    yield "rename_partition to an existing one", lambda c: c.rename_partition("d", "p", ["a", "1"], existing)
    yield "rename_partition to null", lambda c: c.rename_partition("d", "p", ["a", "1"], None)
    for label, text in (("a part", "ds=a"), ("other keys", "x=n/y=1"), ("nonsense", "nonsense"), ("null", None)):
        yield f"drop_partition_by_name of {label}", lambda c, n=text: c.drop_partition_by_name("d", "p", n, True)
    yield "get_partition_names after more changes", lambda c: c.get_partition_names("d", "p", -1)


def _dropping_by_request() -> Iterator[Call]:
    def dropped(client: Any, names: list[str] | None, database: str = "d", name: str = "p", **given: Any) -> Any:
        spec = ttypes.RequestPartsSpec(names=names)
        return client.drop_partitions_req(ttypes.DropPartitionsRequest(database, name, spec, True, **given)).partitions

    yield "drop_partitions_req of a missing database", lambda c: dropped(c, ["ds=a/hr=1"], "nowhere")
    yield "drop_partitions_req of a missing table", lambda c: dropped(c, ["ds=a/hr=1"], "d", "missing")
    yield "drop_partitions_req of a table without keys", lambda c: dropped(c, ["ds=a/hr=1"], "d", "t")
    yield "drop_partitions_req of a missing one", lambda c: dropped(c, ["ds=z/hr=1"])
    yield "drop_partitions_req of one that may be missing", lambda c: dropped(c, ["ds=z/hr=1"], ifExists=True)
    yield "drop_partitions_req of one that must not be missing", lambda c: dropped(c, ["ds=z/hr=1"], ifExists=False)
    yield "drop_partitions_req of nonsense", lambda c: dropped(c, ["nonsense"], ifExists=False)
    yield "drop_partitions_req of no names", lambda c: dropped(c, [])
    yield "drop_partitions_req with an answer", lambda c: dropped(c, ["ds=b/hr=2"], needResult=True)
    yield "add_partition of a dropped one", lambda c: c.add_partition(partition("d", "p", "b", "2"))
    yield "drop_partitions_req without an answer", lambda c: dropped(c, ["ds=b/hr=2"], needResult=False)
    yield "add_partition of one dropped twice", lambda c: c.add_partition(partition("d", "p", "b", "2"))
    yield "drop_partitions_req by default", lambda c: dropped(c, ["ds=b/hr=2"])
    yield "get_partition_names after drops", lambda c: c.get_partition_names("d", "p", -1)


def _events() -> Iterator[Call]:
    for label, values, kind in (
        ("a partition", {"ds": "a", "hr": "1"}, 1),
        ("a partition again", {"ds": "a", "hr": "1"}, 1),
        ("a missing partition", {"ds": "z", "hr": "9"}, 1),
        ("a part", {"ds": "a"}, 1),
        ("other keys", {"x": "a", "y": "1"}, 1),
        ("no values", {}, 1),
        ("null", None, 1),
        ("no kind", {"ds": "a", "hr": "1"}, None),
    ):
        for when in ("before", "after"):
            yield (
                f"isPartitionMarkedForEvent of {label} {when}",
                lambda c, v=values, k=kind: c.isPartitionMarkedForEvent("d", "p", v, k),
            )
            if when == "before":
                yield (
                    f"markPartitionForEvent of {label}",
                    lambda c, v=values, k=kind: c.markPartitionForEvent("d", "p", v, k),
                )
    yield from _kept_marks()


def _kept_marks() -> Iterator[Call]:
    values = {"ds": "a", "hr": "1"}

    def mark(of: str, **given: str) -> Call:
        marked = {**values, **given}
        return f"markPartitionForEvent of {of}", lambda c: c.markPartitionForEvent("d", "marked", marked, 1)

    def is_marked(of: str, name: str = "marked", database: str = "d", **given: str) -> Call:
        asked = {**values, **given}
        return f"isPartitionMarkedForEvent of {of}", lambda c: c.isPartitionMarkedForEvent(database, name, asked, 1)

    def rename(client: Any) -> None:
        changed = client.get_table("d", "marked")
        changed.tableName = "marked_too"
        client.alter_table("d", "marked", changed)

    new = table("d", "marked", keys={"ds": "string", "hr": "int"})
    yield "create_table of one whose partitions are marked", lambda c: c.create_table(new)
    yield "append_partition of one that is marked", lambda c: c.append_partition("d", "marked", ["a", "1"])
    yield mark("a table that changes")
    yield is_marked("another text of a number", hr="01")
    yield is_marked("a value of another type", hr="x")
    yield is_marked("the name of NULL", hr="__HIVE_DEFAULT_PARTITION__")
    yield is_marked("an empty value", ds="")
    yield mark("a slash", ds="a/b")
    yield is_marked("a slash", ds="a/b")
    yield is_marked("another name of the table", "MARKED", "D")
    yield mark("a long value", ds="x" * 3000)
    yield is_marked("a long value", ds="x" * 3000)
    yield "drop_partition of one that is marked", lambda c: c.drop_partition("d", "marked", ["a", "1"], False)
    yield is_marked("a dropped partition")
    yield "alter_table to another name of one with marks", rename
    yield is_marked("a renamed table", "marked_too")
    yield is_marked("the former name of a table")
    yield "create_table of the former name of one with marks", lambda c: c.create_table(new)
    yield is_marked("a new table of a former name")
    yield "drop_table of one with marks", lambda c: c.drop_table("d", "marked", False)
    yield is_marked("a dropped table")
    yield "create_table of a dropped one with marks", lambda c: c.create_table(new)
    yield is_marked("a new table of a dropped name")
    for name in ("marked", "marked_too"):
        yield f"drop_table of {name}", lambda c, n=name: c.drop_table("d", n, False)


def _functions() -> Iterator[Call]:
    for label, described in (
        ("an existing one", function("f")),
        ("a missing database", function("g", "nowhere")),
        ("no name", function(None)),
        ("an empty name", function("")),
        ("a name with a dash", function("a-b")),
        ("no class", function("g2", className=None)),
        ("null", None),
    ):
        yield f"create_function of {label}", lambda c, x=described: c.create_function(x)
    for label, database, name in (("", "d", "f"), *_names()):
        label = label.replace("table", "function")
        yield f"get_function {label}", lambda c, d=database, n=name: c.get_function(d, n)
        if label:
            yield f"drop_function {label}", lambda c, d=database, n=name: c.drop_function(d, n)


def _statistics() -> Iterator[Call]:
    for label, database, name in (("", "d", "t"), *_names()):
        d, t = database, name
        yield f"get_table_column_statistics {label}", lambda c, d=d, t=t: c.get_table_column_statistics(d, t, "id")
        yield (
            f"get_table_statistics_req {label}",
            lambda c, d=d, t=t: c.get_table_statistics_req(ttypes.TableStatsRequest(d, t, ["id"])).tableStats,
        )
        yield (
            f"get_partitions_statistics_req {label}",
            lambda c, d=d, t=t: (
                c.get_partitions_statistics_req(ttypes.PartitionsStatsRequest(d, t, ["id"], ["ds=a/hr=1"])).partStats
            ),
        )
        yield (
            f"get_partition_column_statistics {label}",
            lambda c, d=d, t=t: c.get_partition_column_statistics(d, t, "ds=a/hr=1", "id"),
        )
        yield (
            f"delete_table_column_statistics {label}",
            lambda c, d=d, t=t: c.delete_table_column_statistics(d, t, "id", "hive"),
        )
        yield (
            f"delete_partition_column_statistics {label}",
            lambda c, d=d, t=t: c.delete_partition_column_statistics(d, t, "ds=a/hr=1", "id", "hive"),
        )
        if label:
            yield (
                f"update_table_column_statistics {label}",
                lambda c, d=d, t=t: c.update_table_column_statistics(statistics(d, t)),
            )
            yield (
                f"update_partition_column_statistics {label}",
                lambda c, d=d, t=t: c.update_partition_column_statistics(statistics(d, t, "ds=a/hr=1")),
            )
    yield (
        "get_table_column_statistics of a missing column",
        lambda c: c.get_table_column_statistics("d", "t", "nope"),
    )
    yield (
        "get_partition_column_statistics of a missing partition",
        lambda c: c.get_partition_column_statistics("d", "p", "ds=z/hr=9", "id"),
    )
    yield (
        "update_table_column_statistics of a missing column",
        lambda c: c.update_table_column_statistics(statistics("d", "t", column="nope")),
    )
    yield (
        "update_partition_column_statistics of a missing partition",
        lambda c: c.update_partition_column_statistics(statistics("d", "p", "ds=z/hr=9")),
    )
    yield "update_table_column_statistics of null", lambda c: c.update_table_column_statistics(None)


def _server() -> Iterator[Call]:
    yield "getMetaConf of an unknown key", lambda c: c.getMetaConf("nonsense")
    yield "setMetaConf of an unknown key", lambda c: c.setMetaConf("nonsense", "1")
    for key in (
        "hive.metastore.disallow.incompatible.col.type.changes",
        "hive.metastore.try.direct.sql",
        "hive.metastore.try.direct.sql.ddl",
        "hive.metastore.client.socket.timeout",
        "hive.metastore.partition.name.whitelist.pattern",
        "hive.metastore.limit.partition.request",
        "hive.metastore.integral.jdo.pushdown",
        "hive.metastore.warehouse.dir",
        "hive.capability.check",
    ):
        known = "setMetaConf and getMetaConf of"
        for value in ("false", "nonsense", "", None):
            yield f"{known} {key} = {value!r}", lambda c, k=key, v=value: c.setMetaConf(k, v)
        yield f"{known} {key}, to the end", lambda c, k=key: bool(c.getMetaConf(k)) or True
    for key in ("hive.exec.nonsense", "javax.jdo.option.ConnectionPassword", "", None, "mapred.reduce.tasks"):
        yield f"get_config_value of {key!r}", lambda c, k=key: c.get_config_value(k, "mine") is not None
    yield (
        "get_config_value of the warehouse",
        lambda c: c.get_config_value("hive.metastore.warehouse.dir", "mine").rpartition("/")[2],
    )
    yield "partition_name_has_valid_characters", lambda c: c.partition_name_has_valid_characters(["a", "b/c"], True)


def _dropping() -> Iterator[Call]:
    yield "drop_function", lambda c: c.drop_function("d", "f")
    yield "drop_function of a dropped one", lambda c: c.drop_function("d", "f")
    yield "drop_table", lambda c: c.drop_table("d", "t", True)
    yield "drop_table of a dropped one", lambda c: c.drop_table("d", "t", True)
    yield "drop_database with more tables", lambda c: c.drop_database("d", True, False)
    yield "drop_database", lambda c: c.drop_database("other", True, False)
    yield "drop_database of a dropped one", lambda c: c.drop_database("other", True, False)


_PARTS = (
    *(_reading_databases, _reading_tables, _reading_partitions, _changing_databases, _creating_tables),
    *(_changing_tables, _adding_partitions, _changing_partitions, _events, _functions, _statistics),
    *(_dropping_by_request, _server, _dropping),
)
