"""SET and RESET of the settings of a session, and of the configuration of its jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.configuration import has_no_effect
from airflow_hivex.core.model.secrets import hide_in_properties
from airflow_hivex.core.model.snapshots import MaxLag
from airflow_hivex.core.model.statements import ResetConfiguration, ResetSetting, SetConfiguration, SetSetting
from airflow_hivex.core.settings import MAX_LAG, MAX_LAG_COMMITS, Settings, describe
from airflow_hivex.core.statements.context import Result, StatementContext

log = logging.getLogger(__name__)

_UNDEFINED = "<undefined>"


def max_lag_of(settings: Settings, given: Mapping[str, object]) -> MaxLag:
    """Return the lag that queries accept: what is given, else what the metastore says.

    Raises:
        InvalidSettingError: a given value is not valid.
    """
    checked = settings.with_overrides({name: value for name, value in given.items() if value is not None})
    seconds, commits = checked[MAX_LAG], checked[MAX_LAG_COMMITS]
    return MaxLag(None if seconds is None else round(seconds * 1000), commits)


def set_setting(context: StatementContext, statement: SetSetting) -> Result:
    """SET: the value holds for the statements of the session that follow; without a value it is shown."""
    state = context.session
    if statement.value is not None:
        _take(context, statement.name, {statement.name: statement.value})
    shown = state.max_lag.ms if statement.name == MAX_LAG else state.max_lag.commits
    if shown is not None and statement.name == MAX_LAG:
        return Result(["name", "value"], [(statement.name, f"{shown / 1000:g}s")])
    return Result(["name", "value"], [(statement.name, None if shown is None else str(shown))])


def reset_setting(context: StatementContext, statement: ResetSetting) -> Result:
    """RESET: the value of the metastore holds again."""
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
    """SET: the value goes to Spark with each later job of the session. Without a value it is shown, as Spark does.

    Raises:
        InvalidOperationError: it is a setting of the metastore that has another value.
    """
    objects, name = context.session.objects, statement.name
    if name is None:
        found = {**objects.configuration, **objects.without_effect}
        return Result(["key", "value"], [*sorted(hide_in_properties(found).items())])
    if statement.value is not None:
        if has_no_effect(name):
            _check_without_effect(context.services.settings, name, statement.value)
            objects.without_effect[name] = statement.value
        else:
            objects.configuration[name] = statement.value
    cluster = context.services.clusters.get(context.session.cluster or context.services.clusters.default)
    found = {**cluster.spark_conf, **objects.without_effect, **objects.configuration}
    return Result(["key", "value"], [(name, hide_in_properties({name: found.get(name, _UNDEFINED)})[name])])


def reset_configuration(context: StatementContext, statement: ResetConfiguration) -> Result:
    """RESET: the configuration of the cluster holds again, for one parameter or for all."""
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
    """Take a parameter of Hive that changes nothing, and tell so in the log.

    Raises:
        InvalidOperationError: it is a setting of the metastore that has another value.
    """
    if name in settings:
        asked = settings.with_overrides({name: value})
        if not describe(name).instead and asked[name] != settings[name]:
            reason = f"it is a setting of the metastore, {settings[name]} for all sessions; change it there"
            raise InvalidOperationError("SET", name, reason)
        return
    log.info("SET %s = %s has no effect here", name, value)
