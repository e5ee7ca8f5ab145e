"""The routes of tables: columns, partitions, copies, directories, commits and links."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.plugins.page.access import Warehouse
from airflow_hivex.plugins.page.documents import answer, document, page, page_request

router = APIRouter()
Wanted = Annotated[PageRequest, Depends(page_request)]
Name = Annotated[str, Query(min_length=1, max_length=128)]
_MOST_PROPERTIES = 200
_MOST_LINKS = 200
_HOUR_MS = 3_600_000


class Period(enum.Enum):
    """The unit of time for which the page sums up commits. The page shows 48 hours or 30 days."""

    HOUR = "hour"
    DAY = "day"

    @property
    def length_ms(self) -> int:
        """Return the length of the period in milliseconds."""
        return _HOUR_MS if self is Period.HOUR else 24 * _HOUR_MS

    @property
    def number(self) -> int:
        """Return the number of periods that the page shows."""
        return 48 if self is Period.HOUR else 30


@router.get("/tables")
def list_tables(
    metastore: Warehouse, wanted: Wanted, database: Annotated[str | None, Query(max_length=128)] = None
) -> JSONResponse:
    """Return one page of the list of tables and views."""
    return answer(page(metastore.catalog_listing.tables(wanted, database or None), document))


@router.get("/table")
def read_table(metastore: Warehouse, database: Name, table: Name) -> JSONResponse:
    """Return the columns, properties, copies and links of a table."""
    found = metastore.catalog.get_table(database, table)
    links = [] if found.is_view else metastore.links.of_table(found)
    links_out = metastore.links.show(found.database)
    shown: dict[str, Any] = {
        "database": found.database,
        "table": found.name,
        "type": found.type.value,
        "owner": found.owner,
        "comment": found.comment,
        "format": found.storage.format,
        "location": None if found.is_view else found.storage.primary.location,
        "is_transactional": found.is_transactional,
        "view_text": found.view_original_text,
        "columns": [{"name": each.name, "type": each.type, "comment": each.comment} for each in found.columns],
        "partition_keys": [
            {"name": each.name, "type": each.type, "comment": each.comment} for each in found.partition_keys
        ],
        "properties": dict(sorted(found.parameters.items())[:_MOST_PROPERTIES]),
        "links": [
            {"namespace": each.name.database, "link": each.name.in_database, "type": each.type}
            for each in links[:_MOST_LINKS]
        ],
        "links_in_all": len(links),
        "links_out": [
            {"link": each.name.in_database, "source": ".".join(each.source), "type": each.type}
            for each in links_out[:_MOST_LINKS]
        ],
        "links_out_in_all": len(links_out),
    }
    return answer(shown)


@router.get("/table/copies")
def list_copies(metastore: Warehouse, database: Name, table: Name) -> JSONResponse:
    """Return the copies of a table with their size and lag. Each cluster has at most one copy."""
    copies = metastore.catalog_listing.copies(database, table)
    return answer({"rows": [{**document(each), "is_current": each.is_current} for each in copies]})


@router.get("/table/commits")
def list_commits(metastore: Warehouse, database: Name, table: Name, by: Period = Period.DAY) -> JSONResponse:
    """Return the sums of the commits to a table for each period with commits, and the starts of all shown periods."""
    last = metastore.services.clock() // by.length_ms
    first = last - by.number + 1
    found = metastore.catalog_listing.commits(database, table, by.length_ms, first * by.length_ms)
    starts = [to_datetime(number * by.length_ms) for number in range(first, last + 1)]
    return answer({"by": by.value, "starts": starts, "rows": found})


@router.get("/table/partitions")
def list_partitions(metastore: Warehouse, wanted: Wanted, database: Name, table: Name) -> JSONResponse:
    """Return one page of the list of a table's partitions."""
    return answer(page(metastore.catalog_listing.partitions(database, table, wanted), document))


@router.get("/table/directories")
def list_directories(
    metastore: Warehouse,
    wanted: Wanted,
    database: Name,
    table: Name,
    partition: Annotated[str | None, Query(max_length=2000)] = None,
) -> JSONResponse:
    """Return one page of the list of a table's or partition's registered directories."""
    found = metastore.catalog_listing.directories(database, table, wanted, partition or None)
    return answer(page(found, document))
