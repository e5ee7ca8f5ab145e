"""The settings of Hadoop's connector that come from the options of a root in S3."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.files.object_stores import spark_settings

BUCKET = "spark.hadoop.fs.s3a.bucket.data."
KEYS = {"key": "an-access-key", "secret": "a-secret-key"}
CLASSES = "org.apache.hadoop.fs.s3a"


def settings(options: dict[str, Any], conf: dict[str, str] | None = None, root: str = "s3a://data/w") -> dict[str, str]:
    return {name.removeprefix(BUCKET): value for name, value in spark_settings(root, options, conf or {}).items()}


def test_keys_and_endpoint_hold_for_the_bucket_alone() -> None:
    found = spark_settings("s3a://data/w", {**KEYS, "endpoint_url": "http://minio:9000"}, {})
    assert all(name.startswith(BUCKET) for name in found)
    assert settings({**KEYS, "endpoint_url": "http://minio:9000"}) == {
        "access.key": "an-access-key",
        "secret.key": "a-secret-key",
        "aws.credentials.provider": f"{CLASSES}.SimpleAWSCredentialsProvider",
        "endpoint": "http://minio:9000",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }


@pytest.mark.parametrize(
    ("options", "provider"),
    [
        ({**KEYS, "token": "t"}, f"{CLASSES}.TemporaryAWSCredentialsProvider"),
        ({"anon": True}, f"{CLASSES}.AnonymousAWSCredentialsProvider"),
        ({"role_arn": "arn:aws:iam::1:role/r"}, f"{CLASSES}.auth.AssumedRoleCredentialProvider"),
        ({"region": "eu-central-1"}, None),
        ({"anon": False, "region": "eu-central-1"}, None),
    ],
)
def test_users_are_known_as_for_the_client(options: dict[str, Any], provider: str | None) -> None:
    assert settings(options).get("aws.credentials.provider") == provider


def test_settings_of_spark_come_first() -> None:
    options = {**KEYS, "endpoint_url": "http://minio:9000"}
    own = {"spark.hadoop.fs.s3a.aws.credentials.provider": "a.Class"}
    assert set(settings(options, own)) == {"endpoint", "endpoint.region", "path.style.access"}
    assert set(settings(options, {f"{BUCKET}endpoint": "http://other:9000"})) == {
        "access.key",
        "secret.key",
        "aws.credentials.provider",
    }


def test_other_names_of_s3_are_read_by_the_same_connector() -> None:
    name = "spark.hadoop.fs.s3.impl"
    assert settings(KEYS, root="s3://data")[name] == f"{CLASSES}.S3AFileSystem"
    # Without options, Spark has a connector of its own, as on EMR.
    assert settings({}, root="s3://data") == {}
    assert settings({"auto_mkdir": True}, root="file:///data") == {}
    clusters = {
        "c1": {
            "filesystem": "s3://data",
            "jobtracker": "yarn",
            "storage_options": KEYS,
            "spark_conf": {name: "own.Class"},
        }
    }
    assert Clusters.from_properties(clusters).get("c1").spark_conf[name] == "own.Class"
