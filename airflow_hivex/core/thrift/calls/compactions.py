"""Calls about compactions. Workers of Hive are refused: only workers of this project compact."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.compaction.history import CompactionFilter
from airflow_hivex.core.model.compaction import Compaction, CompactionResponse, CompactionType, to_milliseconds
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import Client, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint

_TYPES = {1: CompactionType.MINOR, 2: CompactionType.MAJOR, 3: CompactionType.REBALANCE}
_NUMBERS = {kind: number for number, kind in _TYPES.items()} | {CompactionType.ABORT_CLEANUP: 4}


@call("compact")
def compact(endpoint: Endpoint, _client: Client, args: Any) -> None:
    """Request a compaction."""
    _request(endpoint, args.rqst)


@call("compact2")
def compact2(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Request a compaction, and return its id."""
    found = _request(endpoint, args.rqst)
    known = found
    if found.in_the_way is not None:
        # Hive also returns the conflicting compaction.
        entry = endpoint.services.compactor.history.get(found.in_the_way)
        known = CompactionResponse(entry.id, entry.state)
    return ttypes.CompactionResponse(
        id=known.id,
        state=known.state.shown,
        accepted=found.is_accepted,
        errormessage=found.message,
    )


def _request(endpoint: Endpoint, request: Any) -> CompactionResponse:
    if request.type not in _TYPES:
        raise ttypes.MetaException(f"{request.type} is not a valid type of a compaction that can be requested")
    return endpoint.services.compactor.request(
        read_database(request.dbname).name,
        request.tablename or "",
        request.partitionname or None,
        _TYPES[request.type],
        pool=getattr(request, "poolName", None),
        properties=dict(request.properties or {}),
    )


@call("show_compact")
def show_compact(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the compactions of the queue and of the history."""
    found = endpoint.services.compactor.show(CompactionFilter())
    return ttypes.ShowCompactResponse(compacts=[_element(each) for each in found])


def _element(entry: Compaction) -> Any:
    return ttypes.ShowCompactResponseElement(
        dbname=entry.database,
        tablename=entry.table,
        partitionname=entry.partition,
        type=_NUMBERS[entry.type],
        state=entry.state.shown,
        workerid=entry.worker_id,
        start=to_milliseconds(entry.started_at),
        runAs=entry.run_as,
        hightestTxnId=entry.highest_write_id or 0,
        metaInfo=None,
        endTime=to_milliseconds(entry.ended_at),
        hadoopJobId=entry.job_id or "None",
        id=entry.id,
        errorMessage=entry.error_message,
        enqueueTime=to_milliseconds(entry.enqueued_at),
        workerVersion=entry.worker_version,
        initiatorId=entry.initiator_id,
        initiatorVersion=entry.initiator_version,
        cleanerStart=to_milliseconds(entry.cleaner_started_at),
    )


@call("find_next_compact", "find_next_compact2")
def find_next_compact(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return no work, because only workers of this project compact."""
    return ttypes.OptionalCompactionInfoStruct(ci=None)


@call("mark_cleaned", "mark_compacted", "mark_failed", "mark_refused")
def refuse_worker(_endpoint: Endpoint, _client: Client, _args: Any) -> None:
    """Refuse a worker of Hive."""
    raise ttypes.MetaException(
        "Compactions are done by workers of airflow_hivex; a worker of Hive cannot take or end one"
    )
