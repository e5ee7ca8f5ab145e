"""The parameters that SET accepts for a session: parameters of Spark SQL, and of Hive, which have no effect."""

from __future__ import annotations

import re

from airflow_hivex.core.errors.secrets import is_secret_name
from airflow_hivex.core.model.job_configuration import RELIED_ON, TIMESTAMP_TYPE

HIVEVAR = "hivevar:"
"""The prefix of the names of Hive's variables. In statements, a reference to a variable is replaced by its value."""
HIVECONF = "hiveconf:"

IGNORES_NONEXISTENT = "hive.exec.drop.ignorenonexistent"
"""The parameter of Hive that makes DROP ignore a missing table, view or function."""

STORE_ASSIGNMENT = "spark.sql.storeAssignmentPolicy"
"""The parameter of Spark that decides which values a column accepts."""
LEGACY_ASSIGNMENT = "LEGACY"
_ASSIGNMENTS = ("ANSI", LEGACY_ASSIGNMENT)

_NAME = re.compile(r"[A-Za-z][\w-]*(?:\.[\w-]+)*")
_OWN_NAME = re.compile(r"\w+")
_OF_SPARK_SQL = "spark.sql."
# Parameters of Hive and of its engines that change only the speed, or allow features that are always allowed here.
_WITHOUT_EFFECT = re.compile(r"(?:hive|tez|mapred|mapreduce|yarn|dfs|io|fs\.trash|hcatalog|parquet|orc)\.")
_OF_THE_METASTORE = re.compile(r"(?:metastore|hivex|hive\.metastore|hive\.cluster)\.")
# Source: Spark's StaticSQLConf, and its parameters that name classes, which run any code.
_OF_THE_APPLICATION = re.compile(
    r"spark\.sql\.(?:"
    r"extensions|catalog|defaultCatalog|globalTempDatabase|warehouse\.dir|queryExecutionListeners|cache\.serializer|"
    r"filesourceTableRelationCacheSize|codegen\.(?:cache|comments)|debug$|hive\.|maven\.|artifact\.|connect\.|"
    r"pyspark\.|execution\.pyspark|execution\.pythonUDF|execution\.pythonUDTF|session\.local|"
    r"sources\.schemaStringLengthThreshold|ui\.|event\.|"
    r"broadcastExchange\.|subquery\.maxThread|resultQueryStage|legacy\.sessionInit|redaction\.|planChangeLog|"
    r"streaming\.|thriftserver|metadataCacheTTL|shuffleDependency|scriptTransformation|operatorPipe|"
    r"(?:.*\.)?\w*(?:[Cc]lass|Provider|Listeners?|committer)(?:\.|$)"
    r")"
)


def stored_name(name: str) -> str:
    """Return the name by which a session stores a variable (with ``hivevar:``) or a parameter (without a prefix)."""
    scope, _, rest = name.partition(":")
    scope = f"{scope.strip().lower()}:"
    if scope == HIVEVAR:
        return f"{HIVEVAR}{rest.strip()}"
    return rest.strip() if scope == HIVECONF and rest else name


def is_own_name(name: str) -> bool:
    """Return whether a script is allowed to SET this name to any value, and to read it as ``${hiveconf:name}``."""
    return _OWN_NAME.fullmatch(name) is not None


def refusal(name: str) -> str | None:
    """Return the reason why SET refuses a parameter, or None if SET accepts it."""
    if not _NAME.fullmatch(name):
        return f"{name} is not a valid name of a parameter"
    if is_secret_name(name):
        return f"{name} is a secret; a secret belongs to spark_conf or storage_options of a cluster"
    if _OF_THE_METASTORE.match(name):
        return f"{name} is a setting of the metastore, the same for all sessions; change it there"
    if has_no_effect(name) or is_own_name(name):
        return None
    if not name.startswith(_OF_SPARK_SQL):
        if name.startswith("spark."):
            return f"{name} counts when Spark starts; it belongs to spark_conf of a cluster"
        return f"{name} is not a parameter of Spark SQL or Hive; for a value of a script DECLARE a variable"
    if name == TIMESTAMP_TYPE:
        return f"{name} is TIMESTAMP_LTZ for all statements, and jobs rely on it; a type TIMESTAMP_NTZ has no zone"
    if name in RELIED_ON:
        return f"{name} is the same for all statements; jobs rely on it"
    if _OF_THE_APPLICATION.match(name):
        return f"{name} counts for all sessions of a Spark application; it belongs to spark_conf of a cluster"
    return None


def refusal_of_value(name: str, value: str) -> str | None:
    """Return the reason why SET refuses a value of an accepted parameter, or None if SET accepts it."""
    if name == STORE_ASSIGNMENT and value.upper() not in _ASSIGNMENTS:
        return f"{value} is not a policy of this release; {' and '.join(_ASSIGNMENTS)} are"
    return None


def has_no_effect(name: str) -> bool:
    """Return whether a name is a parameter of Hive or of Hive's engines, which SET accepts without an effect."""
    return _WITHOUT_EFFECT.match(name) is not None
