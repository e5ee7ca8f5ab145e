from __future__ import annotations

import logging
import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import airflow_hivex
from airflow_hivex.core.errors import InvalidSettingError, UnknownSettingError
from airflow_hivex.core.settings import Settings, describe
from airflow_hivex.core.settings_table import IGNORED, SETTINGS, Ignored, Setting


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_that_may_be_given(setting: Any) -> None:
    assert Settings({setting.name: setting.default})[setting.name] == setting.default
    assert setting.description
    assert not setting.description.endswith(".")


def test_every_name_belongs_to_one_parameter() -> None:
    names = [name for setting in SETTINGS for name in (setting.name, *setting.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("hive.txn.timeout", 300),
        ("metastore.txn.timeout", 300),
        ("hive.max.open.txns", 100_000),
        ("hive.txn.max.open.batch", 1000),
        ("hive.txn.retrysnapshot.max.count", 5),
        ("hive.repl.txn.timeout", 11),
        ("hive.compactor.delta.pct.threshold", 0.1),
        ("hive.compactor.worker.timeout", 86_400),
        ("metastore.compactor.initiator.on", False),
        ("metastore.compactor.history.retention.attempted", 2),
        ("metastore.cached.rawstore.max.cache.memory", 2**30),
        ("metastore.cached.rawstore.cached.object.whitelist", (".*",)),
        ("hive.metastore.event.db.listener.timetolive", 1),
        ("hive.use.default.cluster", False),
        ("hive.default.cluster.name", None),
        ("hive.cluster.properties", None),
    ],
)
def test_defaults_are_hives(name: str, default: object) -> None:
    assert Settings()[name] == default


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("hive.txn.timeout", 5, 5),
        ("hive.txn.timeout", "300", 300),
        ("hive.txn.timeout", "300s", 300),
        ("hive.txn.timeout", " 5 min ", 300),
        ("hive.txn.timeout", "12h", 43_200),
        ("hive.txn.timeout", "7d", 604_800),
        ("hive.txn.timeout", "2000ms", 2),
        ("hive.compactor.wait.timeout", "5min", 300_000),
        ("hive.compactor.aborted.txn.time.threshold", "90min", 1.5),
        ("hive.compactor.aborted.txn.time.threshold", -1, -1.0),
        ("metastore.compactor.initiator.failed.retry.time", "12h", 0.5),
        ("hive.compactor.delta.pct.threshold", "0.25", 0.25),
        ("hive.compactor.delta.pct.threshold", 1, 1.0),
        ("hive.txn.xlock.write", "FALSE", False),
        ("hive.txn.xlock.write", True, True),
        ("metastore.cached.rawstore.max.cache.memory", "1Gb", 2**30),
        ("metastore.cached.rawstore.max.cache.memory", "512mb", 2**29),
        ("metastore.cached.rawstore.max.cache.memory", -1, -1),
        ("metastore.cached.rawstore.catalogs", "hive, other", ("hive", "other")),
        ("metastore.cached.rawstore.catalogs", "", ()),
        ("metastore.cached.rawstore.catalogs", ["hive"], ("hive",)),
        ("hive.cluster.properties", {"c1": {}}, {"c1": {}}),
        ("hive.cluster.properties", Path("/x.json"), Path("/x.json")),
    ],
)
def test_values_are_typed_in_the_declared_unit(name: str, value: object, typed: object) -> None:
    found = Settings({name: value})[name]
    assert found == typed
    assert type(found) is type(typed)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("hive.txn.timeout", 0, "at least 1 s"),
        ("hive.txn.timeout", "0", "at least 1 s"),
        ("hive.txn.timeout", "", "a whole number of s"),
        ("hive.txn.timeout", "soon", "a whole number of s"),
        ("hive.txn.timeout", "5 parsecs", "parsecs is not a unit"),
        ("hive.txn.timeout", "5Gb", "gb is not a unit"),
        ("hive.txn.timeout", "1500ms", "not a whole number of s"),
        ("hive.txn.timeout", 1.5, "a whole number of s"),
        ("hive.txn.timeout", True, "a whole number of s"),
        ("hive.txn.timeout", None, "a whole number of s"),
        ("hive.txn.timeout", "9" * 5000, "a whole number of s"),
        ("hive.max.open.txns", "5s", "s is not a unit"),
        ("hive.txn.retrysnapshot.max.count", 21, "from 1 to 20"),
        ("metastore.compactor.fetch.size", 99, "from 100 to 5000"),
        ("hive.compactor.wait.timeout", 2000, "at least 2001 ms"),
        ("hive.compactor.delta.pct.threshold", float("nan"), "a number is expected"),
        ("hive.compactor.delta.pct.threshold", "nan", "a number is expected"),
        ("hive.compactor.delta.pct.threshold", "1e999", "too large"),
        ("hive.txn.xlock.write", "yes", "true or false"),
        ("hive.txn.xlock.write", 1, "true or false"),
        ("hivex.lock.matrix", 5, "a text is expected"),
        ("metastore.cached.rawstore.catalogs", [1], "a list of texts"),
        ("hive.cluster.properties", 5, "a mapping, JSON text or a file"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value: object, says: str) -> None:
    with pytest.raises(InvalidSettingError, match=says) as caught:
        Settings({name: value})
    assert caught.value.name == name


def test_an_unknown_name_is_refused_with_close_ones() -> None:
    with pytest.raises(UnknownSettingError, match=r"no setting 'hive\.txn\.timeut'.*hive\.txn\.timeout"):
        Settings({"hive.txn.timeut": 5})
    with pytest.raises(UnknownSettingError):
        Settings()["nonsense"]
    assert "nonsense" not in Settings()


def test_both_names_of_a_parameter_mean_the_same() -> None:
    for given in ("hive.txn.timeout", "metastore.txn.timeout"):
        settings = Settings({given: 7})
        assert settings["hive.txn.timeout"] == settings["metastore.txn.timeout"] == 7
        assert "hive.txn.timeout" in settings


@pytest.mark.parametrize(
    "names", [("hive.txn.timeout", "metastore.txn.timeout"), ("metastore.txn.timeout", "hive.txn.timeout")]
)
def test_the_metastore_name_counts_where_both_are_given(names: tuple[str, str]) -> None:
    values = {"hive.txn.timeout": 7, "metastore.txn.timeout": 8}
    assert Settings({name: values[name] for name in names})["hive.txn.timeout"] == 8


def test_overriding_makes_new_settings() -> None:
    before = Settings({"metastore.txn.timeout": 7, "hive.max.open.txns": 9})
    after = before.with_overrides({"hive.txn.timeout": "8s"})
    assert (before["hive.txn.timeout"], after["hive.txn.timeout"], after["hive.max.open.txns"]) == (7, 8, 9)


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(TypeError):
        settings["hive.txn.timeout"] = 5  # type: ignore[index]


def test_settings_survive_pickling() -> None:
    settings = Settings({"hive.txn.timeout": 7})
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_iterating_lists_every_parameter_once() -> None:
    assert list(Settings()) == [setting.name for setting in SETTINGS]
    assert len(Settings()) == len(list(Settings()))
    assert describe("hive.txn.timeout").unit == "s"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_parameter_is_read(setting: Setting) -> None:
    assert _is_read(setting)


@pytest.mark.parametrize("ignored", IGNORED, ids=lambda ignored: ignored.name)
def test_what_has_no_effect_says_so(ignored: Ignored) -> None:
    assert not _is_read(ignored)
    assert ignored.instead
    name = ignored.name.replace("<pool>", "etl")
    settings = Settings({name: "whatever"})
    assert name not in settings
    with pytest.raises(UnknownSettingError):
        settings[name]


def _is_read(setting: Setting | Ignored) -> bool:
    names = "|".join(re.escape(name) for name in (setting.name, *setting.aliases))
    return re.search(f"[\"'](?:{names})[\"']", _code()) is not None


@cache
def _code() -> str:
    package = Path(airflow_hivex.__file__).parent
    return "\n".join(path.read_text() for path in package.rglob("*.py") if path.name != "settings_table.py")


def test_a_setting_without_effect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    name = "hive.compactor.worker.once-logged.threads"
    with caplog.at_level(logging.WARNING):
        Settings({name: 3})
        Settings({name: 3})
        # A value that holds here anyway is not logged, nor is a parameter that counts.
        Settings({"hive.support.concurrency": True, "hive.txn.timeout": 10})
    assert caplog.messages == [
        f"{name} = 3 has no effect: the schedule of the compaction DAG decides, or the caller of the compactor"
    ]
