from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import (
    InvalidClusterPropertiesError,
    InvalidSettingError,
    LocationOutsideClusterError,
    UnknownClusterError,
)
from airflow_hivex.core.model.clusters import Cluster, JobTrackerKind, jobtracker_kind

C1 = {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}
C2 = {"filesystem": "hdfs://nn:8020/", "jobtracker": "yarn", "spark_conf": {"spark.executor.instances": 4, "a.b": True}}
BOTH = {"c1": C1, "c2": C2}


def cluster(filesystem: str) -> Cluster:
    return Cluster("c1", filesystem, "local")


def test_a_mapping_a_text_and_a_file_describe_the_same_clusters(tmp_path: Path) -> None:
    path = tmp_path / "clusters.json"
    path.write_text(json.dumps(BOTH))
    described = Clusters.from_properties(BOTH, "c1")
    for value in (json.dumps(BOTH), f"  {json.dumps(BOTH)}\n", path, str(path), f"file://{path}"):
        assert Clusters.from_properties(value, "c1") == described
    assert described.get("c2").spark_conf == {"spark.executor.instances": "4", "a.b": "true"}
    assert (list(described), described.names, len(described)) == (["c1", "c2"], ("c1", "c2"), 2)
    assert "c1" in described
    assert "c3" not in described
    assert pickle.loads(pickle.dumps(described)) == described


def test_the_only_cluster_is_the_default() -> None:
    assert Clusters.from_properties({"c1": C1}).default == "c1"


def test_several_clusters_need_a_default() -> None:
    with pytest.raises(InvalidSettingError, match=r"hive\.default\.cluster\.name has no value: .* c1, c2"):
        Clusters.from_properties(BOTH)


def test_the_default_must_be_one_of_the_clusters() -> None:
    with pytest.raises(UnknownClusterError, match=r"no cluster 'c9' .* known are: c1, c2"):
        Clusters.from_properties(BOTH, "c9")
    with pytest.raises(UnknownClusterError):
        Clusters.from_properties(BOTH, "c1").get("C1")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "no cluster is described"),
        ({}, "no cluster is described"),
        ("", "no cluster is described"),
        ("{}", "no cluster is described"),
        ("[]", "no cluster is described"),
        ("[1]", "not an object of cluster names"),
        ('"c1"', "not an object of cluster names"),
        ('{"c1": ', "not JSON"),
        ("/nowhere/clusters.json", "neither JSON text nor a file"),
        (Path("/"), "neither JSON text nor a file"),
        ("c1=local", "neither JSON text nor a file"),
        ("x" * 5000, "neither JSON text nor a file"),
        ('{"c1": {}, "c1": {}}', "'c1' is given twice"),
        ('{"c1": {"filesystem": "/a", "filesystem": "/b", "jobtracker": "local"}}', "'filesystem' is given twice"),
        ({"c 1": C1}, "a cluster's name has letters"),
        ({"": C1}, "a cluster's name has letters"),
        ({1: C1}, "a cluster's name has letters"),
        ({"c1": "local"}, "not an object"),
        ({"c1": {}}, "filesystem and jobtracker is missing"),
        ({"c1": {"filesystem": "/data"}}, "jobtracker is missing"),
        ({"c1": {"filesystem": "s3://AKIA:a-key@b/x", "jobtracker": "local[1]"}}, "filesystem has keys of S3"),
        ({"c1": C1 | {"fileSystem": "x"}}, "unknown properties fileSystem; allowed are filesystem, jobtracker, spark_"),
        ({"c1": C1 | {"filesystem": None}}, "filesystem is null; a text is expected"),
        ({"c1": C1 | {"jobtracker": " "}}, "jobtracker is an empty text"),
        ({"c1": C1 | {"jobtracker": "local["}}, "jobtracker 'local\\['"),
        ({"c1": C1 | {"spark_conf": ["a"]}}, "spark_conf is"),
        ({"c1": C1 | {"spark_conf": {"a": None}}}, "spark_conf a is null"),
        ({"c1": C1 | {"storage_options": "x"}}, "storage_options is"),
    ],
)
def test_malformed_properties_are_refused(value: Any, says: str) -> None:
    with pytest.raises(InvalidClusterPropertiesError, match=says):
        Clusters.from_properties(value)


@pytest.mark.parametrize("filesystem", ["data/c1", "c:\\data", "file:data", "file://host/data", "/data/../x", "hdfs:"])
def test_a_file_system_is_an_absolute_uri(filesystem: str) -> None:
    with pytest.raises(InvalidClusterPropertiesError, match=r"cluster 'c1': filesystem .* is not an absolute URI"):
        Clusters.from_properties({"c1": {"filesystem": filesystem, "jobtracker": "local"}})


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("/data/c1", "file:///data/c1"),
        ("/data//c1/", "file:///data/c1"),
        ("file:/data/c1", "file:///data/c1"),
        ("FILE:///data/c1/", "file:///data/c1"),
        ("file://localhost/data/c1", "file:///data/c1"),
        ("/", "file:///"),
        ("hdfs://nn:8020/", "hdfs://nn:8020"),
        ("s3a://bucket/warehouse/", "s3a://bucket/warehouse"),
    ],
)
def test_a_file_system_is_stored_in_one_form(given: str, stored: str) -> None:
    assert cluster(given).filesystem == stored


@pytest.mark.parametrize(
    ("one", "other"),
    [("/data/c1", "file:///data/c1/"), ("/data", "/data/c2"), ("/", "/data"), ("s3a://b/x/y", "s3a://b/x")],
)
def test_clusters_do_not_share_a_file_system(one: str, other: str) -> None:
    properties = {"a": C1 | {"filesystem": one}, "b": C1 | {"filesystem": other}}
    with pytest.raises(InvalidClusterPropertiesError, match="cluster 'b': its filesystem"):
        Clusters.from_properties(properties, "a")


@pytest.mark.parametrize(("one", "other"), [("/data/c1", "/data/c10"), ("s3a://a/x", "s3a://b/x"), ("/x", "hdfs:///x")])
def test_file_systems_side_by_side_are_fine(one: str, other: str) -> None:
    assert len(Clusters.from_properties({"a": C1 | {"filesystem": one}, "b": C1 | {"filesystem": other}}, "a")) == 2


@pytest.mark.parametrize(
    ("location", "relative"),
    [
        ("", ""),
        ("warehouse/t", "warehouse/t"),
        ("warehouse//t/./", "warehouse/t"),
        ("t/ds=2013-01-01 00%3A00", "t/ds=2013-01-01 00%3A00"),
        ("hour:5/x", "hour:5/x"),
        ("/data/c1/warehouse/t", "warehouse/t"),
        ("/data/c1", ""),
        ("file:/data/c1/t", "t"),
        ("file:///data/c1/t/", "t"),
    ],
)
def test_locations_inside_the_cluster(location: str, relative: str) -> None:
    assert cluster("/data/c1").relative(location) == relative
    assert cluster("/data/c1").uri(location) == ("file:///data/c1/" + relative).rstrip("/")


@pytest.mark.parametrize(
    "location",
    ["/data/c10/t", "/data", "../c2", "a/../../c2", "file:///data/c1/../c2", "hdfs://nn/data/c1/t", "hdfs:/data/c1/t"],
)
def test_locations_outside_the_cluster_are_refused(location: str) -> None:
    for ask in (cluster("/data/c1").relative, cluster("/data/c1").uri):
        with pytest.raises(LocationOutsideClusterError, match="lies outside cluster c1"):
            ask(location)


def test_a_path_without_scheme_is_one_of_the_clusters_file_system() -> None:
    assert cluster("hdfs://nn:8020/w").uri("/w/t") == "hdfs://nn:8020/w/t"
    assert cluster("hdfs://nn:8020").uri("t") == "hdfs://nn:8020/t"
    assert cluster("/").uri("t") == "file:///t"
    assert cluster("/").uri("") == "file:///"


name = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda text: text not in (".", "..")
)


@given(
    st.sampled_from(["/data/c1", "/", "hdfs://nn:8020", "hdfs://nn:8020/w", "s3a://bucket/a/b"]),
    st.lists(name, max_size=4).map("/".join).filter(lambda location: ":/" not in location),
)
def test_a_location_survives_the_round_trip_through_its_uri(filesystem: str, location: str) -> None:
    here = cluster(filesystem)
    assert here.relative(here.uri(location)) == here.relative(location) == location


@pytest.mark.parametrize(
    ("jobtracker", "kind"),
    [
        ("local", JobTrackerKind.LOCAL),
        ("local[2]", JobTrackerKind.LOCAL),
        ("local[*]", JobTrackerKind.LOCAL),
        ("local[*,3]", JobTrackerKind.LOCAL),
        ("sc://host", JobTrackerKind.CONNECT),
        ("sc://host:15002", JobTrackerKind.CONNECT),
        ("sc://host:15002/;token=abc;user_id=x", JobTrackerKind.CONNECT),
        ("sc://[::1]:15002", JobTrackerKind.CONNECT),
        ("spark://host:7077", JobTrackerKind.SUBMIT),
        ("spark://a:7077,b:7077", JobTrackerKind.SUBMIT),
        ("yarn", JobTrackerKind.SUBMIT),
        ("k8s://https://host:6443", JobTrackerKind.SUBMIT),
        ("spark_default", JobTrackerKind.CONNECTION),
        ("my.spark-2", JobTrackerKind.CONNECTION),
    ],
)
def test_jobtracker_kind(jobtracker: str, kind: JobTrackerKind) -> None:
    assert jobtracker_kind(jobtracker) is kind
    assert Cluster("c", "/x", jobtracker).kind is kind


@pytest.mark.parametrize(
    "jobtracker",
    [
        "",
        "local[",
        "local[0]",
        "local[x]",
        "sc://",
        "sc://host:x",
        "spark://host",
        "spark://",
        "k8s://",
        "a b",
        "x://y",
    ],
)
def test_malformed_jobtrackers_are_refused(jobtracker: str) -> None:
    with pytest.raises(InvalidClusterPropertiesError, match="cluster 'c'"):
        Cluster("c", "/x", jobtracker)
