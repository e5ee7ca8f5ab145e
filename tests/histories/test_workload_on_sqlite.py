"""A long history on SQLite, in a file of its own, so that the tests' processes can share the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Counts
from tests.histories.long_history import check_a_long_history


@pytest.mark.evidence
@pytest.mark.timeout(1500)
def test_no_anomaly_in_a_long_history(sqlite_url: str, tmp_path: Path, counts: Counts) -> None:
    check_a_long_history(sqlite_url, tmp_path, counts)
