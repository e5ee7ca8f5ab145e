"""Calls about the server and the connection itself."""

from __future__ import annotations

import re
import time
from typing import Any

from airflow_hivex.core.errors import UnknownSettingError
from airflow_hivex.core.errors.secrets import remember
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.clients import CLUSTER_KEY, Client, user_and_cluster, without_password
from airflow_hivex.core.thrift.endpoint import Endpoint

_ALIVE = 2
_STARTED_S = int(time.time())
_VERSION = "3.0"
"""The version of the interface. Hive 2 to 4 report this version."""


@call("getStatus")
def get_status(_endpoint: Endpoint, _client: Client, _args: Any) -> int:
    """Return the status ALIVE of the fb303 interface."""
    return _ALIVE


@call("getStatusDetails")
def get_status_details(_endpoint: Endpoint, _client: Client, _args: Any) -> str:
    """Return no details, as Hive does."""
    return "alive"


@call("getName")
def get_name(_endpoint: Endpoint, _client: Client, _args: Any) -> str:
    """Return the name of the server."""
    return "airflow_hivex metastore"


@call("getVersion")
def get_version(_endpoint: Endpoint, _client: Client, _args: Any) -> str:
    """Return the version of the interface."""
    return _VERSION


@call("getCounters")
def get_counters(_endpoint: Endpoint, _client: Client, _args: Any) -> dict[str, int]:
    """Return no counters, because the HTTP page ``/metrics`` has them."""
    return {}


@call("getCounter")
def get_counter(_endpoint: Endpoint, _client: Client, _args: Any) -> int:
    """Return zero, as fb303 does for an unknown counter."""
    return 0


@call("aliveSince")
def alive_since(_endpoint: Endpoint, _client: Client, _args: Any) -> int:
    """Return the time at which the process started, in seconds since 1970."""
    return _STARTED_S


@call("getOptions")
def get_options(_endpoint: Endpoint, _client: Client, _args: Any) -> dict[str, str]:
    """Return no options."""
    return {}


@call("shutdown", "flushCache")
def do_nothing(_endpoint: Endpoint, _client: Client, _args: Any) -> None:
    """Do nothing, since a client of Hive sends ``shutdown`` when it closes its connection."""


@call("set_ugi")
def set_ugi(endpoint: Endpoint, client: Client, args: Any) -> list[str]:
    """Set the user of the connection. The name ``alice@c2`` sets the user ``alice`` and the cluster ``c2``."""
    given, secret = without_password(args.user_name or "")
    remember([secret])
    user, cluster = user_and_cluster(given)
    if cluster is not None:
        if cluster in endpoint.services.clusters:
            client.user_cluster = cluster
        else:
            # A Kerberos principal has a realm after its @.
            cluster = None
    if not client.is_authenticated:
        client.user = user if cluster is not None else given
    client.groups = tuple(args.group_names or ())
    return [given, *client.groups]


_KEPT = {
    "metastore.try.direct.sql": "true",
    "metastore.try.direct.sql.ddl": "true",
    "metastore.client.capability.check": "true",
    "metastore.client.socket.timeout": "600s",
    "metastore.disallow.incompatible.col.type.changes": "true",
    "metastore.partition.name.whitelist.pattern": "",
}
"""Hive's defaults of the configuration keys that a client is allowed to set. The keys have no effect here."""
_DURATION = re.compile(r"\d+\s*[a-z]*", re.IGNORECASE)


@call("setMetaConf")
def set_meta_conf(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Set ``hivex.cluster``, or a configuration key of Hive, for the connection. As in Hive, refuse unknown keys."""
    if args.key == CLUSTER_KEY:
        if args.value:
            endpoint.services.clusters.get(args.value)
        client.configuration[CLUSTER_KEY] = args.value or ""
        return
    key, value = _kept_key(args.key), args.value or ""
    if key.endswith(".timeout") and not _DURATION.fullmatch(value):
        raise ttypes.MetaException(f"{value!r} is not a valid duration of {args.key}; give one such as 600s")
    if key.endswith(".pattern") and value:
        raise ttypes.MetaException(f"{args.key} cannot be set: values of partitions are not restricted here")
    client.configuration[key] = value


@call("getMetaConf")
def get_meta_conf(_endpoint: Endpoint, client: Client, args: Any) -> str:
    """Return the cluster of the connection, or the value of a configuration key of Hive."""
    if args.key == CLUSTER_KEY:
        return client.cluster() or ""
    key = _kept_key(args.key)
    return client.configuration.get(key, _KEPT[key])


def _kept_key(key: str | None) -> str:
    """Return a configuration key of Hive without the prefix ``hive.``, which clients of Hive 2 send.

    Raises:
        MetaException: clients cannot set the key.
    """
    found = (key or "").removeprefix("hive.")
    if found not in _KEPT:
        known = ", ".join([CLUSTER_KEY, *(f"hive.{each}" for each in _KEPT)])
        raise ttypes.MetaException(f"Invalid configuration key {key}; these can be set: {known}")
    return found


_WAREHOUSE = ("metastore.warehouse.dir", "metastore.warehouse.external.dir")
_CONFIGURATION = ("hive.", "metastore.", "datanucleus.", "hdfs.", "mapred.")


@call("get_config_value")
def get_config_value(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Return the folder of the warehouse or the value of a setting.

    A setting without a value gives the client's default.
    """
    name = args.name
    if name is None:
        return args.defaultValue
    if not name.startswith(_CONFIGURATION):
        raise ttypes.ConfigValSecurityException(f"For security reasons, the config key {name} cannot be accessed")
    if name.removeprefix("hive.") in _WAREHOUSE:
        clusters = endpoint.services.clusters
        cluster = clusters.get(client.cluster() or clusters.default)
        # Each database has a folder below the warehouse's; Hive's default database shares its folder.
        return cluster.uri(endpoint.catalog.get_database("default").location.rpartition("/")[0])
    try:
        value = endpoint.services.settings[name]
    except UnknownSettingError:
        return args.defaultValue
    if value is None or isinstance(value, dict) or "properties" in name:
        return args.defaultValue
    return str(value).lower() if isinstance(value, bool) else str(value)


@call("get_metastore_db_uuid")
def get_metastore_db_uuid(endpoint: Endpoint, _client: Client, _args: Any) -> str:
    """Return the id of the metastore's database. All servers of this database return the same id."""
    import uuid

    return str(uuid.uuid5(uuid.NAMESPACE_URL, endpoint.services.store.name))


@call("get_catalogs")
def get_catalogs(endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return the names of the catalogs: Hive's catalog, and one catalog for each cluster."""
    return ttypes.GetCatalogsResponse(names=["hive", *endpoint.services.clusters])


@call("get_catalog")
def get_catalog(endpoint: Endpoint, _client: Client, args: Any) -> Any:
    """Return a catalog. The catalog ``hive`` stands for all clusters; any other name is the name of a cluster."""
    name = args.catName.name
    clusters = endpoint.services.clusters
    if name != "hive" and name not in clusters:
        raise ttypes.NoSuchObjectException(f"No catalog {name}")
    cluster = clusters.get(clusters.default if name == "hive" else name)
    described = "all clusters" if name == "hive" else f"cluster {name}"
    catalog = ttypes.Catalog(name=name, description=described, locationUri=cluster.shown_filesystem)
    return ttypes.GetCatalogResponse(catalog=catalog)


@call("partition_name_has_valid_characters")
def partition_name_has_valid_characters(_endpoint: Endpoint, _client: Client, args: Any) -> bool:
    """Return whether the values of a partition can be stored."""
    valid = all("\0" not in value for value in args.part_vals or ())
    if not valid and args.throw_exception:
        raise ttypes.MetaException("A partition value has a NUL character, which cannot be stored")
    return valid


@call("get_role_names", "get_all_token_identifiers", "get_master_keys")
def no_names(_endpoint: Endpoint, _client: Client, _args: Any) -> list[str]:
    """Return an empty list, since roles and tokens are not stored here."""
    return []


@call("list_roles", "list_privileges")
def no_grants(_endpoint: Endpoint, _client: Client, _args: Any) -> list[Any]:
    """Return no privileges, since grants are not stored here."""
    return []


@call("get_role_grants_for_principal")
def get_role_grants(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return no grants, since roles are not stored here."""
    return ttypes.GetRoleGrantsForPrincipalResponse(principalGrants=[])


@call("get_principals_in_role")
def get_principals_in_role(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return no grants, since roles are not stored here."""
    return ttypes.GetPrincipalsInRoleResponse(principalGrants=[])


@call("get_privilege_set")
def get_privilege_set(_endpoint: Endpoint, _client: Client, _args: Any) -> Any:
    """Return no privileges."""
    return ttypes.PrincipalPrivilegeSet(userPrivileges={}, groupPrivileges={}, rolePrivileges={})
