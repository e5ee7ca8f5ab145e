"""Statements as Python objects, with their kinds, and with the objects that they read and write.

The reader makes the statements, and the session runs them. Positions count characters from 0 in the user's text, end
excluded. A chapter is a module that defines statements.
"""

from __future__ import annotations

from types import ModuleType

from airflow_hivex.core.model.identifiers import *
from airflow_hivex.core.model.literals import Literal as Literal
from airflow_hivex.core.parser.statements import (
    base,
    clusters,
    columns,
    compactions,
    copies,
    databases,
    functions,
    links,
    maintenance,
    partitions,
    rows,
    session_objects,
    show,
    tables,
    transactions,
    views,
)
from airflow_hivex.core.parser.statements.base import *
from airflow_hivex.core.parser.statements.clusters import *
from airflow_hivex.core.parser.statements.columns import *
from airflow_hivex.core.parser.statements.compactions import *
from airflow_hivex.core.parser.statements.copies import *
from airflow_hivex.core.parser.statements.databases import *
from airflow_hivex.core.parser.statements.functions import *
from airflow_hivex.core.parser.statements.links import *
from airflow_hivex.core.parser.statements.maintenance import *
from airflow_hivex.core.parser.statements.partitions import *
from airflow_hivex.core.parser.statements.queries import *
from airflow_hivex.core.parser.statements.rows import *
from airflow_hivex.core.parser.statements.session_objects import *
from airflow_hivex.core.parser.statements.show import *
from airflow_hivex.core.parser.statements.tables import *
from airflow_hivex.core.parser.statements.transactions import *
from airflow_hivex.core.parser.statements.views import *

CHAPTERS: tuple[ModuleType, ...] = (
    clusters,
    databases,
    show,
    links,
    tables,
    partitions,
    columns,
    views,
    functions,
    rows,
    session_objects,
    transactions,
    compactions,
    copies,
    maintenance,
)
"""The modules that define the statements."""


def statements_of(chapter: ModuleType) -> tuple[type[base.Statement], ...]:
    """Return the statements that a chapter defines, in their order."""
    return tuple(
        kind
        for kind in vars(chapter).values()
        if isinstance(kind, type) and issubclass(kind, base.Statement) and kind.__module__ == chapter.__name__
    )
