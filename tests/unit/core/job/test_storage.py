"""Places of files, in this process and in tasks that take the module with them."""

from __future__ import annotations

import pickle
import time
from functools import partial

from pyspark import cloudpickle

from airflow_hivex.core.files.object_stores import open_object_store
from airflow_hivex.core.job import storage


def test_tasks_take_the_module_with_them_and_no_keys() -> None:
    options = {"key": "k", "secret": "s-e-c-r-e-t", "endpoint_url": "http://127.0.0.1:9"}
    storage.use_for("s3a://bucket-of-tasks/root", partial(open_object_store, "s3a://bucket-of-tasks/root", options))
    assert storage.place("s3a://bucket-of-tasks/root/t/file").path == "bucket-of-tasks/root/t/file"
    cloudpickle.register_pickle_by_value(storage)  # type: ignore[no-untyped-call]
    try:
        taken = cloudpickle.dumps(storage.place)  # type: ignore[no-untyped-call]
    finally:
        cloudpickle.unregister_pickle_by_value(storage)  # type: ignore[no-untyped-call]
    assert b"s-e-c-r-e-t" not in taken
    assert pickle.loads(taken)("file:///x/y").path == "/x/y"


def test_roots_end_at_a_slash() -> None:
    storage.use_for("file:///roots-of-tests/a", lambda: "another")
    assert storage.place("file:///roots-of-tests/a").filesystem == "another"
    assert storage.place("file:///roots-of-tests/a/b").filesystem == "another"
    assert storage.place("file:///roots-of-tests/ab").filesystem != "another"


def test_failure_names_object_store_of_its_place() -> None:
    storage.use_for("s3://some-bucket/root", lambda: None, "http://store:9000")
    error = OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached")
    found = (storage.place("s3://some-bucket/root/t") / "delta").describe(error, time.monotonic())
    assert "the object store at http://store:9000 does not answer in time" in found
