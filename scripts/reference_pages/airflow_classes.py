"""The page of operators, sensors and functions for DAG files, from their signatures and docstrings.

The modules are parsed and not imported, so that the page is written without Airflow.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scripts.reference_pages.markdown import cell, paragraphs, table

_PACKAGE = Path(__file__).parents[2] / "airflow_hivex"

# Each section with its modules, and the page that shows how to use them.
_SECTIONS = {
    "Queries": (("operators/query.py",), "../how-to/query-operator.md"),
    "Files": (("operators/copy_into.py",), "../how-to/load-files.md"),
    "Transactions over tasks": (("operators/transaction.py",), "../how-to/transactions-over-tasks.md"),
    "Links": (("operators/links.py",), "../how-to/namespaces.md"),
    "Namespaces": (("operators/namespaces.py",), "../how-to/move-a-namespace.md"),
    "Replication": (("operators/replication.py",), "../how-to/replicate.md"),
    "Compaction": (("operators/compaction.py", "operators/compaction_worker.py"), "../how-to/compaction.md"),
    "Sensors": (
        tuple(f"sensors/{name}.py" for name in ("transactions", "replication", "links", "compaction", "capacity")),
        "../how-to/sensors.md",
    ),
    "Events": (("triggers/commits.py", "assets/hivex.py"), "../how-to/events.md"),
    "Notifications": (("notifications/attention.py",), "../how-to/metrics-and-notifications.md"),
    "DAGs": (
        tuple(f"dags/{name}.py" for name in ("compaction", "housekeeping", "replication", "on_commit")),
        "../how-to/compaction.md",
    ),
}
# Bases of the classes of one module each, and the functions for DAG files.
_BASES = ("operators/copying.py", "operators/asset_events.py")
_FUNCTIONS = re.compile(r"\w+_dag|watched_table|create_asset")
_INTRODUCTION = """\
# Operators, sensors and functions for DAG files

<!-- Written by `make format` from the signatures and docstrings of airflow_hivex. -->

The arguments of Airflow's own classes, such as `task_id`, `retries` and `pool`, are not listed. Arguments with an
asterisk are templated. These are common to several classes and functions, which name them below their own:

"""
_HEADER = ("argument", "default", "meaning")
_TEMPLATED = " (templated)"
_COMMON = 3
"""The number of classes and functions from which on an argument that means the same stands in one table."""
_SHORTER = {
    "WarehouseHook.default_conn_name": '"hivex_default"',
    "DEFAULT_MAX_ROWS": "1000",
    'conf.getboolean("operators", "default_deferrable", fallback=False)': "`[operators] default_deferrable`",
}


class UndocumentedArgumentError(Exception):
    """The docstring of a class or function does not describe the arguments that it has."""


class _Argument(NamedTuple):
    name: str
    default: str


class _Row(NamedTuple):
    """An argument in a table."""

    name: str
    default: str
    meaning: str
    is_templated: bool

    @property
    def facts(self) -> tuple[str, ...]:
        return self[:3]

    @property
    def marked(self) -> str:
        return f"`{self.name}`" + r"\*" * self.is_templated


@dataclass(frozen=True, slots=True)
class _Entry:
    """A class or function of a DAG file."""

    name: str
    module: str
    node: ast.ClassDef | ast.FunctionDef
    lines: tuple[str, ...]


def page() -> str:
    """Return the page."""
    classes = {entry.name: entry for path in _modules() for entry in _entries(path) if _is_class(entry)}
    sections = {
        title: [(entry, _rows(entry, classes)) for path in paths for entry in _entries(path) if _is_shown(entry)]
        for title, (paths, _) in _SECTIONS.items()
    }
    counted = Counter(row.facts for entries in sections.values() for _, rows in entries for row in rows)
    common = {facts for facts, count in counted.items() if count >= _COMMON and facts[1] != "required"}
    parts = [_INTRODUCTION + table(_HEADER, sorted((f"`{name}`", *others) for name, *others in common))]
    for title, entries in sections.items():
        parts.append(f"## {title}\n\nSee [how to use them]({_SECTIONS[title][1]}).\n")
        parts += [_section(entry, rows, common) for entry, rows in entries]
    return "\n".join(parts)


def _modules() -> list[str]:
    return [*(path for paths, _ in _SECTIONS.values() for path in paths), *_BASES]


def _entries(path: str) -> list[_Entry]:
    text = (_PACKAGE / path).read_text()
    module = f"airflow_hivex.{path.removesuffix('.py').replace('/', '.')}"
    lines = tuple(text.splitlines())
    return [
        _Entry(node.name, module, node, lines)
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]


def _is_class(entry: _Entry) -> bool:
    return isinstance(entry.node, ast.ClassDef)


def _is_shown(entry: _Entry) -> bool:
    """Return whether users name it in DAG files: no base of others, and no function of a module's own."""
    if _is_class(entry):
        return entry.name.startswith("Hivex") and entry.name != "HivexSensor"
    return _FUNCTIONS.fullmatch(entry.name) is not None


def _section(entry: _Entry, rows: list[_Row], common: set[tuple[str, ...]]) -> str:
    text, _ = _split(ast.get_docstring(entry.node) or "")
    parts = [f"### {entry.name}\n", f"`{entry.module}.{entry.name}`\n", f"{paragraphs(text)}\n"]
    if own := [(row.marked, *row.facts[1:]) for row in rows if row.facts not in common]:
        parts.append(table(_HEADER, own))
    if shared := [row.marked for row in rows if row.facts in common]:
        parts.append(f"Also {', '.join(shared)}.\n")
    return "\n".join(parts)


def _rows(entry: _Entry, classes: dict[str, _Entry]) -> list[_Row]:
    """Return the arguments of a class or function, in the order of its docstring."""
    _, described = _split(ast.get_docstring(entry.node) or "")
    defaults = dict(_arguments(entry, classes))
    if sorted(defaults) != sorted(described):
        raise UndocumentedArgumentError(f"{entry.module}.{entry.name}: {sorted(set(defaults) ^ set(described))}")
    texts = {name: cell(text) for name, text in described.items()}
    return [
        _Row(name, defaults[name], text.removesuffix(_TEMPLATED), text.endswith(_TEMPLATED))
        for name, text in texts.items()
    ]


def _split(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring, and the descriptions of its arguments."""
    text, *fields = re.split(r"^:(?=\w+[ :])", docstring, flags=re.MULTILINE)
    described: dict[str, str] = {}
    for each in fields:
        match = re.match(r"param (\w+):(.*)", each, re.DOTALL)
        if match is not None:
            described[match[1]] = match[2]
    return text, described


def _arguments(entry: _Entry, classes: dict[str, _Entry]) -> list[_Argument]:
    """Return the arguments of a function, or of a class with those of its bases that are ours."""
    if isinstance(entry.node, ast.FunctionDef):
        return _of_function(entry, entry.node)
    own = next(
        (each for each in entry.node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None
    )
    arguments = [] if own is None else _of_function(entry, own)
    if own is not None and own.args.kwarg is None:
        return arguments
    known = {argument.name for argument in arguments} | _not_taken(entry.node)
    for base in entry.node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            arguments += [each for each in _arguments(classes[base.id], classes) if each.name not in known]
    return arguments


def _not_taken(node: ast.ClassDef) -> set[str]:
    """Return the arguments of bases that a class refuses: those in its tuple ``NOT_TAKEN``."""
    found = (
        each.value for each in node.body if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "NOT_TAKEN"
    )
    return {name for value in found if value is not None for name in ast.literal_eval(value)}


def _of_function(entry: _Entry, function: ast.FunctionDef) -> list[_Argument]:
    listed = function.args
    positional = [each.arg for each in listed.args if each.arg != "self"]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(listed.defaults))
    found = [*zip(positional, [*defaults, *listed.defaults], strict=True)]
    found += [*zip((each.arg for each in listed.kwonlyargs), listed.kw_defaults, strict=True)]
    if listed.kwarg is not None and listed.kwarg.arg != "kwargs":
        found.append((listed.kwarg.arg, None))
    return [_Argument(name, _shown(entry, default, name, function)) for name, default in found]


def _shown(entry: _Entry, default: ast.expr | None, name: str, function: ast.FunctionDef) -> str:
    if default is None:
        return "optional" if function.args.kwarg is not None and name == function.args.kwarg.arg else "required"
    text = ast.get_source_segment("\n".join(entry.lines), default) or ""
    text = _SHORTER.get(text, text)
    return text if text.startswith("`") else f"`{text}`"
