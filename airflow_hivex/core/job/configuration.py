"""The SQL configuration of jobs, which gives a statement the same meaning in every Spark and for every user.

A setting of ``spark.sql`` is one of three kinds:

- *of ours*: jobs rely on it (``DEFAULT_CONF``, which a cluster's ``spark_conf`` can change, and ``FIXED_CONF``);
- *of speed*: it changes times or sizes, and never a value; the user's setting is used (``_OF_SPEED``);
- *of meaning*: all other settings, known or not, such as ``spark.sql.ansi.enabled`` and all of ``spark.sql.legacy``:
  the cluster's ``spark_conf`` is used, else Spark's default.

A setting ``spark.hadoop.<name>`` of a cluster is also set in the session, as ``<name>``: a Spark that has started for
another cluster, and a Spark Connect server, read and write files with it.

In a user's own Spark session, jobs change settings while they run, and restore them afterwards, except for those of
Hadoop, with which a DataFrame reads its files when it is computed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from airflow_hivex.core.job.functions import is_connect
from airflow_hivex.core.model.job_configuration import (
    DEFAULT_CONF,
    EXCLUDED_RULES,
    FIXED_CONF,
    NESTED_PUSHDOWN,
    TEXT_DEFAULTS,
)

# This rule computes the rows of VALUES, with the number of their task, before they are distributed to tasks: rows would
# be in the file of another bucket than the bucket in their ids, and Hive would not find their delete events.
_EXCLUDED_RULE = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"

READ_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""The options of this package's readers. Unlike settings of a session, they stay valid for a DataFrame."""

OWN_FILES_OPTIONS = {**READ_OPTIONS, "orc.force.positional.evolution": "false"}
"""The options of readers of files with row ids. Without them, a setting can make ORC match columns by position."""

# The settings that a DataFrame needs when it is computed, perhaps long after it was made.
_LASTING = (NESTED_PUSHDOWN, "spark.sql.legacy.javaCharsets")
_SQL, _HADOOP = "spark.sql.", "spark.hadoop."

_OF_SPEED = re.compile(
    r"spark\.sql\.(?:"
    r"adaptive\.(?!customCost|optimizer)|artifact\.|autoBroadcastJoinThreshold|broadcast|cache\.|cartesianProductExec|"
    r"catalog|cbo\.|classic\.|codegen\.|connect\.|debug\.|defaultCacheStorageLevel|defaultCatalog|error\.|event\.|"
    r"exchange\.|execution\.|extendedExplain|extensions|files\.(?:maxPartitionBytes|minPartitionNum)|globalTempDatabase|"
    r"hive\.|inMemoryColumnarStorage\.|inMemoryTableScanStatistics\.|join\.|leafNodeDefaultParallelism|"
    r"limit\.|max(?:Broadcast|Metadata|Plan|SinglePartition)|maven\.|metadataCacheTTL|"
    r"objectHashAggregate\.|optimizer\.(?!excludedRules|nestedPredicatePushdown)|"
    r"(?:orc|parquet)\.(?:columnar|enable\w*Vectorized|filterPushdown$|compression)|"
    r"(?:avro|csv|json)\.filterPushdown|pipelines\.|planChangeLog|planner\.|preemptive|pyspark\.|queryExecutionListeners|"
    r"redaction\.|repl\.|requireAllClusterKeys|session\.local|shuffle\.|shuffledHashJoin|shuffleDependency\.|sort|"
    r"sources\.(?:bucketing|parallelPartitionDiscovery|v2|useV1SourceList)|stackTraces|statistics\.|streaming\.|"
    r"subexpressionElimination\.|subquery\.|thrift|ui\.|uncached|warehouse\.dir|window|windowExec"
    r")"
)


@dataclass(slots=True)
class _Pins:
    """The number of running jobs of a session, their configuration, and the user's values of the changed settings."""

    conf: Mapping[str, str]
    jobs: int = 0
    before: dict[str, str | None] = field(default_factory=dict)


_changed = threading.Condition()
_pins: WeakKeyDictionary[SparkSession, _Pins] = WeakKeyDictionary()
_configured: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()


def configure(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Configure a session that only this package uses, for jobs with a cluster's ``conf``."""
    # Each key costs two calls of the JVM, so a session is configured again only if values differ.
    if _configured.get(spark) == conf:
        return
    _change(spark, conf)
    _configured[spark] = dict(conf)


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Configure a user's own session while a job runs, and restore its settings afterwards.

    Other threads of the user see the changes meanwhile. A job waits until all jobs with another configuration have
    ended in this session. The call reads all settings of the session.
    """
    with _changed:
        _changed.wait_for(lambda: spark not in _pins or _pins[spark].conf == conf)
        before = _change(spark, conf)
        pins = _pins.setdefault(spark, _Pins(dict(conf)))
        for key, value in before.items():
            # Concurrent jobs share the changes; the last job restores the user's values.
            pins.before.setdefault(key, value)
        pins.jobs += 1
    try:
        yield
    finally:
        with _changed:
            pins.jobs -= 1
            if pins.jobs == 0:
                del _pins[spark]
                try:
                    _restore(spark, pins.before)
                finally:
                    _changed.notify_all()


def _change(spark: SparkSession, conf: Mapping[str, str]) -> dict[str, str | None]:
    """Set the configuration of a job, and return a dict from changed setting to earlier value.

    If Spark refuses a value, the earlier values are restored.
    """
    now = dict(spark.conf.getAll)
    hadoop = {key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(_HADOOP)}
    found = {key: value for key, value in now.items() if key.startswith(_SQL)}
    wanted: dict[str, str | None] = {
        key: conf.get(key) for key in found if key not in conf and _OF_SPEED.match(key) is None
    }
    wanted |= {
        **DEFAULT_CONF,
        **conf,
        **dict.fromkeys(TEXT_DEFAULTS),
        **FIXED_CONF,
        EXCLUDED_RULES: _excluded(conf, found),
    }
    others = {key: value for key, value in wanted.items() if found.get(key) != value}
    # Other settings were fixed when the application started.
    changed = {key: others[key] for key in _modifiable(spark, others)}
    changed |= {key: value for key, value in hadoop.items() if now.get(key) != value}
    before = {key: found.get(key) for key in changed}
    try:
        _set(spark, changed)
    except Exception:
        # Spark has refused a value.
        _set(spark, before)
        raise
    return before


def _restore(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    _set(spark, {key: value for key, value in before.items() if key.startswith(_SQL) and key not in _LASTING})


def _modifiable(spark: SparkSession, keys: Iterable[str]) -> list[str]:
    """Return the settings among ``keys`` that can be changed in a running session."""
    if not is_connect(spark):
        return [key for key in keys if spark.conf.isModifiable(key)]
    from pyspark.sql.connect.proto.base_pb2 import ConfigRequest

    asked = ConfigRequest.IsModifiable(keys=list(keys))
    answer = _call(spark, ConfigRequest.Operation(is_modifiable=asked)) if asked.keys else None
    return [] if answer is None else [key for key, is_modifiable in answer.pairs if is_modifiable == "true"]


def _set(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    """Set the configuration of a session; None stands for Spark's default."""
    given = {key: value for key, value in values.items() if value is not None}
    defaults = [key for key, value in values.items() if value is None]
    if not is_connect(spark):
        for key, value in given.items():
            spark.conf.set(key, value)
        for key in defaults:
            spark.conf.unset(key)
        return
    from pyspark.sql.connect.proto.base_pb2 import ConfigRequest, KeyValue

    if given:
        pairs = [KeyValue(key=key, value=value) for key, value in given.items()]
        _call(spark, ConfigRequest.Operation(set=ConfigRequest.Set(pairs=pairs)))
    if defaults:
        _call(spark, ConfigRequest.Operation(unset=ConfigRequest.Unset(keys=defaults)))


def _call(spark: Any, operation: Any) -> Any:
    """Send one request for all settings to a Spark Connect server. pyspark would send one request for each setting."""
    return spark.client.config(operation)


def _excluded(conf: Mapping[str, str], found: Mapping[str, str]) -> str:
    # A user's own session may exclude other rules already.
    others = conf.get(EXCLUDED_RULES) or found.get(EXCLUDED_RULES) or ""
    return ",".join(dict.fromkeys(filter(None, (*others.split(","), _EXCLUDED_RULE))))
