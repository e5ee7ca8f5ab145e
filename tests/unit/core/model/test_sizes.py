"""Sizes in bytes as people write them."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.sizes import size_of

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        (" 1000 B ", 1000),
        ("10 GB", 10**10),
        ("10gb", 10**10),
        ("10 G", 10**10),
        ("1.5 TiB", 3 * 2**39),
        ("0.5 KiB", 512),
        ("1.001 KB", 1001),
        ("2.0", 2),
        ("8191 PiB", 8191 * 2**50),
        ("9223 PB", 9223 * 10**15),
        (str(LARGEST), LARGEST),
    ],
)
def test_sizes_are_those_of_their_unit(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "GB",
            "1.5",
            "1.5 B",
            "1.0001 KB",
            "0.3 KiB",
            "1.",
            ".5 GB",
            "1,5 GB",
            "1_000",
            "0",
            "0 GB",
            "0.0 GB",
        ),
        *(
            "-1",
            "+1",
            "-1 GB",
            "1e3",
            "1e3 GB",
            "NaN",
            "Infinity",
            "0x10",
            "10 MiBx",
            "10 MBi",
            "10 IB",
            "10 XB",
            "10 EB",
        ),
        *("10 G B", "10 GB 5 MB", "10 \u212ab", "1 k\u0131b", "\u0661", "\u00b2", "1\u00a0GB", "1\nGB", "1L", "1 GB;"),
        *("8192 PiB", "9224 PB", str(LARGEST + 1), "9" * 20, "9" * 5000, "1.0000000 GB", "999999999999999999 PB"),
    ],
)
def test_misreadable_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidParametersError, match="not a valid size"):
        size_of(text)
