"""Every statement of the manuals of Hive and Spark does here what docs/reference/language.md says of it.

``make test`` runs a share of those that work, and all of those that are refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.parser.reader import read
from tests.acceptance.language_page import DOES_NOT_APPLY, REFUSED, WORKS, Example, examples, make_tables
from tests.evidence import drawn

SQLITE = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)

# Other sessions would have to hold a transaction and a compaction open.
_ONLY_READ = ("ABORT TRANSACTIONS 1", "ABORT COMPACTIONS 1")
_WORKING_DRAWN = 4


def error_of(metastore: Metastore, root: Path, example: Example) -> str:
    """Return the error of a statement, or an empty text."""
    with metastore.session(user="reader") as session:
        try:
            read(example.text)
            make_tables(session, root, example.text)
            session.sql(example.text)
        except HivexError as error:
            return str(error)
    return ""


@SQLITE
def test_statements_that_are_refused_say_what_the_page_says(metastore: Metastore, tmp_path: Path) -> None:
    found = [each for each in examples() if each.here in (REFUSED, DOES_NOT_APPLY)]
    assert len(found) > 80
    for each in found:
        assert each.note, each.text
        assert each.note in error_of(metastore, tmp_path / "c1", each), each.text


@SQLITE
@pytest.mark.spark
def test_statements_that_work_run_as_they_stand(metastore: Metastore, tmp_path: Path) -> None:
    found = [each for each in examples() if each.here == WORKS]
    assert len(found) > 100
    for each in found:
        read(each.text)
    runnable = [each for each in found if each.text not in _ONLY_READ]
    for each in drawn("statements of the manuals", runnable, _WORKING_DRAWN):
        assert error_of(metastore, tmp_path / "c1", each) == "", each.text


def test_each_row_says_one_of_three_things() -> None:
    found = list(examples())
    assert {each.here for each in found} == {WORKS, REFUSED, DOES_NOT_APPLY}
    assert len({each.text for each in found}) == len(found)
