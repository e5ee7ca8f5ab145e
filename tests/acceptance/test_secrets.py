"""Secrets are given in every place that takes one, and looked for in all that the warehouse says."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import HivexError, Metastore
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import InvalidClusterPropertiesError, InvalidSettingError, StorageError
from airflow_hivex.core.errors.secrets import hide, hide_in_database_url, is_secret_name

SECRET = "wJalrXUtnFEMI/K7MDENG"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.x"


def secretive(folder: Path) -> dict[str, Any]:
    return {
        "c1": {
            "filesystem": (folder / "c1").as_uri(),
            "jobtracker": "local[1]",
            "spark_conf": {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.authenticate.secret": TOKEN},
            "storage_options": {"secret": SECRET, "client_kwargs": {"headers": {"token": TOKEN}}},
        },
        "c2": {
            "filesystem": f"nosuchscheme://AKIA:{SECRET}@bucket/c2",
            "jobtracker": f"sc://host:15002/;token={TOKEN}",
        },
        "c3": {"filesystem": f"nosuchscheme://account/c3?sig={TOKEN}", "jobtracker": "spark://host:7077"},
    }


def assert_silent(*said: object) -> None:
    for each in said:
        for secret in (SECRET, TOKEN):
            assert secret not in str(each)
            assert secret not in repr(each)


def failures_of(error: BaseException) -> list[object]:
    return [
        error,
        getattr(error, "facts", ""),
        getattr(error, "value", ""),
        pickle.dumps(error),
        "".join(traceback.format_exception(error)),
    ]


def test_nothing_that_is_said_of_clusters_has_their_secrets(
    metastore_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    described = secretive(tmp_path)
    checks = Metastore.check(metastore_url, clusters=described, default_cluster="c1")
    assert_silent(checks, Clusters.from_properties(described, "c1"))
    with Metastore.open(metastore_url, clusters=described, default_cluster="c1") as metastore:
        assert_silent(metastore.clusters, metastore.settings, metastore)
        with metastore.session(user="tester") as session:
            session.sql("CREATE TABLE t (id INT)")
            session.sql("INSERT INTO t VALUES (1)")
            session.sql(f"CREATE DATABASE d WITH DBPROPERTIES ('access.token' = '{TOKEN}')")
            session.sql(f"ALTER TABLE t SET TBLPROPERTIES ('fs.s3a.secret.key' = '{SECRET}')")
            for statement in (
                "SHOW CLUSTERS",
                "DESCRIBE EXTENDED t",
                "DESCRIBE DATABASE EXTENDED d",
                "SHOW CREATE TABLE t",
                "EXPLAIN ROUTE SELECT * FROM t",
            ):
                result = session.sql(statement)
                assert result.rows, statement
                assert_silent(statement, result)
            for statement in (
                "USE CLUSTER c2",
                "CREATE TABLE t2 (id INT)",
                "INSERT INTO t2 VALUES (1)",
                f"CREATE EXTERNAL TABLE e (id INT) STORED AS ORC LOCATION 's3://AKIA:{SECRET}@other/e'",
                f"LOAD DATA INPATH 's3://AKIA:{SECRET}@other/e' INTO TABLE t2",
            ):
                try:
                    assert_silent(session.sql(statement))
                except HivexError as error:
                    assert_silent(*failures_of(error))
        assert_silent(metastore.doctor.examine())
    assert_silent(caplog.text)


@pytest.mark.parametrize(
    "description",
    [
        {"c1": SECRET},
        {"c1": {"filesystem": f"s3://AKIA:{SECRET}@b/../c", "jobtracker": "local"}},
        {"c1": {"filesystem": "s3://b", "jobtracker": f"sc://h:x/;token={TOKEN}"}},
        {"c1": {"filesystem": "s3://b", "jobtracker": "local", "storage_options": f"secret={SECRET}"}},
        {"c1": {"filesystem": "s3://b", "jobtracker": "local", "storage_options": [SECRET]}},
        {"c1": {"filesystem": "s3://b", "jobtracker": "local", "spark_conf": {"spark.x.password": [SECRET]}}},
        {"c1": {"filesystem": {"key": SECRET}, "jobtracker": "local"}},
        f'{{"c1": {{"secret": "{SECRET}"',
    ],
)
def test_refused_description_of_a_cluster_is_not_quoted(description: Any) -> None:
    with pytest.raises(InvalidClusterPropertiesError) as raised:
        Clusters.from_properties(description)
    assert_silent(*failures_of(raised.value))


@pytest.mark.parametrize(
    "url",
    [
        f"oracle://scott:{SECRET}@host/db",
        f"mysql+pymysql://scott:{SECRET}@host/db",
        f"postgresql://scott:{SECRET}@host:port/db",
        f"postgresql:/scott:{SECRET}@host/db",
        f"postgresql//scott:{SECRET}@host/db",
        f"oracle://host/db?password={SECRET}",
        f"sqlite:///x.db?password={SECRET}",
        f"postgresql://scott:{SECRET} {SECRET}@[::1/db",
    ],
)
def test_refused_url_is_shown_without_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        Metastore.open(url, clusters=secretive(tmp_path), default_cluster="c1")
    assert_silent(*failures_of(raised.value))


@pytest.mark.parametrize(
    "sentence",
    [
        f"cannot open s3a://AKIA:{SECRET}@bucket/x",
        f"spark.hadoop.fs.s3a.secret.key={SECRET} is set twice",
        f"fs.azure.sas.container.account: {TOKEN}",
        f"GET https://account.blob/x?sv=2024&sig={TOKEN}&se=1 failed",
        f"options are {{'account_key': '{SECRET}', 'timeout': 3}}",
        json.dumps({"storage": {"password": SECRET}}),
        f"java -Djavax.net.ssl.trustStorePassword={SECRET} -cp x",
        f"could not connect: postgresql://u:{SECRET}@db/x?sslpassword={TOKEN}",
    ],
)
def test_secrets_in_sentences_of_others_are_found_by_their_form(sentence: str) -> None:
    error = StorageError("s3://bucket", sentence)
    assert_silent(hide(sentence), *failures_of(error))
    assert_silent(pickle.loads(pickle.dumps(error)))


def test_ordinary_sentences_stay_as_they_are() -> None:
    for sentence in (
        "a token: SELECT is expected at line 1",
        "hdfs://namenode:8020/warehouse/t@sales is not there",
        "partition ds=2024-01-01/token=abc of default.t",
        "abfss://container@account.dfs.core.windows.net/x",
        "key = value, monkey = 3, orc.bloom.filter.columns=id",
        "sqlite:////data/metastore.db",
    ):
        assert hide(sentence) == sentence
    assert hide_in_database_url("postgresql://etl@db:5432/hivex") == "postgresql://etl@db:5432/hivex"
    assert not any(is_secret_name(name) for name in ("orc.compress", "primary_key", "hive.txn.timeout", "keys"))


def test_command_line_says_no_secret(tmp_path: Path) -> None:
    clusters = tmp_path / "clusters.json"
    clusters.write_text(json.dumps(secretive(tmp_path)))
    for url in (
        f"postgresql://u:{SECRET}@127.0.0.1:1/x",
        f"postgresql://127.0.0.1:1/x?password={SECRET}",
        f"db2://u:{SECRET}@h",
    ):
        command = [sys.executable, "-m", "airflow_hivex.cli.main", "--metastore", url, "--clusters", str(clusters)]
        found = subprocess.run(
            [*command, "--default-cluster", "c1", "sql", "-e", "SHOW CLUSTERS"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 1
        assert_silent(found.stdout, found.stderr)
        assert "Traceback" not in found.stderr


@pytest.mark.timeout(20)
def test_time_to_hide_secrets_does_not_grow_with_the_square_of_a_long_word() -> None:
    name = "x" * 300_000
    assert hide(f"Table {name} does not exist") == f"Table {name} does not exist"
    assert "hunter2" not in hide(f"{name}://user:hunter2@host")


HOSTILE = ["-D", "spark.", "fs.", "a://u:", "'secret", "?token", "a=", "'a' = '", "-Dspark.secret"]
HOSTILE += ["\\", "\n", "password='", "(SET ", ";SET pwd", "OPTIONS(", "('pwd' ", "'' AS ", "password: ", "pwd='x' \""]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.timeout(20)
def test_no_text_takes_a_time_that_grows_with_the_square_of_its_length(piece: str) -> None:
    for text in (piece * 50_000, f"@{piece * 50_000}=", f"{piece * 50_000}@"):
        hide(text)


def test_a_value_in_the_value_of_another_name_is_found() -> None:
    assert hide("a=spark.secret.key=xyz") == "a=spark.secret.key=***"


@pytest.mark.parametrize(
    "text",
    [
        "SET password=hunter2",
        "set  My.Api_Key = hunter2 hunter2",
        "SET hivevar:db-password=hunter2",
        "SET VAR pwd = 'hunter2' || x",
        "-- of the DAG\nSET (a, db_password) = (SELECT 1, 'hunter2')",
        "DECLARE OR REPLACE VARIABLE token STRING DEFAULT concat('hunter2', 'b')",
        "A statement: SET password=hunter2",
        "'SET password=ge hunter2' is refused",
        "SELECT 'password=hunter2' AS note",
        "SELECT * FROM t WHERE note='MY_PASSWD: hunter2'",
        "SELECT * FROM t WHERE token = 'hunter2'",
        "SELECT * FROM t WHERE `secret`<>'x''hunter2'",
        "CALL p(pwd => r'hunter2')",
        "SELECT 'hunter2' AS token",
        "cannot read \"SELECT 'it''s', 'hunter2 it''s' AS `token`\"",
        "EXECUTE IMMEDIATE 'SELECT :pwd' USING 'hunter2' AS pwd",
        "CREATE TABLE t (a int) USING jdbc OPTIONS (password = hunter2, b = 2)",
        "CREATE TABLE t (a int) USING jdbc OPTIONS (dbtable 't', password 'hunter2')",
        "ALTER TABLE t SET TBLPROPERTIES ('a'='b', 'private_key'='hunter2')",
        "SELECT * FROM t WHERE secret = 'hunter2 of a text that was cut",
        '{"password": "hunter2", "a": 1}',
        '{\\"password\\": \\"hunter2\\", \\"a\\": 1}',
        "jdbc:sqlserver://h;user=u;password=hunter2;x=1",
        "jdbc:oracle:thin:scott/hunter2@//h:1521/x",
        "CaseInsensitiveMap(user -> u, password -> hunter2)",
        "login failed: password=hunter2",
        "host=h aws.access-key=hunter2 user=u",
        "host: h, credential: hunter2",
        "Authorization: Bearer hunter2",
        "{'x.authorization': 'hunter2'}",
    ],
)
def test_value_of_a_secret_name_is_masked(text: str) -> None:
    assert "hunter2" not in hide(text)
    assert hide(hide(text)) == hide(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT token FROM t WHERE token = col2",
        "MERGE INTO t USING s ON t.token=s.token WHEN MATCHED THEN UPDATE SET token = s.token",
        "UPDATE t\nSET token = col2 WHERE a = 'b' AND secret=c",
        "CREATE TABLE users (name string, password string COMMENT 'x', s struct<a:int,token:string>)",
        "SELECT count(*) AS tokens, 'x' AS a, transform(tokens, token -> token + 1)",
        "SET spark.sql.shuffle.partitions=5",
        "syntax error at token 'FROM'",
        "the credential 'c1' is missing in partition token=abc of default.t",
    ],
)
def test_columns_with_secret_names_are_not_masked(text: str) -> None:
    assert hide(text) == text
