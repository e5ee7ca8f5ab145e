"""The names of the pages, and the functions that write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scripts.reference_pages import airflow_classes, connection_fields, error_tree, event_types, metrics, syntax

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "operators.md": airflow_classes.page,
    "connection.md": connection_fields.page,
    "errors.md": error_tree.page,
    "events.md": event_types.page,
    "metrics.md": metrics.page,
    "syntax.md": syntax.page,
}
