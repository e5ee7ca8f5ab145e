"""The page of the events of the notification log, from the docstrings of their types."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from scripts.reference_pages.markdown import cell, table

_INTRODUCTION = """\
# Events of the notification log

<!-- Written by `make format` from airflow_hivex/core/events/notification_log.py. -->

Each change of the warehouse records an event in its database transaction. Ids of events rise by one, without gaps for a
reader; an event that depends on another one has the higher id.

```python
events = metastore.notification_log.events(after=0, limit=100)
for event in events:
    print(event.id, event.time, event.type.name, event.database, event.table, event.txn_id, event.message)
```

- An event has `id`, `time` (the clock of the metastore database), `type`, `database`, `table`, `txn_id` and `message`.
- The message of an event of a table also has `table_id` and `valid_write_ids`, the write id list of the table after the
  change, null for an external one.
- Events are kept for `metastore.event.db.listener.timetolive`, a day. A reader that requests purged ones gets an
  `EventsPurgedError`: it reads the catalog again, and continues after `current_event_id()`.

[Start DAGs by commits](../how-to/events.md) describes the events that Airflow gets.
"""


class UndescribedEventError(Exception):
    """A type of event has no docstring below it."""


def page() -> str:
    """Return the page."""
    texts = described()
    if missing := [each.name for each in EventType if each.name not in texts]:
        raise UndescribedEventError(f"no text stands below {missing}")
    rows = [_row(each, *texts[each.name].partition("Message: ")) for each in EventType]
    return f"{_INTRODUCTION}\n" + table(("type", "case", "message"), rows)


def _row(kind: EventType, case: str, _: str, message: str) -> tuple[str, ...]:
    return (f"`{kind.value}`", cell(case), cell(message).removesuffix("."))


def described() -> dict[str, str]:
    """Return the texts of the types of events by their names."""
    module = ast.parse(inspect.getsource(notification_log))
    body = next(each for each in module.body if isinstance(each, ast.ClassDef) and each.name == EventType.__name__).body
    return {
        member.targets[0].id: text.value.value
        for member, text in pairwise(body)
        if isinstance(member, ast.Assign)
        and isinstance(member.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
