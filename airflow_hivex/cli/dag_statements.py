"""The statements of the HivexQueryOperators of a DAG file, in the order of the DAG, with rendered templates."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.namespaces.closure import NamedStatement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from airflow.sdk import DAG

_ARGUMENTS = ("sql", "parameters", "cluster", "database")


@dataclass(frozen=True, slots=True)
class UnreadableStatement:
    """A task whose statements cannot be known before the DAG runs; ``reason`` says why."""

    name: str
    reason: str


def statements_of(file: Path) -> Iterator[NamedStatement | UnreadableStatement]:
    """Yield the statements of a DAG file. The file is executed, as by Airflow's DAG processor.

    Templates that need only dates, params and macros are rendered as in a DAG run of today. If a template needs more,
    an UnreadableStatement is yielded.

    Raises:
        InvalidParametersError: the file does not exist, cannot be run, or has no DAG.
    """
    from airflow.dag_processing.dagbag import DagBag

    # Airflow finds no DAG at a path that does not exist.
    if not file.exists():
        raise InvalidParametersError(f"The DAG file {file} does not exist.")

    # Airflow logs to the standard output, which is for the result of the command.
    with redirect_stdout(sys.stderr):
        bag = DagBag(str(file))
        for path, error in bag.import_errors.items():
            raise InvalidParametersError(f"The DAG file {path} cannot be read: {error}")
        if not bag.dags:
            raise InvalidParametersError(f"Airflow finds no DAG in {file}.")
        for dag in bag.dags.values():
            yield from _of_dag(dag)


def _of_dag(dag: DAG) -> Iterator[NamedStatement | UnreadableStatement]:
    from airflow_hivex.operators.query import HivexQueryOperator

    for task in dag.topological_sort():
        name = f"{dag.dag_id}.{getattr(task, 'task_id', '')}"
        if isinstance(task, HivexQueryOperator):
            yield from _rendered(name, task, dag, {each: getattr(task, each) for each in _ARGUMENTS})
        elif issubclass(_class_of_mapped(task), HivexQueryOperator):
            yield from _of_mapped(name, task, dag)


def _class_of_mapped(task: Any) -> type:
    found = getattr(task, "operator_class", None)
    return found if isinstance(found, type) else object


def _of_mapped(name: str, task: Any, dag: DAG) -> Iterator[NamedStatement | UnreadableStatement]:
    """Yield the statements of each instance of a mapped task.

    If only a run knows the values over which the task is mapped, yield an UnreadableStatement.
    """
    from itertools import product

    given = task.expand_input.value
    if isinstance(given, list) and all(isinstance(each, dict) for each in given):
        parts: list[dict[str, Any]] = given
    elif isinstance(given, dict) and all(isinstance(values, list | tuple) for values in given.values()):
        parts = [dict(zip(given, values, strict=True)) for values in product(*given.values())]
    else:
        yield UnreadableStatement(name, "it is mapped over values that are known in a run only")
        return
    for part in parts:
        arguments = {**task.partial_kwargs, **part}
        yield from _rendered(name, task, dag, {each: arguments.get(each) for each in _ARGUMENTS})


def _rendered(
    name: str, task: Any, dag: DAG, arguments: Mapping[str, Any]
) -> Iterator[NamedStatement | UnreadableStatement]:
    from jinja2 import TemplateError

    context = _context_of_today(task, dag)
    try:
        sql, parameters, cluster, database = (
            task.render_template(arguments[each], context, task.get_template_env(dag)) for each in _ARGUMENTS
        )
    except KeyError as error:
        # The template needs the result of another task.
        yield UnreadableStatement(name, f"it is known in a run only, as it needs {error}")
        return
    except TemplateError as error:
        yield UnreadableStatement(name, f"its template cannot be rendered without a run: {error}")
        return
    except Exception as error:
        yield UnreadableStatement(name, f"its template fails without a run: {type(error).__name__}: {error}")
        return
    texts = [sql] if isinstance(sql, str) else sql
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        yield UnreadableStatement(name, "its sql is known in a run only")
        return
    # One session runs them all. A comment may end a text.
    yield NamedStatement(name, "\n;\n".join(texts), database or None, cluster or None, parameters or {})


def _context_of_today(task: Any, dag: DAG) -> dict[str, Any]:
    """Return the part of a run's context that is known without a run: dates, params and macros."""
    import pendulum
    from airflow.sdk.execution_time import macros

    begin = pendulum.today("UTC")
    end = begin.add(days=1)
    stamp = begin.isoformat()
    return {
        "dag": dag,
        "task": task,
        "macros": macros,
        "params": {name: _value(param) for name, param in {**dag.params, **(task.params or {})}.items()},
        "logical_date": begin,
        "data_interval_start": begin,
        "data_interval_end": end,
        "ds": begin.to_date_string(),
        "ds_nodash": begin.format("YYYYMMDD"),
        "ts": stamp,
        "ts_nodash": begin.format("YYYYMMDDTHHmmss"),
        "ts_nodash_with_tz": begin.format("YYYYMMDDTHHmmssZZ"),
        "run_id": f"scheduled__{stamp}",
    }


def _value(param: Any) -> Any:
    return getattr(param, "value", param)
