"""The advice for refused statements, which names the statements to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

STATEMENT_WORDS = """
ADD ALTER AND CATALOG CATALOGS CHANGE CLUSTER COLUMN COLUMNS COMPACT COMPACTIONS CONNECTOR CREATE CURRENT DATA
DATABASE DATACONNECTOR DBPROPERTIES DIRECTORY DROP DUMP EXTENDED EXTERNAL FILE FLOW FUNCTION FUNCTIONS GLOBAL INDEX
INPATH INTO JAR JARS LINK LINKS LOAD LOCAL LOCATION LOCKS MACRO MANAGED MATERIALIZED NAMESPACE OR OWNER PLAN POOL
PROCEDURE PROPERTIES QUERY REMOTE REPAIR REPLACE RESOURCE ROLE ROLES SCHEDULED SCHEMA STREAMING TABLE TABLELINK TABLES
TBLPROPERTIES TEMP TEMPORARY TRANSACTION TRANSACTIONS UNSET USER VARIABLE VIEW VIEWS
""".split()  # noqa: SIM905
"""Words that name the kind of a statement after its first word, such as TABLE in CREATE TABLE."""


_SIMILAR = 0.75
_NO_RIGHTS = "the metastore has no users, roles and rights; the rights of the database and of file systems count"
_NO_JARS = "name jars and files in spark.jars, spark.files or spark.archives of the cluster's spark_conf"
_NO_CATALOGS = "there is one catalog; namespaces are databases"
_AIRFLOW = "Airflow schedules statements, and its pools limit them"
_NO_MATERIALIZED = "CREATE TABLE ... AS SELECT keeps the rows of a query, and MERGE or INSERT OVERWRITE renews them"
_INSTEAD = {
    "ADD": _NO_JARS,
    "ALTER INDEX": "ORC files have indexes of their own; sort or partition the table",
    "ALTER MATERIALIZED": _NO_MATERIALIZED,
    "ALTER RESOURCE": _AIRFLOW,
    "ALTER SCHEDULED": _AIRFLOW,
    "CACHE": "a table that CREATE TABLE ... AS SELECT makes keeps rows for later statements",
    "CALL": "run the statements of the procedure one after the other, such as RESTORE TABLE, OPTIMIZE and VACUUM",
    "CLEAR": "statements cache no rows, so that it is not needed",
    "CONVERT": "CREATE EXTERNAL TABLE reads files where they are, and ALTER TABLE ... SET TBLPROPERTIES ('EXTERNAL' = "
    "'FALSE', 'transactional' = 'true') makes the table transactional without a copy",
    "CREATE CONNECTOR": "the rows of other databases come in by Airflow's operators or by Spark",
    "CREATE DATACONNECTOR": "the rows of other databases come in by Airflow's operators or by Spark",
    "CREATE FLOW": "a DAG writes a table from others",
    "CREATE GLOBAL": "make a view, or a temporary view in each session",
    "CREATE OR REPLACE GLOBAL": "make a view, or a temporary view in each session",
    "CREATE INDEX": "ORC files have indexes of their own; sort or partition the table",
    "CREATE MANAGED": "CREATE TABLE makes a managed table",
    "CREATE MATERIALIZED": _NO_MATERIALIZED,
    "CREATE POOL": _AIRFLOW,
    "CREATE PROCEDURE": "run the statements of the procedure one after the other",
    "CREATE REMOTE": "the rows of other databases come in by Airflow's operators or by Spark",
    "CREATE RESOURCE": _AIRFLOW,
    "CREATE ROLE": _NO_RIGHTS,
    "CREATE TRIGGER": _AIRFLOW,
    "CREATE USER": _AIRFLOW,
    "CREATE SCHEDULED": _AIRFLOW,
    "CREATE STREAMING": "a stream writes a table by session.warehouse or a batch of transactions",
    "DELETE JAR": _NO_JARS,
    "DFS": "the tools of the file system list and copy files",
    "DROP CONNECTOR": "the rows of other databases come in by Airflow's operators or by Spark",
    "DROP INDEX": "ORC files have indexes of their own; sort or partition the table",
    "DROP MATERIALIZED": _NO_MATERIALIZED,
    "DROP PROCEDURE": "run the statements of the procedure one after the other",
    "DROP TEMP VIEW": "DROP VIEW drops a temporary view",
    "DROP TEMPORARY VIEW": "DROP VIEW drops a temporary view",
    "DROP POOL": _AIRFLOW,
    "DROP RESOURCE": _AIRFLOW,
    "DROP ROLE": _NO_RIGHTS,
    "DROP TEMPORARY": "DROP VIEW and DROP TEMPORARY FUNCTION drop objects of the session",
    "EXPORT": "`hivex export --hive` copies a table to files that Hive reads",
    "FSCK": "MSCK REPAIR TABLE registers partitions, and `hivex metastore doctor` compares tables with their files",
    "GENERATE": "session.snapshot_files lists the files of a table for other engines",
    "GRANT": _NO_RIGHTS,
    "IMPORT": "`hivex metastore import` takes over tables of a Hive metastore, and LOAD DATA files",
    "KILL": "ABORT TRANSACTIONS ends a transaction with its statement",
    "LIST": _NO_JARS,
    "LOCK": "statements acquire their locks themselves; SHOW LOCKS lists them",
    "PREPARE": "EXECUTE IMMEDIATE and :name markers run a statement with other values",
    "RELOAD": "functions go to Spark with each statement, so that it is not needed",
    "RENAME": "ALTER TABLE ... RENAME TO gives a table another name",
    "REORG": "OPTIMIZE merges the files of a table, and VACUUM deletes old ones",
    "REPL": "REPLICATE TABLE and ALTER DATABASE ... SET PRIMARY CLUSTER copy rows to other clusters",
    "REPLACE INTO": "use MERGE INTO",
    "REVOKE": _NO_RIGHTS,
    "SHOW CATALOGS": _NO_CATALOGS,
    "SHOW COLLATIONS": "SELECT * FROM collations() lists them",
    "SHOW CONF": "SET shows the configuration of the session, and `hivex metastore status` that of the metastore",
    "SHOW CONNECTORS": "the rows of other databases come in by Airflow's operators or by Spark",
    "SHOW CREATE VIEW": "SHOW CREATE TABLE takes views, too",
    "SHOW CURRENT ROLES": _NO_RIGHTS,
    "SHOW CREATE DATABASE": "DESCRIBE DATABASE EXTENDED shows its location, owner and properties",
    "SHOW CREATE SCHEMA": "DESCRIBE DATABASE EXTENDED shows its location, owner and properties",
    "SHOW GRANT": _NO_RIGHTS,
    "SHOW HISTORY": "DESCRIBE HISTORY lists the commits to a table",
    "SHOW INDEX": "ORC files have indexes of their own; sort or partition the table",
    "SHOW INDEXES": "ORC files have indexes of their own; sort or partition the table",
    "SHOW MATERIALIZED": _NO_MATERIALIZED,
    "SHOW PRINCIPALS": _NO_RIGHTS,
    "SHOW PROCEDURES": "run the statements of the procedure one after the other",
    "SHOW RESOURCE": _AIRFLOW,
    "SHOW ROLE": _NO_RIGHTS,
    "SHOW ROLES": _NO_RIGHTS,
    "SOURCE": "`hivex sql -f` runs a file",
    "UNCACHE": "statements cache no rows, so that it is not needed",
    "UNDROP": "files of a dropped table are deleted; DROP has no way back",
    "UPSERT": "use MERGE INTO",
    "UNLOCK": "statements release their locks themselves; ABORT TRANSACTIONS releases those of others",
}
"""A dict from the first words of a refused statement to the advice. Longer beginnings come first."""


def instead(words: str) -> str:
    """Return "; " and the advice for a refused statement that begins with ``words``; without advice, an empty text."""
    return _advice(words, _INSTEAD)


_NEW_BUCKETS = "CREATE TABLE ... CLUSTERED BY ... AS SELECT makes a table with other buckets"
_ONE_DEFINITION = "all partitions have the columns of the table; leave PARTITION out"
_INSTEAD_OF_CHANGE = {
    "ARCHIVE": "COMPACT 'major' merges its files",
    "CLUSTER": "ALTER TABLE ... COMPACT 'rebalance' ORDER BY sorts its rows",
    "CLUSTERED": _NEW_BUCKETS,
    "CONCATENATE": "COMPACT 'major' merges its files",
    "CONVERT": "tables have the formats of files that Hive and Spark read",
    "CREATE": "a table has no branches and tags; links show a table in another database",
    "DISABLE": "tables are protected by the rights of the database, not by a mark",
    "ENABLE": "tables are protected by the rights of the database, not by a mark",
    "EXECUTE": "COMPACT merges its files, and VACUUM deletes old ones",
    "NOT SKEWED": "SKEWED BY has no effect here",
    "NOT STORED": "SKEWED BY has no effect here",
    "SKEWED": "SKEWED BY has no effect here",
    "UNARCHIVE": "partitions are never archived",
    "REPLACE PARTITION": "CREATE TABLE ... AS SELECT makes a table with other partition keys",
    "UPDATE": "columns are kept in the metastore, and ALTER TABLE ... ADD COLUMNS changes them",
    "WRITE": "ALTER TABLE ... COMPACT 'rebalance' ORDER BY sorts its rows",
    "INTO": _NEW_BUCKETS,
    "NOT CLUSTERED": _NEW_BUCKETS,
    "NOT SORTED": _NEW_BUCKETS,
    "PARTITION ADD": _ONE_DEFINITION,
    "PARTITION CHANGE": _ONE_DEFINITION,
    "PARTITION REPLACE": _ONE_DEFINITION,
    "SET OWNER": "the owner of a table is the user that has created it, and has no rights that others lack",
    "SET SKEWED": "SKEWED BY has no effect here",
}
"""A dict from the words after ALTER TABLE and the table name to the advice."""


def instead_of_change(words: str) -> str:
    """Return "; " and the advice for a refused ALTER TABLE with ``words`` after the name, or else an empty text."""
    return _advice(words, _INSTEAD_OF_CHANGE)


def meant(word: str, words: Iterable[str]) -> str:
    """Return "; perhaps X is meant" with the entry of ``words`` that is most similar to ``word``, or an empty text."""
    found = get_close_matches(word.upper(), words, n=1, cutoff=_SIMILAR)
    return f"; perhaps {found[0]} is meant" if found else ""


def _advice(words: str, given: Mapping[str, str]) -> str:
    found = next((advice for beginning, advice in given.items() if f"{words} ".startswith(f"{beginning} ")), None)
    return "" if found is None else f"; {found}"
