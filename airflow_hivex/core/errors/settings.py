"""Errors of parameters and connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import ProgrammingError
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.model.secrets import hide

if TYPE_CHECKING:
    from collections.abc import Sequence


class SettingsError(HivexError, ProgrammingError):
    """A hive.* parameter cannot be used as given."""

    code = "SETTINGS"


class UnknownSettingError(SettingsError):
    """The parameter does not exist."""

    code = "UNKNOWN_SETTING"

    def __init__(self, name: str, suggestions: Sequence[str] = ()) -> None:
        hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        super().__init__(f"There is no setting {name!r}.{hint}", name, tuple(suggestions))
        self.name = name


class InvalidSettingError(SettingsError):
    """The parameter exists, its value is of the wrong type or out of range."""

    code = "INVALID_SETTING"

    def __init__(self, name: str, value: object, reason: str) -> None:
        problem = f"{name} has no value" if value is None else f"{name} = {value!r} is not usable"
        # Any object may be given, also one that cannot be pickled.
        kept = value if value is None or isinstance(value, bool | int | float) else hide(str(value))
        super().__init__(f"Setting {problem}: {reason}.", name, kept, reason)
        self.name = name
        self.value = kept


class InvalidClusterPropertiesError(SettingsError):
    """hive.cluster.properties is malformed or incomplete."""

    code = "INVALID_CLUSTER_PROPERTIES"

    def __init__(self, reason: str, cluster: str | None = None) -> None:
        where = f", cluster {cluster!r}" if cluster is not None else ""
        super().__init__(
            f"hive.cluster.properties{where}: {reason}. Expected JSON such as "
            '{"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}.',
            reason,
            cluster,
        )
        self.cluster = cluster


class InvalidConnectionError(SettingsError):
    """An Airflow connection does not describe a metastore, or does not lead to the Spark of a cluster."""

    code = "INVALID_CONNECTION"

    def __init__(self, conn_id: str, reason: str) -> None:
        super().__init__(f"Connection {conn_id!r} is not usable: {reason}.", conn_id, reason)
        self.conn_id = conn_id
        self.reason = reason
