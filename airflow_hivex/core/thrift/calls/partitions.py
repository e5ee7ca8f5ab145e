"""Calls that read partitions by values, names, filters and expressions, one by one or in groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.partition_rows import spelled_name
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import Column, StoredPartition, StoredTable
from airflow_hivex.core.model.partitions import unescape
from airflow_hivex.core.model.predicates import And
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import Raw, call, from_memory
from airflow_hivex.core.thrift.calls.tables import list_of
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.filter_conditions import DecidedFilter, decide_filter
from airflow_hivex.core.thrift.hive_objects import hive_partition
from airflow_hivex.core.thrift.messages import STRUCT_RESULT, encoded, list_result
from airflow_hivex.core.thrift.partition_filter import InvalidFilterError


@dataclass(frozen=True, slots=True)
class Wanted:
    """The table or link whose partitions a call reads, as the client of the call sees it."""

    endpoint: Endpoint
    name: DatabaseName
    table: str
    ids: GivenList
    cluster: str | None
    link: Link | None = None

    @property
    def source(self) -> tuple[str, str]:
        """Return (database, table). For a link, the pair names the source table of the link."""
        return (self.name.name, self.table) if self.link is None else self.link.source

    def stored(self) -> StoredTable:
        """Return the table as the client sees it."""
        return self.endpoint.catalog.get_table(*self.source, self.ids, self.cluster)

    def shown(self, found: Iterable[StoredPartition]) -> list[StoredPartition]:
        """Return the partitions among ``found`` that the link shows. For a table, return all of them."""
        return [each for each in found if self.link is None or self.link.shows(each.id)]

    def all(self) -> list[StoredPartition]:
        """Return all partitions. As in Hive, a table without partition keys has no partitions."""
        try:
            batches = self.endpoint.catalog.get_partitions(*self.source, self.ids, cluster=self.cluster)
            return self.shown(each for batch in batches for each in batch)
        except InvalidOperationError:
            if self.stored().is_partitioned:
                raise
            return []

    def by_filters(self, *texts: str | None) -> list[StoredPartition]:
        """Return the partitions that match all of the filters in ``texts``.

        Raises:
            MetaException: a text is not a filter on the partition keys of the table.
        """
        keys = self.stored().partition_keys
        if not keys and not any(texts):
            return []
        return self.left_by([checked_filter(text, keys) for text in texts])

    def left_by(self, filters: Sequence[DecidedFilter]) -> list[StoredPartition]:
        """Return the partitions that match all of the parsed filters."""
        predicate = And(tuple(each.superset for each in filters))
        found = self.endpoint.catalog.get_partitions_by_expr(*self.source, predicate, self.ids, self.cluster)
        return [each for each in self.shown(found) if all(one.holds(each.values) for one in filters)]

    def by_values(self, values: Sequence[str]) -> StoredPartition:
        """Return the partition with these values.

        Raises:
            NoSuchPartitionError: the table has no such partition, for example because a value does not fit the type of
                its key.
            InvalidObjectError: the number of values differs from the number of partition keys.
        """
        try:
            found = self.endpoint.catalog.get_partition(*self.source, values, self.ids, self.cluster)
        except InvalidObjectError as error:
            if len(values) != len(self.stored().partition_keys):
                raise
            raise NoSuchPartitionError(self.name.given, self.table, "/".join(values)) from error
        if not self.shown([found]):
            raise NoSuchPartitionError(self.name.given, self.table, found.name)
        return found

    def by_name(self, name: str) -> StoredPartition:
        """Return the partition with this name.

        Raises:
            NoSuchPartitionError: the table has no such partition.
            MetaException: the table has no partitions, or the name is empty.
        """
        stored = self.stored()
        if not name or not stored.is_partitioned:
            reason = "the table has no partition keys" if name else "the name is empty"
            raise ttypes.MetaException(f"{name!r} is not a valid name of a partition of {stored.full_name}: {reason}")
        try:
            values = values_of_name(stored, name)
        except InvalidObjectError as error:
            raise NoSuchPartitionError(self.name.given, self.table, name) from error
        return self.by_values(values)

    def by_names(self, names: Sequence[str]) -> list[StoredPartition]:
        """Return the existing partitions with these names. As in Hive, invalid names are skipped."""
        try:
            found = self.endpoint.catalog.get_partitions_by_names(*self.source, names, self.ids, self.cluster)
        except (InvalidObjectError, InvalidOperationError):
            stored = self.stored()
            possible = possible_names(stored, names)
            if len(possible) == len(names) and stored.is_partitioned:
                raise
            return self.by_names(possible) if possible else []
        return self.shown(found)

    def matching(self, values: Sequence[str]) -> list[StoredPartition]:
        """Return the partitions whose first keys have these values. An empty text stands for any value."""
        stored = self.stored()
        if not values:
            raise ttypes.MetaException("No value of a partition key is given")
        if len(values) > len(stored.partition_keys):
            raise ttypes.MetaException("Incorrect number of partition values")
        known = [(place, value) for place, value in enumerate(values) if value]
        if len(known) == len(stored.partition_keys):
            try:
                return [self.by_values(values)]
            except NoSuchPartitionError:
                return []
        return [each for each in self.all() if all(each.values[place] == value for place, value in known)]

    def names(self) -> list[str]:
        """Return the names of all partitions, sorted."""
        if self.link is None:
            return self.endpoint.catalog.list_partition_names(*self.source, valid_write_ids=self.ids)
        return sorted(each.name for each in self.all())

    def encoded(self, found: Sequence[StoredPartition], most: int | None = -1) -> list[bytes]:
        """Return the first ``most`` partitions as encoded structures. None or a negative ``most`` means all."""
        found = limited(found, most)
        if not found:
            return []
        table = self.stored()
        if self.link is None:
            return self.endpoint.partition_bytes(found, table, self.name.given, self.cluster)
        return [encoded(each) for each in self.hive(found)]

    def hive(self, found: Sequence[StoredPartition], most: int | None = -1) -> list[Any]:
        """Return the first ``most`` partitions as Hive's structures. None or a negative ``most`` means all."""
        table = self.stored()
        if self.link is None:
            like = self.endpoint.hive_table(table, self.name.given, self.cluster)
        else:
            like = self.endpoint.linked_table(self.link, table, self.name.given, self.cluster)
        return [hive_partition(each, self.name.given, like) for each in limited(found, most)]

    def one(self, found: StoredPartition) -> Raw:
        """Return one partition, encoded as the result of a call."""
        return Raw(STRUCT_RESULT + self.encoded([found])[0])

    def several(self, found: Sequence[StoredPartition], most: int | None = -1) -> Raw:
        """Return the first ``most`` partitions, encoded as a call's result. None or a negative ``most`` means all."""
        return Raw(list_result(self.encoded(found, most)))


def _parts_of_name(name: str | None) -> list[tuple[str, str]]:
    """Return the keys and values in a partition's name. As in Hive, a part without ``=`` is skipped."""
    parts = (part.partition("=") for part in (name or "").split("/"))
    return [(unescape(key), unescape(value)) for key, equals, value in parts if key and equals]


def values_of_name(table: StoredTable, name: str) -> tuple[str, ...]:
    """Return the values in a partition's name, in the order of the table's partition keys.

    Raises:
        InvalidObjectError: the name has no value for one of the keys.
    """
    given = dict(_parts_of_name(name))
    keys = [key.name.lower() for key in table.partition_keys]
    if not keys or not given.keys() >= set(keys):
        reason = f"the partition keys of {table.full_name} are {', '.join(keys) or 'none'}"
        raise InvalidObjectError("partition", name, reason)
    return tuple(given[key] for key in keys)


def possible_names(table: StoredTable, names: Sequence[str]) -> list[str]:
    """Return the names in ``names`` that are valid for the table, with the spelling of the catalog."""
    found = []
    for each in names:
        with suppress(InvalidObjectError):
            found.append(spelled_name(table, each))
    return found


def limited(found: Sequence[Any], most: int | None) -> Sequence[Any]:
    """Return the first ``most`` items. None or a negative number means all items."""
    return found if most is None or most < 0 else found[:most]


def checked_filter(text: str | None, keys: Sequence[Column]) -> DecidedFilter:
    """Return the parsed form of a filter on partition keys.

    Raises:
        MetaException: the text is not a valid filter, or names a column that is not in ``keys``.
    """
    try:
        return decide_filter(text, keys)
    except InvalidFilterError as error:
        raise ttypes.MetaException(str(error)) from error


def wanted(
    endpoint: Endpoint,
    client: Client,
    database: str,
    table: str,
    ids: str | None = None,
    catalog: str | None = None,
) -> Wanted:
    """Return the table or link of a call that reads partitions."""
    name = read_database(database, catalog)
    linked = endpoint.link(name, table or "")
    link = None if linked is None else linked[0]
    return Wanted(endpoint, name, table or "", list_of(ids), client.cluster(name), link)


def _of(endpoint: Endpoint, client: Client, args: Any) -> Wanted:
    return wanted(endpoint, client, args.db_name, args.tbl_name)


def _of_request(endpoint: Endpoint, client: Client, request: Any) -> Wanted:
    database = getattr(request, "dbName", None) or getattr(request, "db_name", None)
    table = getattr(request, "tblName", None) or getattr(request, "tbl_name", None)
    return wanted(endpoint, client, database or "", table or "", request.validWriteIdList, request.catName)


# -- one partition -----------------------------------------------------------------------


@call("get_partition", "get_partition_with_auth")
def get_partition(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return the partition with these values."""
    of = _of(endpoint, client, args)
    return of.one(of.by_values(args.part_vals or ()))


@from_memory("get_partition")
def recall_partition(endpoint: Endpoint, client: Client, args: Any) -> bytes | None:
    """Return the partition with these values from memory, or None if it is not in memory."""
    name = read_database(args.db_name)
    if client.cluster(name) is not None:
        return None
    kept = endpoint.kept_partitions(name, args.tbl_name or "", None)
    found = None if kept is None else kept[1].by_values.get(tuple(args.part_vals or ()))
    if kept is None or found is None:
        return None
    table = endpoint.kept_table(name, args.tbl_name, None, None)
    if table is None:
        return None
    return STRUCT_RESULT + endpoint.partition_bytes([found], table, name.given, None)[0]


from_memory("get_partition_with_auth")(recall_partition)


@call("get_partition_by_name")
def get_partition_by_name(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return the partition with this name."""
    of = _of(endpoint, client, args)
    return of.one(of.by_name(args.part_name or ""))


@call("get_partition_req")
def get_partition_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partition with these values, as of the request's write id list."""
    of = _of_request(endpoint, client, args.req)
    return ttypes.GetPartitionResponse(partition=of.hive([of.by_values(args.req.partVals or ())])[0])


# -- several -----------------------------------------------------------------------------


@call("get_partitions", "get_partitions_with_auth")
def get_partitions(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return all partitions, or as many as the client wants."""
    of = _of(endpoint, client, args)
    return of.several(of.all() if args.max_parts else [], args.max_parts)


@call("get_partitions_req")
def get_partitions_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return all partitions, as of the request's write id list."""
    of = _of_request(endpoint, client, args.req)
    return ttypes.PartitionsResponse(partitions=of.hive(of.all(), args.req.maxParts))


@call("get_partitions_ps", "get_partitions_ps_with_auth")
def get_partitions_ps(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return the partitions with the given values."""
    of = _of(endpoint, client, args)
    return of.several(of.matching(args.part_vals or ()), args.max_parts)


@call("get_partitions_ps_with_auth_req")
def get_partitions_ps_with_auth_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions with the given values, as of the request's write id list."""
    of = _of_request(endpoint, client, args.req)
    found = of.matching(args.req.partVals or ())
    return ttypes.GetPartitionsPsWithAuthResponse(partitions=of.hive(found, args.req.maxParts))


@call("get_partitions_by_names")
def get_partitions_by_names(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return the named partitions that exist."""
    of = _of(endpoint, client, args)
    return of.several(of.by_names(args.names or ()))


@from_memory("get_partitions_by_names")
def recall_partitions_by_names(endpoint: Endpoint, client: Client, args: Any) -> bytes | None:
    """Return the named partitions from memory, or None if a partition is not in memory."""
    name = read_database(args.db_name)
    if client.cluster(name) is not None or len(args.names or ()) > _MOST_AT_ONCE:
        return None
    kept = endpoint.kept_partitions(name, args.tbl_name or "", None)
    table = None if kept is None else endpoint.kept_table(name, args.tbl_name, None, None)
    if kept is None or table is None:
        return None
    asked = ("names", table.id, tuple(args.names or ()), name.given)
    answer: bytes | None = endpoint.wire.of(asked, kept[1], table)
    if answer is not None:
        return answer
    by_name = _by_name(endpoint, kept[0], kept[1])
    names = list(dict.fromkeys(args.names or ()))
    found = [by_name.get(each) for each in names]
    if any(each is None for each in found):
        # The names may spell a value otherwise, or a partition may not exist.
        spelled = dict.fromkeys(spelled_name(table, each) for each in names)
        found = [by_name[each] for each in spelled if each in by_name]
    chosen = sorted((each for each in found if each is not None), key=lambda each: each.id)
    answer = list_result(endpoint.partition_bytes(chosen, table, name.given, None))
    endpoint.wire.keep(asked, answer, len(answer) + 60 * len(names), kept[1], table)
    return answer


_MOST_AT_ONCE = 5000
"""The largest number of partitions in one answer from memory. Other clients wait while the server makes the answer."""


def _by_name(endpoint: Endpoint, table: StoredTable, partitions: Any) -> dict[str, StoredPartition]:
    key = ("names", table.id)
    found: dict[str, StoredPartition] | None = endpoint.wire.of(key, partitions)
    if found is None:
        found = {each.name: each for each in partitions.by_values.values()}
        endpoint.wire.keep(key, found, 100 * len(found), partitions)
    return found


@call("get_partitions_by_names_req")
def get_partitions_by_names_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the named partitions that exist, as of the request's write id list."""
    request = args.req
    of = wanted(endpoint, client, request.db_name, request.tbl_name, request.validWriteIdList)
    return ttypes.GetPartitionsByNamesResult(partitions=of.hive(of.by_names(request.names or ())))


@call("get_partitions_by_filter")
def get_partitions_by_filter(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Return the partitions that match a filter."""
    of = _of(endpoint, client, args)
    return of.several(of.by_filters(args.filter), args.max_parts)


@from_memory("get_partitions_by_filter")
def recall_partitions_by_filter(endpoint: Endpoint, client: Client, args: Any) -> bytes | None:
    """Return the partitions that match a filter from memory, or None if the database must be read."""
    name = read_database(args.db_name)
    if client.cluster(name) is not None:
        return None
    kept = endpoint.kept_partitions(name, args.tbl_name or "", None)
    table = None if kept is None else endpoint.kept_table(name, args.tbl_name, None, None)
    if kept is None or table is None:
        return None
    key = ("filter", table.id, args.filter)
    chosen = endpoint.wire.of(key, kept[1])
    if chosen is None:
        decided = checked_filter(args.filter, kept[0].partition_keys)
        chosen = [each for each in kept[1].chosen(kept[0], decided.superset) if decided.holds(each.values)]
        endpoint.wire.keep(key, chosen, 60 * len(chosen) + len(args.filter or ""), kept[1])
    if len(chosen) > _MOST_AT_ONCE:
        return None
    chosen = limited(chosen, args.max_parts)
    return list_result(endpoint.partition_bytes(chosen, table, name.given, None))


@call("get_num_partitions_by_filter")
def get_num_partitions_by_filter(endpoint: Endpoint, client: Client, args: Any) -> int:
    """Return the number of partitions that match a filter."""
    return len(_of(endpoint, client, args).by_filters(args.filter))


def by_expression(of: Wanted, expression: bytes | str | None) -> tuple[list[StoredPartition], bool]:
    """Return a pair: the partitions for an expression, and whether the expression could be read.

    An expression that is the text of a filter can be read. The partitions are then the matching partitions. Hive sends
    a Java object instead, which cannot be read. Then all partitions are returned, and the client must apply the
    expression.
    """
    try:
        text = expression if isinstance(expression, str) else bytes(expression or b"").decode()
        decided = decide_filter(text, of.stored().partition_keys)
    except (UnicodeDecodeError, InvalidFilterError):
        return of.all(), False
    return of.left_by([decided]), True


@call("get_partitions_by_expr")
def get_partitions_by_expr(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions for an expression; see :func:`by_expression`."""
    request = args.req
    of = wanted(endpoint, client, request.dbName, request.tblName, request.validWriteIdList, request.catName)
    found, is_certain = by_expression(of, request.expr)
    partitions = of.hive(found, request.maxParts)
    return ttypes.PartitionsByExprResult(partitions=partitions, hasUnknownPartitions=not is_certain)


# -- names -------------------------------------------------------------------------------


@call("get_partition_names")
def get_partition_names(endpoint: Endpoint, client: Client, args: Any) -> list[str]:
    """Return the names of all partitions. No write id list is required, since names do not let a client read files."""
    of = _of(endpoint, client, args)
    try:
        # In Hive 0 means all names here, but no partitions in calls that return partitions.
        return list(limited(of.names(), args.max_parts or -1))
    except InvalidOperationError:
        # In Hive a table without partition keys has no partitions.
        return []


@call("get_partition_names_req")
def get_partition_names_req(endpoint: Endpoint, client: Client, args: Any) -> list[str]:
    """Return the names of all partitions, as of the request's write id list."""
    of = _of_request(endpoint, client, args.req)
    return list(limited(of.names(), getattr(args.req, "maxParts", -1)))


@call("get_partition_names_ps")
def get_partition_names_ps(endpoint: Endpoint, client: Client, args: Any) -> list[str]:
    """Return the names of the partitions with the given values."""
    of = _of(endpoint, client, args)
    found = sorted(each.name for each in of.matching(args.part_vals or ()))
    return list(limited(found, args.max_parts))


@call("get_partition_names_ps_req")
def get_partition_names_ps_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the names of the partitions with the given values, as of the request's write id list."""
    of = _of_request(endpoint, client, args.req)
    found = sorted(each.name for each in of.matching(args.req.partValues or ()))
    return ttypes.GetPartitionNamesPsResponse(names=list(limited(found, args.req.maxParts)))


@call("partition_name_to_vals")
def partition_name_to_vals(_endpoint: Endpoint, _client: Client, args: Any) -> list[str]:
    """Return the values in a partition's name."""
    return [value for _, value in _parts_of_name(args.part_name)]


@call("partition_name_to_spec")
def partition_name_to_spec(_endpoint: Endpoint, _client: Client, args: Any) -> dict[str, str]:
    """Return the keys and values in a partition's name."""
    return dict(_parts_of_name(args.part_name))


_MODES = ttypes.PartitionFilterMode


def _specs(of: Wanted, found: Sequence[StoredPartition], most: int | None = -1) -> list[Any]:
    """Return a list with one PartitionSpec that has all partitions.

    As in Hive, the list is empty if ``found`` is empty.
    """
    found = limited(found, most)
    if not found:
        return []
    return [
        ttypes.PartitionSpec(
            dbName=of.name.given,
            tableName=of.table.lower(),
            rootPath=of.stored().location,
            partitionList=ttypes.PartitionListComposingSpec(partitions=of.hive(found)),
            catName="hive",
        )
    ]


@call("get_partitions_pspec")
def get_partitions_pspec(endpoint: Endpoint, client: Client, args: Any) -> list[Any]:
    """Return all partitions, or as many as the client wants."""
    of = wanted(endpoint, client, args.db_name, args.tbl_name)
    return _specs(of, of.all() if args.max_parts else [], args.max_parts)


@call("get_part_specs_by_filter")
def get_part_specs_by_filter(endpoint: Endpoint, client: Client, args: Any) -> list[Any]:
    """Return the partitions that match a filter."""
    of = wanted(endpoint, client, args.db_name, args.tbl_name)
    return _specs(of, of.by_filters(args.filter), args.max_parts)


@call("get_partitions_spec_by_expr")
def get_partitions_spec_by_expr(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions for an expression in PartitionSpecs; see :func:`by_expression`."""
    request = args.req
    of = wanted(endpoint, client, request.dbName, request.tblName, request.validWriteIdList, request.catName)
    found, is_certain = by_expression(of, request.expr)
    specs = _specs(of, found, request.maxParts)
    return ttypes.PartitionsSpecByExprResult(partitionsSpec=specs, hasUnknownPartitions=not is_certain)


@call("get_partitions_with_specs")
def get_partitions_with_specs(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions that the request selects by names, values or filters.

    All fields are returned, even if the client requests only some.
    """
    request = args.request
    of = wanted(endpoint, client, request.dbName, request.tblName, request.validWriteIdList, request.catName)
    spec = request.filterSpec
    filters = [] if spec is None else spec.filters or []
    if spec is None or spec.filterMode is None or not filters:
        found: Sequence[StoredPartition] = of.all()
    elif spec.filterMode == _MODES.BY_NAMES:
        found = of.by_names(filters)
    elif spec.filterMode == _MODES.BY_VALUES:
        found = of.matching(filters)
    else:
        found = of.by_filters(*filters)
    return ttypes.GetPartitionsResponse(partitionSpec=_specs(of, found))


@call("get_partition_values")
def get_partition_values(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return one row for each partition: the values of the requested keys. The rows have the requested order.

    If the request has a filter, only partitions that match the filter have a row. Equal rows are returned once, unless
    ``applyDistinct`` is false.
    """
    request = args.request
    of = wanted(endpoint, client, request.dbName, request.tblName, request.validWriteIdList, request.catName)
    places = {key.name.lower(): place for place, key in enumerate(of.stored().partition_keys)}

    def chosen(fields: Sequence[Any]) -> list[int]:
        unknown = next((each.name for each in fields if (each.name or "").lower() not in places), None)
        if unknown is not None:
            raise ttypes.MetaException(f"Table {request.dbName}.{request.tblName} has no partition key {unknown}")
        return [places[each.name.lower()] for each in fields]

    wanted_keys, order = chosen(request.partitionKeys or ()), chosen(request.partitionOrder or ())
    found = sorted(of.by_filters(request.filter) if request.filter else of.all(), key=lambda each: each.name)
    if order:
        by_order = [(tuple(each.values[place] for place in order), each) for each in found]
        by_order.sort(key=lambda each: each[0], reverse=request.ascending is False)
        found = [each for _, each in by_order]
    rows = [tuple(each.values[place] for place in wanted_keys) for each in found]
    if request.applyDistinct is not False:
        rows = list(dict.fromkeys(rows))
    rows = list(limited(rows, request.maxParts))
    return ttypes.PartitionValuesResponse([ttypes.PartitionValuesRow(list(row)) for row in rows])
