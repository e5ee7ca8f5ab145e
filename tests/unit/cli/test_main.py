from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Hivex = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hivex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hivex:
    """A function that runs the command on a new metastore: its exit code, output and complaints."""
    monkeypatch.setenv("HIVEX_METASTORE_URL", f"sqlite:///{tmp_path / 'metastore.db'}")
    monkeypatch.delenv("HIVEX_CLUSTER_PROPERTIES", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


CREATE = "CREATE TABLE t (id INT, note STRING) TBLPROPERTIES ('transactional' = 'true');"


def test_json_prints_one_document_a_statement(hivex: Hivex) -> None:
    code, out, err = hivex("sql", "--format", "json", "-e", "CREATE DATABASE shop; SHOW DATABASES")
    assert (code, err) == (0, "")
    created, shown = map(json.loads, out.splitlines())
    assert created["rows"] == []
    assert [row[0] for row in shown["rows"]] == ["default", "shop"]
    assert set(shown) == {"columns", "rows", "truncated", "cluster", "txn_id", "rows_written", "rows_deleted"}


def test_csv_prints_a_header_and_the_rows(hivex: Hivex) -> None:
    code, out, _ = hivex("sql", "--format", "csv", "-e", "CREATE DATABASE shop; SHOW DATABASES LIKE 'sh*'")
    assert code == 0
    header, row = out.splitlines()
    assert header
    assert row == "shop"


def test_table_shows_rows_and_what_was_done(hivex: Hivex) -> None:
    code, out, _ = hivex("sql", "-e", f"{CREATE} INSERT INTO t VALUES (1, '[bold]x[/]'), (2, NULL); SHOW TABLES")
    assert code == 0
    assert "2 rows written" in out
    assert "(1 row" in out


def test_statements_come_from_a_file_or_standard_input(
    hivex: Hivex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "statements.sql"
    file.write_text("-- ü\nCREATE DATABASE from_file;")
    assert hivex("sql", "-f", str(file))[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("CREATE DATABASE from_input"))
    assert hivex("sql", "-f", "-")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("CREATE DATABASE from_pipe"))
    assert hivex("sql")[0] == 0
    _, out, _ = hivex("sql", "--output", "csv", "-e", "SHOW DATABASES LIKE 'from*'")
    assert out.splitlines()[1:] == ["from_file", "from_input", "from_pipe"]
    assert len(hivex("sql", "--output", "csv", "--max-rows", "1", "-e", "SHOW DATABASES")[1].splitlines()) == 2
    # The comment has the text of the statement, which begins two lines further down.
    file.write_text("CREATE DATABASE first;\n-- SELEC 1\n\nSELEC 1;\nCREATE DATABASE never;")
    code, _, err = hivex("sql", "-f", str(file))
    assert code == 1
    assert "hivex: statement 2 of 3, which begins in line 4 of the script, failed\nhivex: Line 1, column 1" in err
    assert "never" not in hivex("sql", "-e", "SHOW DATABASES")[1]


def test_variables_of_hive_come_from_options(hivex: Hivex) -> None:
    options = ("-d", "like=sh*", "--hivevar", "name=o'brien; x", "--hiveconf", "prefix=shop")
    script = "CREATE DATABASE ${hiveconf:prefix}_1; SHOW DATABASES LIKE '${like}'; SET hivevar:name"
    code, out, err = hivex("sql", "--format", "csv", *options, "-e", script)
    assert (code, err) == (0, "")
    assert "shop_1" in out
    assert "hivevar:name,o'brien; x" in out
    code, _, err = hivex("sql", "--hiveconf", "spark.executor.memory=1g", "-e", script)
    assert (code, "belongs to spark_conf" in err) == (1, True)
    code, _, err = hivex("sql", "-d", "name", "-e", script)
    assert (code, "is not NAME=VALUE" in err) == (2, True)


def test_options_choose_metastore_clusters_database_and_cluster(hivex: Hivex, tmp_path: Path) -> None:
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[1]"} for name in ("c1", "c2")}
    file = tmp_path / "clusters.json"
    file.write_text(json.dumps(clusters))
    for given in (json.dumps(clusters), str(file)):
        url = f"sqlite:///{tmp_path / 'other.db'}"
        code, out, err = hivex(
            "--metastore", url, "--clusters", given, "--default-cluster", "c2",
            "sql", "--cluster", "c1", "--format", "json", "-e", "SHOW CLUSTERS",
        )  # fmt: skip
        assert (code, err) == (0, "")
        assert [row[0] for row in json.loads(out)["rows"]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sql", "-e", "SELEC 1"], "Line 1, column 1"),
        (["sql", "-e", "USE nowhere"], "nowhere"),
        (["sql", "--database", "nowhere", "-e", "SHOW TABLES"], "nowhere"),
        (["sql", "--cluster", "c9", "-e", "SHOW TABLES"], "c9"),
        (["--clusters", "{", "sql", "-e", "SHOW TABLES"], "hive.cluster.properties"),
        (["--metastore", "sqlite:////dev/null/m.db", "sql", "-e", "SHOW TABLES"], "/dev/null/m.db"),
        (["--metastore", "not a url", "metastore", "status"], "not a url"),
    ],
)
def test_error_of_ours_is_one_sentence_and_exit_code_1(hivex: Hivex, arguments: list[str], complaint: str) -> None:
    code, out, err = hivex(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("hivex: ")
    assert complaint in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sql", "-e", "SHOW TABLES", "-f", "x.sql"],
        ["sql", "-f", "/nonexistent.sql"],
        ["sql", "-e", "SHOW TABLES", "--max-rows", "-1"],
        ["sql", "-e", "SHOW TABLES", "--format", "xml"],
        ["metastore"],
        ["fly"],
    ],
)
def test_wrong_usage_is_exit_code_2(hivex: Hivex, arguments: list[str]) -> None:
    code, _, err = hivex(*arguments)
    assert code == 2
    assert "usage: hivex" in err


def test_without_a_metastore_the_usage_says_how_to_name_one(hivex: Hivex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVEX_METASTORE_URL")
    code, _, err = hivex("sql", "-e", "SHOW TABLES")
    assert code == 2
    assert "HIVEX_METASTORE_URL" in err


def test_status_and_upgrade_return_the_revision(hivex: Hivex) -> None:
    code, out, _ = hivex("metastore", "status")
    assert code == 0
    assert "state: new" in out
    code, out, _ = hivex("metastore", "upgrade")
    assert code == 0
    assert "state: current" in out
    assert "state: current" in hivex("metastore", "status")[1]


def test_metastore_may_be_named_behind_the_command(hivex: Hivex, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert hivex("sql", "--metastore", other, "-e", "CREATE DATABASE shop")[0] == 0
    assert "shop" not in hivex("sql", "-e", "SHOW DATABASES")[1]
    assert "shop" in hivex("--metastore", other, "sql", "-e", "SHOW DATABASES")[1]
    assert hivex("metastore", "status", "--metastore", other)[1].startswith(f"url: {other}\n")
    assert hivex("compaction", "show", "--metastore", other, "--output", "csv")[0] == 0
    assert hivex("metastore", "doctor", "--metastore", other, "--output", "json")[0] == 0


def test_missing_clusters_are_answered_with_the_options_that_name_them(
    hivex: Hivex, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = hivex("--metastore", "postgresql://localhost/hivex", "sql", "-e", "SHOW DATABASES")
    assert code == 2
    assert "no clusters are given. Use --clusters JSON|FILE or set HIVEX_CLUSTER_PROPERTIES" in err
    two = json.dumps({name: {"filesystem": f"file:///data/{name}", "jobtracker": "local[2]"} for name in ("a", "b")})
    code, _, err = hivex("--clusters", two, "sql", "-e", "SHOW DATABASES")
    assert code == 1
    assert "hive.default.cluster.name has no value: there are several clusters; set it to one of a, b." in err
    monkeypatch.delenv("HIVEX_METASTORE_URL")
    code, _, err = hivex("sql", "-e", "SHOW DATABASES")
    assert code == 2
    assert "no metastore is given. Use --metastore URL or set HIVEX_METASTORE_URL" in err


def test_help_answers_without_the_store_or_spark() -> None:
    program = (
        "import sys\nfrom airflow_hivex.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'airflow', 'pyspark', 'sqlalchemy', 'sqlglot', 'pyarrow', 'rich'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines()[-1] == "[]"


def test_compactions_on_the_command_line(hivex: Hivex) -> None:
    assert hivex("sql", "-e", f"{CREATE} CREATE VIEW v AS SELECT id FROM t")[0] == 0
    assert hivex("compaction", "initiate")[1].splitlines() == [
        "candidates: 0",
        "initiated: none",
        "did not initiate: none",
        "requeued: none",
        "complete: yes",
    ]
    code, out, _ = hivex(
        "compaction", "request", "t", "--type", "minor", "--pool", "etl", "--property", "compactor.a=b=c"
    )
    assert (code, out) == (0, "Compaction 1 is initiated\n")
    code, out, _ = hivex("compaction", "request", "default.t")
    assert (code, out.startswith("refused: A compaction of default.t is initiated already")) == (1, True)
    _, out, _ = hivex("compaction", "show", "--table", "t", "--status", "initiated", "--format", "json")
    document = json.loads(out)
    assert dict(zip(document["columns"], document["rows"][0], strict=True))["poolname"] == "etl"
    assert hivex("compaction", "work")[:2] == (0, "no compaction waits\n")
    assert hivex("compaction", "abort", "1", "2")[:2] == (1, "1: aborted\n2: there is no such compaction\n")
    code, out, _ = hivex("compaction", "explain", "default.t", "--format", "csv")
    assert code == 0
    assert "filter: NO_AUTO_COMPACTION" in out
    assert out.splitlines()[-1].startswith("answer,nothing: 0 delta directories are not more than 10")
    assert hivex("compaction", "clean", "--format", "csv")[:2] == (0, "compaction,table,partition,what,detail\n")
    assert hivex("compaction", "plan-clean", "t", "--format", "csv")[0] == 0
    assert hivex("compaction", "request", "t")[0] == 0
    assert hivex("compaction", "work", "--id", "1")[:2] == (0, "compaction 1 does not wait: it is aborted\n")
    assert "requeued_compactions: 0" in hivex("compaction", "housekeep")[1]
    code, out, _ = hivex("compaction", "work", "--all")
    assert (code, out) == (
        0,
        "Compaction 2, major of default.t, is refused: there is nothing to merge: it has no base and 0 deltas\n",
    )
    assert hivex("compaction", "request", "t", "--type", "rebalance", "--buckets", "2", "--order-by", "id desc")[0] == 0
    for arguments, reason in (
        (("request", "t", "--order-by", "id"), "for 'rebalance' only"),
        (("plan-clean", "nothing"), "does not exist"),
        (("plan-clean", "t", "ds=1"), "no partition keys"),
        (("request", "v"), "it is a view"),
        (("request", "nothing"), "does not exist"),
        (("request", "t", "ds=1"), "no partition keys"),
        (("explain", "t@y"), "it is a link"),
        (("show", "--type", "full"), "'rebalance'"),
        (("show", "--status", "done"), "'ready for cleaning'"),
    ):
        code, _, complaint = hivex("compaction", *arguments)
        assert code == 1
        assert reason in complaint
    assert hivex("compaction", "request", "t", "--type", "full")[0] == 2
    assert hivex("compaction", "abort", "x")[0] == 2


def test_reader_that_goes_away_is_no_error_to_shout_about(tmp_path: Path) -> None:
    statements = "; ".join(["SHOW DATABASES"] * 2000)
    environment = os.environ | {"HIVEX_METASTORE_URL": f"sqlite:///{tmp_path / 'metastore.db'}"}
    command = [sys.executable, "-m", "airflow_hivex.cli.main", "sql", "--format", "csv", "-e", statements]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_doctor_reports_lost_rows_by_its_exit_code(hivex: Hivex, tmp_path: Path) -> None:
    table = tmp_path / "warehouse" / "default.db" / "t"
    assert hivex("sql", "-e", f"{CREATE} INSERT INTO t VALUES (1, 'x')")[0] == 0
    code, out, err = hivex("metastore", "doctor")
    assert code == 0
    assert out.endswith("\n(0 rows)\n")
    assert err == (
        "tables to compare: 1, on local\ntables compared: 1 of 1, findings: 0\n0 errors, 0 findings without harm\n"
    )
    (table / "loose").write_text("x")
    code, out, err = hivex("metastore", "doctor", "--format", "json", "--table", "T", "--cluster", "local")
    assert code == 0
    document = json.loads(out)
    (row,) = document["rows"]
    found = dict(zip(document["columns"], row, strict=True))
    message = found.pop("message")
    assert found == {
        "finding": "unknown",
        "cluster": "local",
        "database": "default",
        "table": "t",
        "partition": None,
        "path": f"{table.as_uri()}/loose",
        "files": 1,
        "bytes": 1,
    }
    assert "takes space" in message
    assert err.endswith("0 errors, 1 finding without harm\n")
    (next(table.glob("delta_*")) / "bucket_00000").unlink()
    code, out, err = hivex("metastore", "doctor", "--database", "default")
    assert code == 1
    assert out.index("missing") < out.index("unknown")
    assert err.endswith("1 error, 1 finding without harm\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--table", "nosuch"), "NO_SUCH_TABLE"),
        (("--database", "nosuch"), "NO_SUCH_DATABASE"),
        (("--cluster", "nosuch"), "UNKNOWN_CLUSTER"),
        (("--database", "shop", "--table", "default.t"), "not a table of database shop"),
    ],
)
def test_doctor_refuses_what_is_not_there(hivex: Hivex, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = hivex("metastore", "doctor", *arguments)
    assert (code, out) == (1, "")
    assert reason in err
