"""The description of this provider for Airflow."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description in Airflow's form (its ``provider_info.schema.json``)."""
    return {
        "package-name": "airflow-provider-hivex",
        "name": "Hivex",
        "description": "A transactional Hive warehouse over several Spark clusters.",
        "integrations": [
            {
                "integration-name": "Hivex",
                "external-doc-url": "https://airflow-hivex.readthedocs.io/",
                "tags": ["software"],
            }
        ],
        "hooks": [
            {
                "integration-name": "Hivex",
                "python-modules": ["airflow_hivex.hooks.hivex", "airflow_hivex.hooks.warehouse"],
            }
        ],
        "notifications": ["airflow_hivex.notifications.attention.HivexAttentionNotifier"],
        "cli": ["airflow_hivex.cli.airflow_command.get_commands"],
        "task-decorators": [{"name": "hivex_sql", "class-name": "airflow_hivex.decorators.hivex_sql.hivex_sql_task"}],
        "asset-uris": [
            {
                "schemes": ["hivex"],
                "handler": "airflow_hivex.assets.hivex.sanitize_uri",
                "factory": "airflow_hivex.assets.hivex.create_asset",
                "to_openlineage_converter": "airflow_hivex.assets.hivex.convert_asset_to_openlineage",
            }
        ],
        "operators": [
            {
                "integration-name": "Hivex",
                "python-modules": [
                    "airflow_hivex.operators.asset_events",
                    "airflow_hivex.operators.compaction",
                    "airflow_hivex.operators.compaction_worker",
                    "airflow_hivex.operators.copy_into",
                    "airflow_hivex.operators.copying",
                    "airflow_hivex.operators.links",
                    "airflow_hivex.operators.namespaces",
                    "airflow_hivex.operators.page_links",
                    "airflow_hivex.operators.query",
                    "airflow_hivex.operators.query_deferral",
                    "airflow_hivex.operators.query_output",
                    "airflow_hivex.operators.replication",
                    "airflow_hivex.operators.transaction",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": "Hivex",
                "python-modules": [
                    "airflow_hivex.sensors.capacity",
                    "airflow_hivex.sensors.compaction",
                    "airflow_hivex.sensors.links",
                    "airflow_hivex.sensors.replication",
                    "airflow_hivex.sensors.transactions",
                ],
            }
        ],
        "triggers": [
            {
                "integration-name": "Hivex",
                "python-modules": [
                    "airflow_hivex.triggers.capacity",
                    "airflow_hivex.triggers.commits",
                    "airflow_hivex.triggers.compaction",
                    "airflow_hivex.triggers.copying",
                    "airflow_hivex.triggers.links",
                    "airflow_hivex.triggers.replication",
                    "airflow_hivex.triggers.query",
                    "airflow_hivex.triggers.threads",
                    "airflow_hivex.triggers.transactions",
                ],
            }
        ],
        "extra-links": [
            f"airflow_hivex.operators.page_links.{name}"
            for name in ("HivexCompactionsLink", "HivexStatementsLink", "HivexTableLink", "HivexTransactionsLink")
        ],
        "plugins": [
            {
                "name": "hivex_commit_events",
                "plugin-class": "airflow_hivex.plugins.commit_events.HivexCommitEventsPlugin",
            },
            {"name": "hivex", "plugin-class": "airflow_hivex.plugins.hivex_plugin.HivexPlugin"},
        ],
        "config": {
            "hivex": {
                "description": "Options of the warehouse.",
                "options": {
                    "metrics": {
                        "description": (
                            "Whether the housekeeping sends the numbers of the metastore as metrics: open "
                            "transactions, waiting locks, compactions by state, bytes of namespaces, the lag of "
                            "copies, the cache."
                        ),
                        "version_added": None,
                        "type": "boolean",
                        "example": "False",
                        "default": "True",
                    },
                    "local_jobtracker": {
                        "description": (
                            "How the one cluster of the embedded warehouse, which is there without a connection "
                            "hivex_default, reaches Spark: local[n] starts it in each task, sc://host:port is a "
                            "Spark Connect server. auto is the server that 'hivex spark start' runs for the same user "
                            "on the same machine, and local[*] without such a server."
                        ),
                        "version_added": None,
                        "type": "string",
                        "example": "auto",
                        "default": "local[*]",
                    },
                },
            }
        },
        "connection-types": [
            {
                "connection-type": "hivex",
                "hook-class-name": "airflow_hivex.hooks.hivex.HivexHook",
                "hook-name": "Hivex Metastore",
                "ui-field-behaviour": {
                    "hidden-fields": ["extra"],
                    "relabeling": {
                        "host": "Metastore database host",
                        "port": "Metastore database port",
                        "schema": "Metastore database name",
                        "login": "Metastore database user",
                        "password": "Metastore database password",
                    },
                    "placeholders": {
                        "host": "db.example.com",
                        "port": "5432",
                        "schema": "hivex, or the path of the file for sqlite",
                    },
                },
                "conn-fields": _connection_fields(),
            }
        ],
    }


def _connection_fields() -> dict[str, Any]:
    text = ["string", "null"]
    return {
        "metastore_url": {
            "label": "Metastore URL",
            "description": (
                "URL of the metastore database, instead of host, port, name, user and password: "
                "sqlite:////var/lib/hivex/metastore.db or postgresql://user@db.example.com/hivex. "
                "Leave the password out of it: only the password field is masked."
            ),
            "schema": {"type": text},
        },
        "dialect": {
            "label": "Dialect",
            "description": "The kind of database when no metastore URL is given.",
            "schema": {"type": "string", "enum": ["postgresql", "sqlite"], "default": "postgresql"},
        },
        "cluster_properties": {
            "label": "Cluster properties",
            "description": (
                'hive.cluster.properties: JSON text such as {"c1": {"filesystem": "file:///data/c1", '
                '"jobtracker": "local[2]"}}, or the path of a file with it, such as /etc/hivex/clusters.json. '
                "May be left out with SQLite: one local cluster next to its file then holds all data."
            ),
            "schema": {"type": text, "format": "multiline"},
        },
        "default_cluster": {
            "label": "Default cluster",
            "description": "hive.default.cluster.name, such as c1; may be left out where there is one cluster.",
            "schema": {"type": text},
        },
        "use_default_cluster": {
            "label": "Use default cluster",
            "description": "hive.use.default.cluster: run every statement on the default cluster.",
            "schema": {"type": ["boolean", "null"], "default": False},
        },
        "database": {
            "label": "Database",
            "description": "The current database of a new session, such as sales; default if empty.",
            "schema": {"type": text},
        },
        "settings": {
            "label": "Settings",
            "description": 'Any hive.* parameters, as a JSON object such as {"hive.txn.timeout": 300}.',
            "schema": {"type": text, "format": "multiline"},
        },
    }
