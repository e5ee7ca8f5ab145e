"""Tables: columns, partitions, copies, directories and links."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from airflow_hivex.core.model.pages import PageRequest
from airflow_hivex.plugins.page.documents import answer, document, page, page_request
from airflow_hivex.plugins.page.warehouses import Warehouse

router = APIRouter()
Wanted = Annotated[PageRequest, Depends(page_request)]
Name = Annotated[str, Query(min_length=1, max_length=128)]
_MOST_PROPERTIES = 200


@router.get("/tables")
def list_tables(
    metastore: Warehouse, wanted: Wanted, database: Annotated[str | None, Query(max_length=128)] = None
) -> JSONResponse:
    """Return a page of tables and views."""
    return answer(page(metastore.catalog_listing.tables(wanted, database or None), document))


@router.get("/table")
def read_table(metastore: Warehouse, database: Name, table: Name) -> JSONResponse:
    """Return a table: its columns, properties, copies and links."""
    found = metastore.catalog.get_table(database, table)
    links = [] if found.is_view else metastore.links.of_table(found.database, found.name)
    shown: dict[str, Any] = {
        "database": found.database,
        "table": found.name,
        "type": found.type.value,
        "owner": found.owner,
        "comment": found.comment,
        "format": found.storage.format,
        "location": None if found.is_view else found.storage.primary.location,
        "view_text": found.view_original_text,
        "columns": [{"name": each.name, "type": each.type, "comment": each.comment} for each in found.columns],
        "partition_keys": [
            {"name": each.name, "type": each.type, "comment": each.comment} for each in found.partition_keys
        ],
        "properties": dict(sorted(found.parameters.items())[:_MOST_PROPERTIES]),
        "links": [
            {"namespace": each.name.database, "link": each.name.in_database, "type": each.type} for each in links
        ],
    }
    return answer(shown)


@router.get("/table/copies")
def list_copies(metastore: Warehouse, database: Name, table: Name) -> JSONResponse:
    """Return the clusters that hold a table, and how much of it."""
    copies = metastore.catalog_listing.copies(database, table)
    return answer({"rows": [{**document(each), "is_current": each.is_current} for each in copies]})


@router.get("/table/partitions")
def list_partitions(metastore: Warehouse, wanted: Wanted, database: Name, table: Name) -> JSONResponse:
    """Return a page of the partitions of a table."""
    return answer(page(metastore.catalog_listing.partitions(database, table, wanted), document))


@router.get("/table/directories")
def list_directories(
    metastore: Warehouse,
    wanted: Wanted,
    database: Name,
    table: Name,
    partition: Annotated[str | None, Query(max_length=2000)] = None,
) -> JSONResponse:
    """Return a page of the registered directories of a table or partition."""
    found = metastore.catalog_listing.directories(database, table, wanted, partition or None)
    return answer(page(found, document))
