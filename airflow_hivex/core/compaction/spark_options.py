"""The options of Spark that a table's properties or a request may set for a compaction."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.compaction import JOB_PREFIX
from airflow_hivex.core.settings import ALLOW_CODE, Settings

# They set resources, and cannot name a class, a file or a command.
_SAFE = re.compile(
    r"spark\.(?:"
    r"(?:driver|executor)\.(?:memory|memoryOverhead|memoryOverheadFactor|cores)|executor\.(?:instances|pyspark\.memory)|"
    r"cores\.max|default\.parallelism|task\.(?:cpus|maxFailures)|memory\.[\w.]+|speculation[\w.]*|"
    r"dynamicAllocation\.(?:enabled|minExecutors|maxExecutors|initialExecutors)|"
    r"yarn\.queue|scheduler\.pool|network\.timeout|reducer\.maxSizeInFlight|"
    r"sql\.(?:shuffle\.partitions|files\.maxPartitionBytes|files\.openCostInBytes|autoBroadcastJoinThreshold|"
    r"adaptive\.(?:enabled|coalescePartitions\.[\w.]+|skewJoin\.[\w.]+|advisoryPartitionSizeInBytes))"
    r")"
)


def check_spark_options(settings: Settings, table: str, properties: Mapping[str, str]) -> None:
    """Refuse ``compactor.spark.*`` properties that could make Spark run code of the user who set them.

    All but those that are known to set resources are refused, ``compactor.spark.driver.extraJavaOptions`` for example.

    Raises:
        InvalidOperationError: there is such a property, and ``hivex.allow.code.execution`` is off.
    """
    prefix = f"{JOB_PREFIX}spark."
    unsafe = [
        name for name in properties if name.startswith(prefix) and not _SAFE.fullmatch(name.removeprefix(JOB_PREFIX))
    ]
    if unsafe and not settings[ALLOW_CODE]:
        raise InvalidOperationError(
            f"Property {', '.join(sorted(unsafe))}",
            table,
            f"it could run any code on the cluster; set options of Spark in hive.cluster.properties, or let an "
            f"administrator allow it by the setting {ALLOW_CODE}",
        )
