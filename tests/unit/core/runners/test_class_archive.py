from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_hivex.core.runners.java import VARIABLE, archive_file, options_to_make, options_to_use


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "classes.jsa"))
    return tmp_path / "classes.jsa"


def test_archive_is_used_when_it_is_there(file: Path) -> None:
    assert options_to_use() == ""
    file.write_bytes(b"classes")
    file.chmod(0o600)
    assert options_to_use() == f"-XX:SharedArchiveFile={file}"
    assert options_to_make(file) == f"-XX:ArchiveClassesAtExit={file}"


def test_archive_that_others_may_write_is_not_used(file: Path) -> None:
    file.write_bytes(b"classes")
    file.chmod(0o666)
    assert options_to_use() == ""


def test_archive_that_no_option_can_name_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a b.jsa"
    file.write_bytes(b"classes")
    file.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(file))
    assert options_to_use() == ""
    with pytest.raises(ValueError, match="cannot stand"):
        options_to_make(file)


def test_archive_is_in_the_users_cache_unless_the_variable_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")
    assert archive_file() is None
    monkeypatch.delenv(VARIABLE)
    found = archive_file()
    assert found is not None
    assert found.parent == tmp_path / "hivex"


def test_java_starts_as_ever_with_an_archive_that_does_not_fit(file: Path) -> None:
    file.write_bytes(b"of another Java" * 1000)
    file.chmod(0o600)
    subprocess.run(["java", options_to_use(), "-version"], check=True, capture_output=True)
