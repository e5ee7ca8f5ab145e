"""SET and RESET of the settings of a session, and of the configuration of its jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.errors.secrets import hide_in_properties
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.configuration import (
    HIVEVAR,
    IGNORES_NONEXISTENT,
    has_no_effect,
    is_own_name,
    refusal_of_value,
)
from airflow_hivex.core.model.snapshots import MaxLag
from airflow_hivex.core.parser.statements import ResetConfiguration, ResetSetting, SetConfiguration, SetSetting
from airflow_hivex.core.settings import MAX_LAG, MAX_LAG_COMMITS, Settings, describe, without_effect

log = logging.getLogger(__name__)

_UNDEFINED = "<undefined>"


def max_lag_of(settings: Settings, given: Mapping[str, object]) -> MaxLag:
    """Return the greatest lag of copies that queries accept, from given values or else from the metastore's settings.

    Raises:
        InvalidSettingError: a given value is not valid.
    """
    checked = settings.with_overrides({name: value for name, value in given.items() if value is not None})
    seconds, commits = checked[MAX_LAG], checked[MAX_LAG_COMMITS]
    return MaxLag(None if seconds is None else round(seconds * 1000), commits)


def set_setting(context: StatementContext, statement: SetSetting) -> Result:
    """Run SET of the accepted lag of copies: change it for the rest of the session. Return the current value."""
    state = context.session
    if statement.value is not None:
        _take(context, statement.name, {statement.name: statement.value})
    shown = state.max_lag.ms if statement.name == MAX_LAG else state.max_lag.commits
    if shown is not None and statement.name == MAX_LAG:
        return Result(["name", "value"], [(statement.name, f"{shown / 1000:g}s")])
    return Result(["name", "value"], [(statement.name, None if shown is None else str(shown))])


def reset_setting(context: StatementContext, statement: ResetSetting) -> Result:
    """Run RESET of the accepted lag of copies: use the metastore's value again in this session."""
    _take(context, statement.name, {})
    return Result()


def _take(context: StatementContext, name: str, given: Mapping[str, object]) -> None:
    found = max_lag_of(context.services.settings, given)
    state = context.session
    if name == MAX_LAG:
        state.max_lag = replace(state.max_lag, ms=found.ms)
    else:
        state.max_lag = replace(state.max_lag, commits=found.commits)


def set_configuration(context: StatementContext, statement: SetConfiguration) -> Result:
    """Run SET of a Spark parameter: use its value in all later jobs of the session. Return the current value.

    Without a name, return all parameters. Parameters of Hive without an effect are only stored.

    Raises:
        InvalidOperationError: the metastore has another value of this setting, the name is that of an SQL variable, or
            jobs do not accept the value.
    """
    objects, name = context.session.objects, statement.name
    if name is None:
        found = {**objects.configuration, **objects.without_effect}
        found |= {f"{HIVEVAR}{each}": value for each, value in objects.texts.items()}
        if statement.shows_all:
            found = {**_of_the_metastore(context.services.settings), **_cluster(context).spark_conf, **found}
        return Result(["key", "value"], [*sorted(hide_in_properties(found).items())])
    if name.startswith(HIVEVAR):
        variable = name.removeprefix(HIVEVAR)
        if statement.value is not None:
            objects.texts[variable] = statement.value
        return _shown(name, objects.texts.get(variable, _UNDEFINED))
    if statement.value is not None:
        if name.lower() in objects.variables:
            reason = f"it is a variable of SQL here; SET VARIABLE {name} = ... gives it a value"
            raise InvalidOperationError("SET", name, reason)
        if has_no_effect(name) or is_own_name(name):
            _check_without_effect(context.services.settings, name, statement.value)
            objects.without_effect[name] = statement.value
        elif (refused := refusal_of_value(name, statement.value)) is not None:
            raise InvalidOperationError("SET", name, refused)
        else:
            objects.configuration[name] = statement.value
    found = {**_cluster(context).spark_conf, **objects.without_effect, **objects.configuration}
    return _shown(name, found.get(name, _UNDEFINED))


def _shown(name: str, value: str) -> Result:
    return Result(["key", "value"], [(name, hide_in_properties({name: value})[name])])


def _cluster(context: StatementContext) -> Cluster:
    return context.services.clusters.get(context.session.cluster or context.services.clusters.default)


def _of_the_metastore(settings: Settings) -> dict[str, str]:
    """Return a dict from setting to text for the settings of the metastore.

    The descriptions of clusters are left out, since they contain passwords.
    """
    return {
        name: ",".join(value)
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in settings.items()
        if value is not None and not isinstance(value, Mapping | Path) and describe(name).type != "properties"
    }


def reset_configuration(context: StatementContext, statement: ResetConfiguration) -> Result:
    """Run RESET of one Spark parameter, or of all values of the session: use the cluster's values again."""
    objects = context.session.objects
    for given in (objects.configuration, objects.without_effect):
        if statement.name is None:
            given.clear()
        else:
            given.pop(statement.name, None)
    if statement.name is None and context.session.transaction is None:
        context.session.max_lag = max_lag_of(context.services.settings, {})
    return Result()


def _check_without_effect(settings: Settings, name: str, value: str) -> None:
    """Accept a parameter of Hive that has no effect, and log that it has none.

    Raises:
        InvalidOperationError: the parameter is a setting of the metastore, and the metastore has another value.
    """
    if name in settings:
        asked = settings.with_overrides({name: value})
        if asked[name] != settings[name]:
            reason = f"it is a setting of the metastore, {settings[name]} for all sessions; change it there"
            raise InvalidOperationError("SET", name, reason)
        return
    if name != IGNORES_NONEXISTENT:
        ignored = without_effect(name)
        log.info("SET %s = %s has no effect%s", name, value, "" if ignored is None else f": {ignored.instead}")
