"""SET and RESET of the settings of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_hivex.core.model.snapshots import MaxLag
from airflow_hivex.core.model.statements import ResetSetting, SetSetting
from airflow_hivex.core.settings import MAX_LAG, MAX_LAG_COMMITS, Settings
from airflow_hivex.core.statements.context import Result, StatementContext


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
