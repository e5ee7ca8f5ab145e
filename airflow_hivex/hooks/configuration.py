"""The arguments of ``Metastore.open``, read from the fields of an Airflow connection."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import conf

from airflow_hivex.core.errors import InvalidConnectionError

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION_TYPE = "hivex"
# No other field of the extra is read, so that a user who may edit a connection can set nothing else.
EXTRAS = (
    "metastore_url",
    "dialect",
    "cluster_properties",
    "default_cluster",
    "use_default_cluster",
    "database",
    "settings",
)
DIALECTS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The address of a metastore, and the options for opening it.

    ``clusters`` is a mapping, a JSON text or the path of a file. None means one local cluster. The folder of the local
    cluster is next to the database file of SQLite.
    """

    url: str = field(repr=False)
    clusters: Mapping[str, Any] | str | None = field(default=None, repr=False)
    default_cluster: str | None = None
    database: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def of_metastore(self) -> Mapping[str, Any]:
        """Return the settings with which the metastore is opened.

        The default of `hivex.load.paths` is empty. So by default LOAD DATA and COPY INTO read
        only files of the clusters.
        """
        return {"hivex.load.paths": [], **self.settings}

    @property
    def key(self) -> str:
        """Return a text that is equal for two configurations with the same metastore and options."""
        return json.dumps([self.url, self.clusters, self.default_cluster, self.settings], sort_keys=True, default=str)


def embedded_configuration() -> Configuration:
    """Return the configuration of a SQLite metastore with one local cluster, both under ``$AIRFLOW_HOME/hivex``.

    The folder is created if it does not exist.

    Airflow's option ``[hivex] local_jobtracker`` is the job tracker of the cluster.
    """
    jobtracker = conf.get("hivex", "local_jobtracker", fallback="").strip()
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().resolve() / "hivex"
    home.mkdir(parents=True, exist_ok=True)
    settings = {"hivex.local.jobtracker": jobtracker} if jobtracker else {}
    return Configuration(url=f"sqlite:///{home / 'metastore.db'}", settings=settings)


def from_connection(connection: Connection) -> Configuration:
    """Return the configuration that a connection of type ``hivex`` describes.

    :raises InvalidConnectionError: a field is missing, malformed or unknown, or contradicts another field
    """
    return _ConnectionReader(connection).read()


def _json_reason(error: Exception) -> str:
    # The errors hold the text, which may have secrets.
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


class _ConnectionReader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        if connection.conn_type != CONNECTION_TYPE:
            raise self._invalid(f"its type is {connection.conn_type!r}, expected {CONNECTION_TYPE!r}")
        self._extra = self._read_extra()

    def read(self) -> Configuration:
        settings = dict(self._object("settings"))
        use_default_cluster = self._boolean("use_default_cluster")
        if use_default_cluster is not None:
            settings.setdefault("hive.use.default.cluster", use_default_cluster)
        return Configuration(
            url=self._url(),
            clusters=self._clusters(),
            default_cluster=self._text("default_cluster"),
            database=self._text("database") or "default",
            settings=settings,
        )

    def _invalid(self, reason: str) -> InvalidConnectionError:
        return InvalidConnectionError(self._connection.conn_id, reason)

    def _read_extra(self) -> dict[str, Any]:
        # Connection.extra_dejson logs malformed JSON and returns an empty dict, which would
        # look like a connection without any field.
        try:
            extra = json.loads(self._connection.extra) if self._connection.extra else {}
        except (ValueError, RecursionError) as error:
            raise self._invalid(f"its extra is not JSON ({_json_reason(error)})") from None
        if not isinstance(extra, dict):
            raise self._invalid("its extra is not a JSON object")
        for name in extra:
            if name not in EXTRAS:
                near = difflib.get_close_matches(name, EXTRAS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(EXTRAS)}"
                raise self._invalid(f"its extra has an unknown field {name!r}; {hint}")
        return extra

    def _text(self, name: str) -> str | None:
        value = self._extra.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._invalid(f"{name} is {type(value).__name__}, expected text")
        return value.strip() or None

    def _boolean(self, name: str) -> bool | None:
        value = self._extra.get(name)
        if isinstance(value, str):
            # A connection that is written as a URI has text only.
            words = {"true": True, "false": False, "": None}
            if value.strip().lower() not in words:
                raise self._invalid(f"{name} is {value!r}, expected true or false")
            return words[value.strip().lower()]
        if value is None or isinstance(value, bool):
            return value
        raise self._invalid(f"{name} is {value!r}, expected true or false")

    def _object(self, name: str) -> Mapping[str, Any]:
        value = self._extra.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else None
            except (ValueError, RecursionError) as error:
                raise self._invalid(f"{name} is not JSON ({_json_reason(error)})") from None
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._invalid(f"{name} is not a JSON object")
        return value

    def _clusters(self) -> Mapping[str, Any] | str | None:
        value = self._extra.get("cluster_properties")
        if isinstance(value, str):
            return value.strip() or None
        if value is None or isinstance(value, dict):
            return value
        raise self._invalid("cluster_properties is neither a JSON object, nor JSON text, nor the path of a file")

    def _url(self) -> str:
        url = self._text("metastore_url")
        if url is None:
            return self._assembled_url()
        if self._connection.host:
            raise self._invalid("it has both metastore_url and a host; give one of them")
        if self._connection.schema:
            reason = "its schema names a database of PostgreSQL or a file of SQLite, which metastore_url names already"
            raise self._invalid(f"{reason}; for the current database of sessions write database into the extra")
        return url

    def _assembled_url(self) -> str:
        dialect = DIALECTS.get(self._text("dialect") or "postgresql")
        if dialect is None:
            raise self._invalid(f"dialect is {self._text('dialect')!r}, expected one of {', '.join(DIALECTS)}")
        connection = self._connection
        database = (connection.schema or "").strip()
        if dialect == "sqlite":
            if not database:
                raise self._invalid("with dialect sqlite the schema field holds the path of the database file")
            return f"sqlite:///{Path(database).expanduser()}"
        if not connection.host:
            raise self._invalid("there is neither metastore_url nor a host")
        if not database:
            raise self._invalid("there is a host, but no database name in the schema field")
        host = f"[{connection.host}]" if ":" in connection.host else connection.host
        port = f":{connection.port}" if connection.port else ""
        return f"{dialect}://{self._credentials()}{host}{port}/{database}"

    def _credentials(self) -> str:
        login, password = self._connection.login, self._connection.password
        if not login:
            return ""
        return quote(login, safe="") + (f":{quote(password, safe='')}" if password else "") + "@"
