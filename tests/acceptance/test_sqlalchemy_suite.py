"""The suite that SQLAlchemy has for dialects: all of it in the evidence, and tests without Spark in each run."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import evidence
from tests.conftest import Counts
from tests.dialect.requirements import LEFT_OUT, NOT_CLAIMED

_ROOT = Path(__file__).parents[2]
_SMALL = "HasTableTest or test_get_columns or test_get_unique_constraints"


@pytest.mark.spark
@pytest.mark.evidence
@pytest.mark.timeout(7200)
def test_each_test_of_the_suite_passes_or_is_skipped_with_a_reason(tmp_path: Path, counts: Counts) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", "tests/dialect/setup.cfg", "--rootdir", "tests/dialect", "-q"]
    command += ["--dburi", f"hivex:///{tmp_path}/metastore.db", "--junitxml", str(report), "tests/dialect/suite.py"]
    if not evidence.IS_WHOLE:
        command += ["-k", _SMALL]
    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:]
    (found,) = ET.parse(report).getroot().iter("testsuite")
    skipped = int(found.attrib["skipped"])
    passed = int(found.attrib["tests"]) - skipped
    assert passed > 5
    assert all(each.attrib["message"] for each in found.iter("skipped"))
    if evidence.IS_WHOLE:
        counts["sqlalchemy.testing.suite"] = {"passed": passed, "skipped": skipped, "failed": 0}


def test_the_page_lists_what_is_not_claimed() -> None:
    page = (_ROOT / "docs" / "how-to" / "sqlalchemy.md").read_text()
    missing = [
        reason for reason in {*NOT_CLAIMED.values(), *LEFT_OUT.values()} if reason.replace("|", "\\|") not in page
    ]
    assert not missing
