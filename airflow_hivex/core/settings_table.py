"""The table of all hive.* parameters.

Source: Hive's HiveConf and MetastoreConf. docs/reference/settings.md is written from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["int", "float", "bool", "str", "list", "properties"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter. The values have a ``type`` and a ``unit``, and lie between ``minimum`` and ``maximum``.

    ``choices`` are the allowed texts; an empty tuple allows all texts. ``aliases`` are Hive's other names for the
    parameter. If several names have a value, the value of ``name`` has precedence. A value of the type ``properties``
    is a mapping, a JSON text or a file.
    """

    name: str
    type: Kind
    default: Any
    unit: str
    minimum: float | None
    maximum: float | None
    description: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """A parameter of Hive without effect in this project. ``instead`` describes what this project does for every value.

    ``as_if`` is the value, as text, with which Hive would do the same, or None if Hive has no such value.
    """

    name: str
    instead: str
    as_if: str | None
    aliases: tuple[str, ...] = ()


def _row(
    name: str,
    type: Kind,
    default: Any,
    unit: str,
    between: tuple[float | None, float | None],
    description: str,
    *aliases: str,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting(name, type, default, unit, *between, description, (*other_names(name), *aliases), choices)


def _ignored(instead: str, *given: str) -> tuple[Ignored, ...]:
    """Return parameters without effect from texts ``name`` or ``name=value``. ``value`` becomes ``as_if``."""
    parts = (each.partition("=") for each in given)
    return tuple(Ignored(name, instead, as_if if sign else None, other_names(name)) for name, sign, as_if in parts)


def other_names(name: str) -> tuple[str, ...]:
    """Return the names that Hive has for a parameter besides its own one that begins with ``metastore``."""
    if name.startswith(("metastore.cache", "metastore.event", "metastore.rawstore")):
        return (f"hive.{name}",)
    # Hive 4 reads the name with metastore first, then the older name with hive.
    return (name.replace("metastore", "hive", 1),) if name.startswith("metastore.") else ()


_ANY = (None, None)

# One line per parameter, however long, so that it reads as a table.
# ruff: noqa: E501
# fmt: off
SETTINGS: tuple[Setting, ...] = (
    # -- clusters
    _row("hive.default.cluster.name", "str", None, "", _ANY, "the cluster of new tables"),
    _row("hive.use.default.cluster", "bool", False, "", _ANY, "run on the default cluster instead of choosing by the tables read"),
    _row("hive.cluster.properties", "properties", None, "", _ANY, "cluster name to filesystem and jobtracker: mapping, JSON text or file"),
    _row("hivex.local.jobtracker", "str", "local[*]", "", _ANY, "jobtracker of the one cluster of a SQLite metastore without configured clusters; `auto`: the Spark Connect server of `hivex spark start` while it runs, else `local[*]`"),
    _row("hivex.cluster.answer.timeout", "int", 30, "s", (1, 3600), "how long a Spark Connect server may need for its first answer before its cluster counts as unusable"),
    _row("hivex.replica.max.lag", "float", None, "s", (0, 315_360_000), "the lag of copies that queries accept; without a value they read current copies only. SET sets that of a session"),
    _row("hivex.replica.max.lag.commits", "int", None, "", (0, None), "the number of commits that copies may lack for queries that accept a lag. SET sets that of a session"),
    # -- transactions
    _row("metastore.txn.timeout", "int", 300, "s", (1, None), "a transaction or lock without a heartbeat for this long is aborted"),
    _row("metastore.txn.max.open.batch", "int", 1000, "", (1, None), "most transactions opened by one call"),
    _row("metastore.max.open.txns", "int", 100_000, "", (1, None), "with this many open transactions no other is opened"),
    _row("metastore.count.open.txns.interval", "int", 1, "s", (1, None), "how often open transactions are counted"),
    _row("metastore.repl.txn.timeout", "float", 11.0, "d", (0, None), "timeout of transactions that replication opened"),
    _row("hive.txn.retrysnapshot.max.count", "int", 5, "", (1, 20), "how often a statement takes a new snapshot after its locks"),
    _row("hive.txn.readonly.enabled", "bool", False, "", _ANY, "open statements that only read as read-only transactions"),
    _row("hive.txn.xlock.iow", "bool", True, "", _ANY, "INSERT OVERWRITE takes an exclusive lock"),
    _row("hive.txn.xlock.write", "bool", True, "", _ANY, "UPDATE and DELETE take exclusive write locks"),
    _row("hive.txn.xlock.ctas", "bool", True, "", _ANY, "CREATE TABLE AS SELECT takes an exclusive lock on the new name"),
    _row("hive.txn.xlock.mergeinsert", "bool", False, "", _ANY, "the insert branch of MERGE counts as an update, so that two cannot insert one key"),
    _row("hive.txn.read.locks", "bool", True, "", _ANY, "reads take shared locks"),
    _row("hive.txn.nonacid.read.locks", "bool", True, "", _ANY, "reads of tables without transactions take shared locks"),
    _row("hive.txn.ext.locking.enabled", "bool", False, "", _ANY, "external tables are locked too"),
    _row("hive.txn.manager.dump.lock.state.on.acquire.timeout", "bool", False, "", _ANY, "log all locks when one was not acquired in time"),
    # -- the database of the metastore
    _row("hivex.database.timeout", "int", 30, "s", (2, 86_400), "PostgreSQL: client and server give up a connection after so long without a sign of life of the other host, and end a database transaction that was idle for so long"),
    _row("hivex.database.lock.timeout", "int", 60, "s", (1, 86_400), "PostgreSQL: how long a change of the metastore, with its retries, waits for rows that another client has locked"),
    # -- DataFrames
    _row("hivex.dataframe.retention.time", "int", 3600, "s", (0, None), "how long the cleaner keeps the files of a DataFrame, or of listed files, after the call; 0: not at all"),
    # -- sessions
    _row("hivex.temporary.table.timeout", "int", 86_400, "s", (1, 315_360_000), "housekeeping drops an unlocked temporary table whose session has run no statement for this long"),
    # -- history
    _row("hivex.history.retention", "int", 21_600, "s", (0, 315_360_000), "how long earlier versions of a table can be read; 0: not at all. A table may have another value as its property of this name"),
    _row("hivex.statements.retention", "int", 86_400, "s", (0, 315_360_000), "how long the history of statements keeps a statement that has ended; 0: no statement is recorded"),
    _row("hivex.statements.text.length", "int", 2_000, "", (0, 100_000), "the most characters of the text of a statement that the history of statements keeps; 0: none"),
    # -- replication
    _row("hivex.replication.timeout", "int", 60, "s", (1, None), "after so long without a heartbeat the transaction of a replication is aborted; at most `hive.txn.timeout`"),
    _row("hivex.replication.retention", "int", 86_400, "s", (0, None), "how long the housekeeping keeps the files of a replication that has not finished, for the next one"),
    _row("hivex.replication.job.min.size", "int", 1_073_741_824, "B", (-1, None), "a replication of at least this many bytes copies by a Spark job, if jobs of the target, or of `hivex.replication.job.cluster`, run outside of its process; -1: never"),
    _row("hivex.replication.job.cluster", "str", "", "", _ANY, "the cluster whose Spark runs the jobs that copy; by default the target of each replication"),
    # -- what SQL may do
    _row("hivex.allow.code.execution", "bool", False, "", _ANY, "SQL may call any Java method (reflect, java_method, try_reflect) and permanent functions of classes, and table properties may set any option of Spark"),
    _row("hivex.load.paths", "list", ("*",), "", _ANY, "folders, as absolute paths or URIs, that LOAD DATA and COPY INTO may read besides the root of the table's cluster; `*` is any folder. Under Airflow the default is the empty list"),
    # -- namespaces
    _row("hivex.namespace.mode", "bool", False, "", _ANY, "statements name tables of other databases by links only; a database may have another value as its property"),
    _row("hivex.move.grace.time", "int", 86_400, "s", (0, None), "how long the housekeeping leaves the copies on the previous clusters after a namespace was moved"),
    _row("hivex.move.lock.timeout", "int", 30, "s", (0, None), "how long each try to switch a namespace waits for its readers and writers; later ones wait meanwhile"),
    _row("hivex.move.lock.tries", "int", 10, "", (1, None), "how often a move of a namespace tries to switch; it catches up before each try"),
    # -- locks
    _row("hivex.lock.matrix", "str", "4", "", _ANY, "which locks are compatible: as in Hive 4, or as in Hive 2.3 and 3", choices=("4", "2.3")),
    _row("hive.lock.numretries", "int", 100, "", (0, None), "how often a waiting lock is checked"),
    _row("hive.lock.sleep.between.retries", "int", 60, "s", (0, None), "longest pause between two checks of a waiting lock"),
    _row("hive.locks.max.partitions", "int", -1, "", (-1, None), "above this many partition locks one table lock is taken; -1 off"),
    _row("hive.acid.lockless.reads.enabled", "bool", False, "", _ANY, "reads take no locks"),
    # -- housekeeping
    _row("metastore.acid.housekeeper.interval", "int", 60, "s", (1, None), "how often timed-out transactions and locks are looked for"),
    _row("metastore.acid.txn.cleaner.interval", "int", 10, "s", (1, None), "how often ended transactions without components are removed"),
    # -- compaction
    _row("metastore.compactor.initiator.on", "bool", False, "", _ANY, "look for tables to compact"),
    _row("metastore.compactor.worker.pool.timeout", "float", 12.0, "h", (0, None), "after this wait a pool's entry may be taken by workers of the default pool, too"),
    _row("metastore.compactor.fetch.size", "int", 1000, "", (100, 5000), "most compactions that a round of the initiator begins"),
    _row("metastore.compactor.clean.aborts.using.cleaner", "bool", True, "", _ANY, "the cleaner removes aborted data, instead of a compaction"),
    _row("metastore.compactor.run.as.user", "str", "", "", _ANY, "user that compacts; empty is the owner of the directory"),
    _row("metastore.compactor.initiator.failed.compacts.threshold", "int", 2, "", (1, 20), "after this many failures in a row a table is not compacted by itself"),
    _row("metastore.compactor.initiator.failed.retry.time", "float", 7.0, "d", _ANY, "when a table that failed too often is tried again; 0 or less never"),
    _row("metastore.compactor.history.retention.succeeded", "int", 3, "", (0, 100), "succeeded compactions kept per table or partition"),
    _row("metastore.compactor.history.retention.failed", "int", 3, "", (0, 100), "failed compactions kept per table or partition"),
    _row("metastore.compactor.history.retention.refused", "int", 3, "", (0, 100), "refused compactions kept per table or partition"),
    _row("metastore.compactor.history.retention.did.not.initiate", "int", 2, "", (0, 100), "compactions not initiated kept per table or partition", 'metastore.compactor.history.retention.attempted', 'hive.compactor.history.retention.attempted'),
    _row("metastore.compactor.history.retention.timeout", "float", 7.0, "d", (0, None), "older failures are dropped when a newer compaction succeeded"),
    _row("hive.compactor.worker.timeout", "int", 86_400, "s", (1, None), "a compaction that works longer is given up and started again"),
    _row("hive.compactor.delta.num.threshold", "int", 10, "", (0, None), "more delta directories start a minor compaction"),
    _row("hive.compactor.delta.pct.threshold", "float", 0.1, "ratio", (0, None), "a larger share of deltas to base starts a major compaction"),
    _row("hive.compactor.abortedtxn.threshold", "int", 1000, "", (0, None), "more aborted transactions of a table start a major compaction"),
    _row("hive.compactor.aborted.txn.time.threshold", "float", 12.0, "h", _ANY, "an older aborted transaction starts a minor compaction; negative off"),
    _row("hive.compactor.max.num.delta", "int", 500, "", (1, None), "most deltas that one compaction job reads"),
    _row("hive.compactor.job.queue", "str", "", "", _ANY, "queue of compaction jobs"),
    _row("hive.compactor.compact.insert.only", "bool", True, "", _ANY, "compact insert-only tables"),
    _row("hive.compactor.crud.query.based", "bool", False, "", _ANY, "compact full ACID tables by queries"),
    _row("hive.compactor.gather.stats", "bool", True, "", _ANY, "refresh statistics after a compaction"),
    _row("hive.compactor.wait.timeout", "int", 300_000, "ms", (2001, None), "longest wait of COMPACT ... AND WAIT"),
    _row("hive.compactor.cleaner.threads.num", "int", 1, "threads", (1, None), "threads of the cleaner"),
    _row("hive.compactor.delayed.cleanup.enabled", "bool", False, "", _ANY, "wait the retention time before cleaning"),
    _row("hive.compactor.cleaner.retention.time.seconds", "int", 300, "s", (0, None), "how long obsolete directories stay when cleaning is delayed"),
    _row("hive.compactor.cleaner.retry.maxattempts", "int", 5, "", (0, 10), "after this many failures cleaning is given up; 0 never"),
    _row("hive.compactor.cleaner.retry.retention.time", "int", 300, "s", (0, None), "pause after a failure of the cleaner, doubled each time"),
    # -- cache and events
    _row("metastore.rawstore.impl", "str", "CachedStore", "", _ANY, "CachedStore keeps metadata in memory; ObjectStore asks the database each time", choices=("CachedStore", "ObjectStore", "org.apache.hadoop.hive.metastore.cache.CachedStore", "org.apache.hadoop.hive.metastore.ObjectStore")),
    _row("metastore.cached.rawstore.cache.update.frequency", "int", 60, "s", (1, None), "a follower reads the notification log at least this often; announcements wake it earlier"),
    _row("metastore.cached.rawstore.cached.object.whitelist", "list", (".*",), "", _ANY, "patterns of catalog.database.table to keep in the cache"),
    _row("metastore.cached.rawstore.cached.object.blacklist", "list", (), "", _ANY, "patterns of catalog.database.table to keep out of it"),
    _row("metastore.cached.rawstore.max.cache.memory", "int", 1_073_741_824, "B", _ANY, "memory of the cache of a process, by estimate; negative: unlimited"),
    _row("metastore.cached.rawstore.catalogs", "list", ("hive",), "", _ANY, "catalogs to keep in the cache; empty is all, and `hive` is the only one"),
    _row("metastore.cache.can.use.event", "bool", False, "", _ANY, "follow the notification log from the start, not only from the first read by a write id list"),
    _row("hivex.cache.prewarm", "bool", False, "", _ANY, "read tables into the cache in the background when the metastore is opened"),
    _row("metastore.event.db.listener.timetolive", "float", 1.0, "d", (0, None), "how long the notification log is kept"),
    _row("metastore.event.db.listener.clean.interval", "int", 7200, "s", (1, None), "how often the housekeeping cuts the notification log, where it runs by itself"),
    _row("metastore.event.expiry.duration", "int", 0, "s", (0, 315_360_000), "how long clients of the Hive Metastore endpoint find a partition marked for an event; 0: always"),
)
# fmt: on

IGNORED: tuple[Ignored, ...] = (
    *_ignored(
        "transactions and locks are always on",
        "hive.txn.manager=org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency=true",
    ),
    *_ignored(
        "each statement that runs has a thread for its heartbeats",
        "hive.txn.heartbeat.threadpool.size",
    ),
    *_ignored(
        "an id is never visible before its transaction is",
        "metastore.txn.opentxn.timeout",
    ),
    *_ignored(
        "errors that may be tried again are known by the database's own codes",
        "metastore.txn.retryable.sqlex.regex=",
    ),
    *_ignored(
        "the cleaner asks which write ids the open transactions can see, table by table",
        "metastore.txn.use.minhistorylevel",
        "metastore.txn.use.minhistorywriteid=true",
    ),
    *_ignored(
        "writes to tables without transactions lock as those to tables with transactions do",
        "hive.txn.strict.locking.mode=false",
    ),
    *_ignored(
        "statistics of transactional tables are kept",
        "hive.txn.stats.enabled=true",
    ),
    *_ignored(
        "the table property `transactional_properties` decides",
        "hive.txn.operational.properties=1",
    ),
    *_ignored(
        "`_orc_acid_version` is written where the row layout is `hive`",
        "hive.txn.write.acid.version.file",
    ),
    *_ignored(
        "each scan has the delete events of its partitions, and no others",
        "hive.txn.filter.delete.events=true",
    ),
    *_ignored(
        "directories are rows of the metastore; readers list none",
        "hive.txn.acid.dir.cache.duration",
    ),
    *_ignored(
        "a dropped table's files are deleted, and a new table of its name gets another folder if any were left",
        "hive.acid.createtable.softdelete=false",
    ),
    *_ignored(
        "a dropped partition's files are deleted when no reader needs them",
        "hive.acid.droppartition.usebase=false",
    ),
    *_ignored(
        "a renamed partition keeps its files",
        "hive.acid.renamepartition.makecopy=false",
    ),
    *_ignored(
        "TRUNCATE writes an empty base",
        "hive.acid.truncate.usebase=true",
    ),
    *_ignored(
        "writers use a staging directory, and move it to its place before they commit",
        "hive.acid.direct.insert.enabled=false",
    ),
    *_ignored(
        "Hive has another name for it, and does not read this one either",
        "hive.timedout.txn.reaper.start",
        "hive.timedout.txn.reaper.interval",
        "hive.writeset.reaper.interval",
        "hive.compactor.history.reaper.interval",
    ),
    *_ignored(
        "the schedule of the compaction DAG decides, or the caller of the compactor",
        "metastore.compactor.cleaner.on",
        "metastore.compactor.worker.threads",
        "hive.compactor.worker.<pool>.threads",
        "hive.compactor.check.interval",
        "hive.compactor.worker.sleep.time",
        "hive.compactor.worker.max.sleep.time",
        "hive.compactor.cleaner.run.interval",
    ),
    *_ignored(
        "the initiator reads tables once in a round",
        "metastore.compactor.initiator.tablecache.on=true",
    ),
    *_ignored(
        "the cleaner reads each table when it cleans it",
        "metastore.compactor.cleaner.tablecache.on=false",
    ),
    *_ignored(
        "no statistics query of Hive's runs",
        "metastore.compactor.enable.stats.compression",
    ),
    *_ignored(
        "compaction uses the metastore's connections",
        "metastore.compactor.connectionPool.maxPoolSize",
    ),
    *_ignored(
        "the initiator looks at one table after the other",
        "hive.compactor.request.queue=1",
    ),
    *_ignored(
        "`hive.compactor.gather.stats` decides",
        "hive.mr.compactor.gather.stats",
    ),
    *_ignored(
        "insert-only tables are compacted by the rules of their format",
        "hive.compaction.merge.enabled",
    ),
    *_ignored(
        "the metrics of this release have other names and no thresholds; the monitoring that reads them has these",
        "hive.compactor.active.delta.dir.threshold",
        "hive.compactor.obsolete.delta.dir.threshold",
        "hive.compactor.small.delta.dir.threshold",
        "hive.compactor.initiator.duration.update.interval",
        "hive.compactor.cleaner.duration.update.interval",
        "metastore.compactor.long.running.initiator.threshold.warning",
        "metastore.compactor.long.running.initiator.threshold.error",
        "metastore.compactor.oldest.open.txn.threshold.warning",
        "metastore.compactor.oldest.open.txn.threshold.error",
        "metastore.compactor.oldest.replication.open.txn.threshold.warning",
        "metastore.compactor.oldest.replication.open.txn.threshold.error",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        "metastore.compactor.oldest.uncleaned.compaction.time.threshold",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        "metastore.compactor.failed.compaction.ratio.threshold",
        "metastore.compactor.tables.with.aborted.txn.threshold",
        "metastore.acidmetrics.table.aborted.txns.threshold",
        "metastore.compactor.completed.txn.components.record.threshold.warning",
        "metastore.compactor.completed.txn.components.record.threshold.error",
        "metastore.compactor.txn.to.writeid.record.threshold.warning",
        "metastore.compactor.txn.to.writeid.record.threshold.error",
        "metastore.compactor.number.of.disabled.compaction.tables.threshold",
        "metastore.compactor.acid.metrics.logger.frequency",
        "metastore.compactor.worker.detect.multiple.versions.threshold",
        "metastore.acidmetrics.check.interval",
        "metastore.acidmetrics.thread.on",
        "metastore.acidmetrics.ext.on",
    ),
    *_ignored(
        "it is in front of the metastore database",
        "metastore.cached.rawstore.impl",
    ),
)
"""The parameters of Hive without effect. They are accepted, so that a configuration of Hive can be used."""
