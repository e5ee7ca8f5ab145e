"""Errors of parameters and connections."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.model.secrets import hide


class SettingsError(HivexError, pep249.ProgrammingError):
    """A hive.* parameter cannot be used as given."""

    code = "SETTINGS"


class UnknownSettingError(SettingsError):
    """The parameter does not exist."""

    code = "UNKNOWN_SETTING"
    name: str
    suggestions: Sequence[str] = ()

    def _describe(self) -> str:
        hint = f" Did you mean {' or '.join(self.suggestions)}?" if self.suggestions else ""
        return f"There is no setting {self.name!r}.{hint}"


class InvalidSettingError(SettingsError):
    """The parameter exists, its value is of the wrong type or out of range."""

    code = "INVALID_SETTING"
    name: str
    value: object
    reason: str

    def __init__(self, name: str, value: object, reason: str) -> None:
        problem = f"{name} has no value" if value is None else f"{name} = {value!r} is not usable"
        # Any object may be given, also one that cannot be pickled.
        kept = value if value is None or isinstance(value, bool | int | float) else hide(str(value))
        self.name, self.value, self.reason = name, kept, reason
        super().__init__(f"Setting {problem}: {reason}.")


class InvalidClusterPropertiesError(SettingsError):
    """hive.cluster.properties is malformed or incomplete."""

    code = "INVALID_CLUSTER_PROPERTIES"
    reason: str
    cluster: str | None = None

    def _describe(self) -> str:
        where = f", cluster {self.cluster!r}" if self.cluster is not None else ""
        return (
            f"hive.cluster.properties{where}: {self.reason}. Expected JSON such as "
            '{"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}.'
        )


class InvalidConnectionError(SettingsError):
    """An Airflow connection does not describe a metastore, or does not lead to the Spark of a cluster."""

    code = "INVALID_CONNECTION"
    sentence = "Connection {conn_id!r} is not usable: {reason}."
    conn_id: str
    reason: str
