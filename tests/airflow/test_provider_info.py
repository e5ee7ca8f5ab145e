from __future__ import annotations

import importlib
import json
import logging
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_hivex import __version__
from airflow_hivex.get_provider_info import get_provider_info
from airflow_hivex.hooks.configuration import EXTRAS


@pytest.fixture(scope="module")
def providers_manager() -> Any:
    from airflow.providers_manager import ProvidersManager

    return ProvidersManager()


def test_info_follows_airflows_schema() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_installed_package_announces_the_provider() -> None:
    (entry_point,) = (
        entry for entry in entry_points(group="apache_airflow_provider") if entry.value.startswith("airflow_hivex.")
    )
    assert entry_point.load() is get_provider_info


def test_airflow_lists_the_provider(providers_manager: Any) -> None:
    assert providers_manager.providers["airflow-provider-hivex"].data["name"] == "Hivex"


def test_airflow_and_the_changelog_have_the_version_of_the_package(providers_manager: Any) -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    (newest, *_) = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    assert (providers_manager.providers["airflow-provider-hivex"].version, newest) == (__version__, __version__)


def test_airflow_finds_no_fault_while_it_looks_for_example_dags(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "True")
    with caplog.at_level(logging.ERROR, "airflow.dag_processing.bundles.manager"):
        DagBundlesManager()
    assert [record.getMessage() for record in caplog.records] == []


def test_every_module_of_the_info_can_be_imported() -> None:
    info = get_provider_info()
    modules = [
        *listed_modules(info),
        *(entry["hook-class-name"].rpartition(".")[0] for entry in info["connection-types"]),
    ]
    for module in modules:
        importlib.import_module(module)


def listed_modules(info: dict[str, Any]) -> list[str]:
    kinds = ("hooks", "operators", "sensors", "triggers")
    return [module for kind in kinds for entry in info[kind] for module in entry["python-modules"]]


def test_every_module_of_the_airflow_layer_is_listed() -> None:
    package = files("airflow_hivex")
    existing = {
        f"airflow_hivex.{kind}.{Path(str(module)).stem}"
        for kind in ("operators", "sensors", "triggers")
        for module in (package / kind).iterdir()
        if module.name.endswith(".py") and module.name != "__init__.py"
    }
    assert existing <= set(listed_modules(get_provider_info()))


def test_airflow_lists_the_triggers(providers_manager: Any) -> None:
    found = {trigger.trigger_class_name for trigger in providers_manager.trigger}
    assert {name for name in found if name.startswith("airflow_hivex")} == {
        "airflow_hivex.triggers.capacity",
        "airflow_hivex.triggers.commits",
        "airflow_hivex.triggers.compaction",
        "airflow_hivex.triggers.copying",
        "airflow_hivex.triggers.links",
        "airflow_hivex.triggers.query",
        "airflow_hivex.triggers.replication",
        "airflow_hivex.triggers.threads",
        "airflow_hivex.triggers.transactions",
    }


def test_airflow_knows_the_connection_type() -> None:
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    hook = ProvidersManagerTaskRuntime().hooks["hivex"]
    assert (hook.hook_class_name, hook.connection_id_attribute_name, hook.connection_testable) == (
        "airflow_hivex.hooks.hivex.HivexHook",
        "hivex_conn_id",
        True,
    )


def test_commands_of_airflow_list_the_provider_and_its_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    from airflow.cli.cli_parser import get_parser

    parser = get_parser()

    def run(*arguments: str) -> Any:
        options = parser.parse_args([*arguments, "--output", "json"])
        options.func(options)
        return json.loads(capsys.readouterr().out)

    (provider,) = run("providers", "get", "airflow-provider-hivex", "--full")
    assert "A transactional Hive warehouse" in str(provider)
    plugins = {each["name"]: each for each in run("plugins")}
    assert {"hivex", "hivex_commit_events"} <= set(plugins)
    assert "hivex-task" in str(plugins["hivex"])


def test_form_offers_exactly_the_extras_that_the_hook_reads(providers_manager: Any) -> None:
    (connection_type,) = get_provider_info()["connection-types"]
    assert set(connection_type["conn-fields"]) == set(EXTRAS)
    widgets = {name for name in providers_manager.connection_form_widgets if name.startswith("extra__hivex__")}
    assert widgets == {f"extra__hivex__{name}" for name in EXTRAS}


def test_every_default_of_the_form_fits_its_own_schema() -> None:
    (connection_type,) = get_provider_info()["connection-types"]
    for field in connection_type["conn-fields"].values():
        jsonschema.Draft7Validator.check_schema(field["schema"])
        if "default" in field["schema"]:
            jsonschema.validate(field["schema"]["default"], field["schema"])


def test_importing_the_airflow_layer_loads_neither_spark_nor_the_store() -> None:
    """A DAG file pays for its imports at every parse."""
    program = f"""
import importlib
import sys
import airflow.sdk
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator, TaskGroup, XComArg, conf, task
import airflow.triggers.base
before = set(sys.modules)
import airflow_hivex.get_provider_info
for module in {[each for each in listed_modules(get_provider_info()) if ".hooks." not in each]}:
    importlib.import_module(module)
print(sorted(name for name in sys.modules if name.startswith("airflow.providers.common.sql.hooks")))
for module in {listed_modules(get_provider_info())}:
    importlib.import_module(module)
added = set(sys.modules) - before
heavy = {{"pyspark", "sqlglot", "pyarrow", "pandas", "alembic", "fsspec", "sqlalchemy"}}
print(sorted(name for name in added if name.partition(".")[0] in heavy))
print(sorted(name for name in added if name.startswith("airflow_hivex.core.")))
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    common_sql, heavy, ours = finished.stdout.splitlines()[-3:]
    assert common_sql == "[]"
    assert heavy == "[]"
    assert "airflow_hivex.core.store" not in ours
    assert "airflow_hivex.core.parser" not in ours
