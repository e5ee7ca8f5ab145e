from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.partitions import (
    DEFAULT_PARTITION,
    check_folder_name,
    escape,
    partition_name,
    partition_values,
    unescape,
)


def test_a_name_has_its_keys_in_lower_case_and_its_values_as_they_are() -> None:
    assert partition_name(["DS", "hour"], ["2013-01-01", "A"]) == "ds=2013-01-01/hour=A"


@pytest.mark.parametrize("value", [None, ""])
def test_null_and_the_empty_string_are_the_default_partition(value: str | None) -> None:
    assert partition_name(["ds"], [value]) == f"ds={DEFAULT_PARTITION}"


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("2013-01-01 00:30:00", "2013-01-01 00%3A30%3A00"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("100%", "100%25"),
        ("\x01\n\x1f\x7f", "%01%0A%1F%7F"),
        ("\"#%'*/:=?\\{[]^", "%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E"),
        ("}~ &+,.;<>@|$!()`_-", "}~ &+,.;<>@|$!()`_-"),
        ("Zürich 東京", "Zürich 東京"),
    ],
)
def test_values_are_escaped_as_hive_escapes_them(value: str, escaped: str) -> None:
    assert escape(value) == escaped
    assert unescape(escaped) == value


@pytest.mark.parametrize(
    ("text", "value"), [("100%", "100%"), ("%zz", "%zz"), ("%4", "%4"), ("a%e9b", "aéb"), ("%3a", ":")]
)
def test_unescaping_takes_two_hexadecimal_digits_as_one_character(text: str, value: str) -> None:
    assert unescape(text) == value


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1), min_size=1, max_size=4))
def test_values_survive_the_round_trip_through_the_name(values: list[str]) -> None:
    name = partition_name([f"k{at}" for at in range(len(values))], values)
    assert partition_values(name) == tuple(values)
    assert name.count("/") == len(values) - 1


def test_the_number_of_values_must_be_that_of_the_keys() -> None:
    with pytest.raises(ValueError, match="zip"):
        partition_name(["a", "b"], ["1"])


@pytest.mark.parametrize(
    ("value", "is_long"),
    [("x" * 253, False), ("x" * 254, True), ("ü" * 126, False), ("ü" * 127, True), ("/" * 85, True)],
)
def test_the_name_of_a_folder_has_at_most_255_bytes(value: str, is_long: bool) -> None:
    name = partition_name(["p", "q"], ["a", value])
    if not is_long:
        assert check_folder_name(name) == name
        return
    with pytest.raises(InvalidObjectError, match="more than 255 bytes"):
        check_folder_name(name)


@pytest.mark.parametrize("name", ["", "ds", "=1", "ds=1/", "ds=1//hour=2"])
def test_a_name_without_keys_is_refused(name: str) -> None:
    with pytest.raises(InvalidObjectError, match="key=value"):
        partition_values(name)
