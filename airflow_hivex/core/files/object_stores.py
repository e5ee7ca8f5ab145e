"""S3 and compatible stores, through pyarrow's own client: the options of a cluster, and its file system."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from airflow_hivex.core.errors import StorageError

SCHEMES = ("s3", "s3a", "s3n")
"""The schemes of S3. Spark uses s3a; s3n and s3 are older names."""

_NAMES = {"key": "access_key", "secret": "secret_key", "token": "session_token", "anon": "anonymous"}
"""A dict from names of options in s3fs to their names in pyarrow."""
_TAKEN = (
    "access_key",
    "secret_key",
    "session_token",
    "anonymous",
    "region",
    "endpoint_url",
    "role_arn",
    "session_name",
    "external_id",
    "proxy_options",
    "connect_timeout",
    "request_timeout",
)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables with the region. The first variable that is set is passed to pyarrow."""
_DEFAULTS = {"connect_timeout": 5, "request_timeout": 10}
"""Default time-outs in seconds."""
_OF_OTHERS = "us-east-1"
"""The region of stores other than Amazon's, so that pyarrow does not look up a region."""
_ATTEMPTS = 3
_FOR_SPARK = {
    "access_key": "access.key",
    "secret_key": "secret.key",
    "session_token": "session.token",
    "role_arn": "assumed.role.arn",
    "session_name": "assumed.role.session.name",
    "region": "endpoint.region",
}
"""A dict from names of options in pyarrow to their names in Hadoop's connector, below the prefix of a bucket."""
_S3A = "org.apache.hadoop.fs.s3a"
_PROVIDERS = {
    "role_arn": f"{_S3A}.auth.AssumedRoleCredentialProvider",
    "anonymous": f"{_S3A}.AnonymousAWSCredentialsProvider",
    "session_token": f"{_S3A}.TemporaryAWSCredentialsProvider",
    "access_key": f"{_S3A}.SimpleAWSCredentialsProvider",
}
"""The connector's class for the first of these options that a cluster has."""
_PROVIDER = "aws.credentials.provider"


def is_object_store(filesystem: str) -> bool:
    """Return whether a URI names a file system in S3."""
    return filesystem.partition(":")[0].lower() in SCHEMES


def spark_settings(filesystem: str, options: Mapping[str, Any], spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which Hadoop's connector reads and writes the files of a root in S3.

    They come from the options of the root, and hold for its bucket alone. If ``spark_conf`` has an endpoint or
    a region of S3, both are taken from there; the same holds for the keys. Without options the result is empty: Spark's
    own settings hold.
    """
    known = _known(options)
    scheme, _, rest = filesystem.partition("://")
    if not known or not is_object_store(filesystem):
        return {}
    bucket = f"spark.hadoop.fs.s3a.bucket.{rest.partition('/')[0]}."
    given = {name.removeprefix(bucket).removeprefix("spark.hadoop.fs.s3a.") for name in spark_conf}
    found = {}
    if not given & {"access.key", "secret.key", "session.token", _PROVIDER}:
        keys = ("access_key", "secret_key", "session_token", "role_arn", "session_name")
        found = {_FOR_SPARK[name]: str(known[name]) for name in keys if name in known}
        provider = next((value for name, value in _PROVIDERS.items() if known.get(name)), None)
        found |= {} if provider is None else {_PROVIDER: provider}
    if not given & {"endpoint", "endpoint.region"}:
        endpoint = known.get("endpoint_url")
        region = known.get("region") or (_OF_OTHERS if endpoint else None)
        found |= {} if region is None else {_FOR_SPARK["region"]: str(region)}
        found |= {} if endpoint is None else {"endpoint": str(endpoint), "path.style.access": "true"}
    settings = {f"{bucket}{name}": value for name, value in found.items() if name not in given}
    if settings and scheme.lower() != "s3a":
        settings[f"spark.hadoop.fs.{scheme.lower()}.impl"] = f"{_S3A}.S3AFileSystem"
    return settings


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value, with pyarrow's names."""
    return {_NAMES.get(name, name): value for name, value in options.items() if value is not None}


def open_object_store(filesystem: str, options: Mapping[str, Any]) -> Any:
    """Return pyarrow's file system for a root in S3. Equal arguments return the same object. No request is sent.

    ``options`` have the names of pyarrow or of s3fs. The option ``endpoint_url`` is the address of a store other than
    Amazon's. Missing keys, region and endpoint are taken from the environment.

    Raises:
        StorageError: an option is unknown.
    """
    given = {"region": _of_environment(_REGIONS), "endpoint_url": _of_environment(_ENDPOINTS), **options}
    return _opened(filesystem, json.dumps(given, sort_keys=True, default=str))


def _of_environment(names: Sequence[str]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def endpoint_of(options: Mapping[str, Any]) -> str:
    """Return the address of an object store with these options, as a text for people."""
    return str(options.get("endpoint_url") or _of_environment(_ENDPOINTS) or "Amazon S3")


@lru_cache(maxsize=64)
def _opened(filesystem: str, described: str) -> Any:
    from pyarrow import fs

    known = _known(json.loads(described))
    unknown = [name for name in known if name not in _TAKEN]
    if unknown:
        allowed = ", ".join((*_TAKEN, *_NAMES))
        raise StorageError(filesystem, f"storage_options {', '.join(unknown)} are not known; known are {allowed}")
    endpoint = known.pop("endpoint_url", None)
    if endpoint is not None:
        parts = urlsplit(str(endpoint))
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise StorageError(filesystem, "endpoint_url is of the form http://host:port or https://host:port")
        known |= {
            "endpoint_override": parts.netloc,
            "scheme": parts.scheme,
            "region": known.get("region") or _OF_OTHERS,
        }
    try:
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
        return fs.S3FileSystem(**{**_DEFAULTS, **known}, retry_strategy=retries)
    except (OSError, TypeError, ValueError) as error:
        raise StorageError(filesystem, f"its storage_options do not fit: {error}") from error
