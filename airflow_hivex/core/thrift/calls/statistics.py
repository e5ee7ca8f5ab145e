"""Calls about statistics of columns. For a transactional table, only ANALYZE writes the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from airflow_hivex.core.catalog.statistics import delete_column_statistics, select_statistics, store_statistics
from airflow_hivex.core.errors import InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.imports.hive_statistics import convert_statistics
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.objects import Column, StoredTable
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.calls.tables import check_writer, list_of
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

_EPOCH = date(1970, 1, 1)


def _read(
    endpoint: Endpoint, database: str, table: str | None, ids: str | None, partitions: Sequence[str] = ()
) -> tuple[StoredTable, dict[str | None, Statistics]]:
    """Return a pair: a table, and a dict from partition name to statistics. The name None means the whole table."""
    catalog = endpoint.services.catalog
    name = read_database(database).name
    stored = catalog.get_table(name, table or "", list_of(ids))
    names: dict[int | None, str | None] = {None: None}
    if partitions:
        found = catalog.get_partitions_by_names(name, stored.name, list(partitions))
        names |= {each.id: each.name for each in found}
    wanted = [each for each in names if each is not None]
    with endpoint.services.store.read() as connection:
        known = select_statistics(connection, stored, wanted)
    return stored, {names[key]: value for key, value in known.items() if key in names}


def _structures(table: StoredTable, found: Statistics | None, wanted: Sequence[str]) -> list[Any]:
    by_name = {column.name: column for column in table.columns}
    answers = []
    for name in wanted:
        column = by_name.get(name.lower())
        known = None if column is None or found is None else found.columns.get(column.in_files)
        if column is not None and known is not None:
            data = _data(column, known)
            if data is not None:
                answers.append(ttypes.ColumnStatisticsObj(colName=column.name, colType=column.type, statsData=data))
    return answers


def _data(column: Column, known: ColumnStatistics) -> Any | None:
    """Return a column's statistics in Hive's structure for its type, or None if Hive has no structure for the type."""
    kind = column.parsed_type
    if not isinstance(kind, Primitive):
        return None
    nulls, distinct, low, high = known.num_nulls, known.num_distinct or 0, known.low, known.high
    match kind.family:
        case Family.BOOLEAN:
            found = ttypes.BooleanColumnStatsData(known.num_true or 0, known.num_false or 0, nulls)
            return ttypes.ColumnStatisticsData(booleanStats=found)
        case Family.WHOLE:
            whole = [None if text is None else int(text) for text in (low, high)]
            return ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(*whole, nulls, distinct))
        case Family.FLOATING:
            floats = [None if text is None else float(text) for text in (low, high)]
            return ttypes.ColumnStatisticsData(doubleStats=ttypes.DoubleColumnStatsData(*floats, nulls, distinct))
        case Family.DECIMAL:
            exact = [_decimal(text) for text in (low, high)]
            return ttypes.ColumnStatisticsData(decimalStats=ttypes.DecimalColumnStatsData(*exact, nulls, distinct))
        case Family.TEXT:
            text = ttypes.StringColumnStatsData(known.longest or 0, known.average_length or 0.0, nulls, distinct)
            return ttypes.ColumnStatisticsData(stringStats=text)
        case Family.BINARY:
            binary = ttypes.BinaryColumnStatsData(known.longest or 0, known.average_length or 0.0, nulls)
            return ttypes.ColumnStatisticsData(binaryStats=binary)
        case Family.MOMENT if kind.name == "date":
            days = [None if t is None else ttypes.Date((date.fromisoformat(t) - _EPOCH).days) for t in (low, high)]
            return ttypes.ColumnStatisticsData(dateStats=ttypes.DateColumnStatsData(*days, nulls, distinct))
    return None


def _decimal(text: str | None) -> Any | None:
    if text is None:
        return None
    exponent = Decimal(text).as_tuple().exponent
    scale = -int(exponent) if isinstance(exponent, int) else 0
    unscaled = int(Decimal(text).scaleb(scale))
    size = (unscaled.bit_length() + 8) // 8
    return ttypes.Decimal(unscaled=unscaled.to_bytes(max(size, 1), "big", signed=True), scale=scale)


@call("get_table_statistics_req")
def get_table_statistics_req(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the statistics of the requested columns of a table. Columns without statistics are left out."""
    request = args.request
    table, found = _read(endpoint, request.dbName, request.tblName, request.validWriteIdList)
    return ttypes.TableStatsResult(tableStats=_structures(table, found.get(None), request.colNames or ()))


@call("get_partitions_statistics_req")
def get_partitions_statistics_req(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return, for each partition, the statistics of the requested columns. Columns without statistics are left out."""
    request = args.request
    names = list(request.partNames or ())
    table, found = _read(endpoint, request.dbName, request.tblName, request.validWriteIdList, names)
    answers = {
        name: structures
        for name, each in found.items()
        if name is not None and (structures := _structures(table, each, request.colNames or ()))
    }
    return ttypes.PartitionsStatsResult(partStats=answers)


@call("get_table_column_statistics")
def get_table_column_statistics(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the statistics of one column of a table."""
    table, found = _read(endpoint, args.db_name, args.tbl_name, None)
    return _of_column(table, found.get(None), args.col_name, None)


@call("get_partition_column_statistics")
def get_partition_column_statistics(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return the statistics of one column of a partition."""
    table, found = _read(endpoint, args.db_name, args.tbl_name, None, [args.part_name])
    known = next((each for name, each in found.items() if name is not None), None)
    return _of_column(table, known, args.col_name, args.part_name)


def _of_column(table: StoredTable, found: Statistics | None, column: str, partition: str | None) -> Any:
    structures = _structures(table, found, [column])
    if not structures:
        raise ttypes.NoSuchObjectException(f"Statistics for table {table.full_name} and column {column} do not exist")
    described = ttypes.ColumnStatisticsDesc(
        isTblLevel=partition is None, dbName=table.database, tableName=table.name, partName=partition
    )
    return ttypes.ColumnStatistics(statsDesc=described, statsObj=structures)


@call("update_table_column_statistics", "update_partition_column_statistics")
def update_column_statistics(endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Store statistics of columns of an external table."""
    _update(endpoint, args.stats_obj, None)
    return True


@call("update_table_column_statistics_req", "update_partition_column_statistics_req")
def update_column_statistics_req(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Store statistics of columns of an external table."""
    for each in args.req.colStats or ():
        _update(endpoint, each, args.req.validWriteIdList)
    return ttypes.SetPartitionsStatsResponse(result=True)


def _update(endpoint: Endpoint, hive: Any, ids: str | None) -> None:
    described = hive.statsDesc
    partition = None if described.isTblLevel else described.partName
    names = [] if partition is None else [partition]
    table, found = _read(endpoint, described.dbName, described.tableName, ids, names)
    _refuse_transactional(table)
    check_writer(endpoint, table, ids)
    if partition is not None:
        _partition_id(endpoint, table, partition)
    earlier = next((each for name, each in found.items() if (name is None) == (partition is None)), None)
    size = "0" if earlier is None else str(earlier.total_size)
    now = endpoint.services.clock()
    known = {each.name for each in table.columns}
    unknown = next((each.colName for each in hive.statsObj or () if (each.colName or "").lower() not in known), None)
    if unknown is not None:
        raise ttypes.MetaException(f"Table {table.full_name} has no column {unknown}")
    new = convert_statistics({"totalSize": size}, table.columns, hive.statsObj or (), now)
    if new is None:
        return
    if earlier is not None:
        new = Statistics(earlier.num_rows, earlier.num_files, earlier.total_size, None, now, new.columns)
    endpoint.services.store.write(
        lambda connection: store_statistics(connection, table, {partition: new}), name="statistics"
    )


def _refuse_transactional(table: StoredTable) -> None:
    if table.is_transactional:
        reason = "statistics of a transactional table come from ANALYZE of `hivex sql`"
        raise InvalidOperationError("A change of statistics", table.full_name, reason)


def _partition_id(endpoint: Endpoint, table: StoredTable, name: str) -> int:
    found = endpoint.services.catalog.get_partitions_by_names(table.database, table.name, [name])
    if not found:
        raise NoSuchPartitionError(table.database, table.name, name)
    return found[0].id


@call("delete_table_column_statistics")
def delete_table_column_statistics(endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Delete the statistics of one column, or of all columns, of an external table."""
    return _delete(endpoint, args, None)


@call("delete_partition_column_statistics")
def delete_partition_column_statistics(endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Delete the statistics of one column, or of all columns, of a partition of an external table."""
    return _delete(endpoint, args, args.part_name or "")


def _delete(endpoint: Endpoint, args: Any, partition: str | None) -> bool:
    table = endpoint.services.catalog.get_table(read_database(args.db_name).name, args.tbl_name or "")
    _refuse_transactional(table)
    partition_id = None if partition is None else _partition_id(endpoint, table, partition)
    name = None if not args.col_name else args.col_name.lower()
    column = next((each.in_files for each in table.columns if each.name == name), name)
    is_deleted = endpoint.services.store.write(
        lambda connection: delete_column_statistics(connection, table, partition_id, column), name="statistics"
    )
    if not is_deleted:
        of = "all columns" if name is None else f"column {name}"
        raise ttypes.NoSuchObjectException(f"Statistics for table {table.full_name} and {of} do not exist")
    return True
