"""Calls that answer with partitions in groups, and with values of partition keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.model.objects import StoredPartition
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.partitions import Wanted, by_expression, limited, wanted
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client
from airflow_hivex.core.thrift.endpoint import Endpoint

_MODES = ttypes.PartitionFilterMode


def _specs(of: Wanted, found: Sequence[StoredPartition], most: int | None = -1) -> list[Any]:
    """Return partitions as one group, in which each is whole; no group without partitions, as in Hive."""
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
    """Return the partitions that a filter leaves."""
    of = wanted(endpoint, client, args.db_name, args.tbl_name)
    return _specs(of, of.by_filters(args.filter), args.max_parts)


@call("get_partitions_spec_by_expr")
def get_partitions_spec_by_expr(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions of an expression, as ``get_partitions_by_expr`` does."""
    request = args.req
    of = wanted(endpoint, client, request.dbName, request.tblName, request.validWriteIdList, request.catName)
    found, is_certain = by_expression(of, request.expr)
    specs = _specs(of, found, request.maxParts)
    return ttypes.PartitionsSpecByExprResult(partitionsSpec=specs, hasUnknownPartitions=not is_certain)


@call("get_partitions_with_specs")
def get_partitions_with_specs(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the partitions of a filter; they are whole, whatever fields the client asks for."""
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
    """Return the values of some partition keys, in the order that the client wants."""
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
