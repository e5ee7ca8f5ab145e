"""A closed namespace refuses every kind of statement with every kind of foreign object, before a job runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.commands.handlers import HANDLERS
from airflow_hivex.core.errors import ForeignNameError, HivexError, InvalidObjectError, InvalidOperationError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.session_objects import TemporaryTable, TemporaryView, Variable
from airflow_hivex.core.namespaces.closure import NamedStatement
from airflow_hivex.core.parser.reader import read
from tests import evidence
from tests.acceptance.foreign_objects import OWN, QUERIES, TEMPLATES, ForeignStatement, ForeignStatements
from tests.acceptance.test_closed_namespaces import create_function
from tests.acceptance.test_links import create_view
from tests.conftest import Counts

CLOSED = "ALTER DATABASE a SET DBPROPERTIES ('hivex.namespace.mode' = 'true')"


@pytest.fixture
def a(metastore: Metastore) -> Iterator[Session]:
    """A session in namespace A, which is closed after it was given foreign objects of each kind."""
    root = Path(metastore.clusters.get("c1").filesystem.removeprefix("file://"))
    for folder in ("theirs/ext/inner", "elsewhere/p=1", "spare", "own_ext/p=1"):
        (root / folder).mkdir(parents=True)
    (root / "theirs/ext/file.orc").touch()
    (root / "to_theirs").symlink_to(root / "theirs")
    with metastore.session(user="tester") as session:
        for text in (
            *("CREATE DATABASE a", "CREATE DATABASE b", "CREATE DATABASE c", "CREATE TABLE c.t (id INT)"),
            *("CREATE TABLE b.t (id INT)", "INSERT INTO b.t VALUES (1), (2)"),
            "CREATE TABLE b.parted (id INT) PARTITIONED BY (p INT)",
            "INSERT INTO b.parted VALUES (1, 1)",
            "CREATE EXTERNAL TABLE b.e (id INT) STORED AS ORC LOCATION 'theirs/ext'",
            "CREATE EXTERNAL TABLE b.x (id INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION 'their_parts'",
            "ALTER TABLE b.x ADD PARTITION (p = 1) LOCATION 'elsewhere'",
            "USE c",
            "CREATE LINK TO t@b",
            "USE b",
            "CREATE LINK TO t@c",
            "USE a",
            *("CREATE TABLE own (id INT)", "INSERT INTO own VALUES (1)"),
            *("CREATE TABLE parted (id INT) PARTITIONED BY (p INT)", "INSERT INTO parted VALUES (1, 1)"),
            "CREATE EXTERNAL TABLE ext (id INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION 'own_ext'",
            "ALTER TABLE ext ADD PARTITION (p = 1)",
            "CREATE LINK TO t@b",
        ):
            session.sql(text)
        create_function(metastore, "b", "f", "x + 1")
        create_function(metastore, "a", "foreign_f", "b.f(x)")
        create_function(metastore, "a", "outer_f", "foreign_f(x) + 1")
        create_function(metastore, "a", "fine_f", "abs(x)")
        one = "SELECT `id` AS `id` FROM (SELECT {} FROM {}\n)"
        create_view(metastore, "b", "v", one.format("*", "`b`.`t` AS `t`"))
        create_view(metastore, "a", "fine", one.format("*", "`a`.`own` AS `t`"))
        create_view(metastore, "a", "foreign_view", one.format("*", "`b`.`t` AS `t`"))
        create_view(metastore, "a", "outer_view", one.format("*", "`a`.`foreign_view` AS `t`"))
        create_view(metastore, "a", "calling_view", one.format("b.f(id) AS id", "`a`.`own` AS `t`"))
        objects = session._state.objects  # noqa: SLF001 - made without Spark
        columns = (Column("id", "int"),)
        objects.views["temporary_view"] = TemporaryView(one.format("*", "`b`.`t` AS `t`"), columns)
        objects.views["outer_temporary"] = TemporaryView(one.format("*", "`temporary_view`"), columns)
        objects.tables["temporary_table"] = TemporaryTable(("b", "t"), "b", was_closed=False)
        objects.functions["temporary_f"] = "(x INT) RETURNS INT RETURN `b.f`(x)"
        objects.permanent["temporary_f"] = (("b", "f"),)
        objects.variables["known"] = Variable("int", 1, "1", None, "NULL")
        session.sql(CLOSED)
        yield session
        objects.tables.clear()


def test_every_kind_of_statement_has_an_entry() -> None:
    assert set(TEMPLATES) == set(HANDLERS), "say where the new kind of statement names objects of namespaces"
    for kind, templates in TEMPLATES.items():
        for template in templates:
            text = template.replace("{q}", QUERIES[0])
            for place, own in OWN.items():
                text = text.replace(f"{{{place}}}", own)
            assert type(read(text, database="a")) is kind, text


@pytest.mark.evidence
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_no_statement_of_a_closed_namespace_gets_at_another_one(
    metastore: Metastore, a: Session, counts: Counts
) -> None:
    root = metastore.clusters.get("c1").filesystem.removeprefix("file://")
    before = state_of(metastore, root)
    amount = evidence.amount("HIVEX_FOREIGN_STATEMENTS", share=150, whole=5_000)
    done: Counter[str] = Counter()
    for number, statement in enumerate(islice(ForeignStatements(Random(evidence.SEED), root), amount)):
        check_refused(a, statement)
        if statement.is_in_text:
            found = metastore.namespaces.check("a", [NamedStatement("here", statement.text)])
            assert any(each.object == "here" for each in found.dependencies), statement
            done["found by the closure check"] += 1
        done["statements refused"] += 1
        if number % 100 == 0:
            assert state_of(metastore, root) == before, statement
    assert state_of(metastore, root) == before
    # The definitions behind the other statements are found without a statement.
    found = metastore.namespaces.check("a")
    assert {(each.kind, each.object, each.name) for each in found.dependencies} == {
        ("view", "a.foreign_view", "b.t"),
        ("view", "a.calling_view", "b.f"),
        ("function", "a.foreign_f", "b.f"),
    }
    counts["statements of a closed namespace with foreign objects"] = dict(done)


def check_refused(session: Session, statement: ForeignStatement) -> None:
    """Run a statement, and see that the namespace of the object is what it is refused for."""
    with pytest.raises(HivexError) as error:
        session.sql(statement.text)
    refusal = error.value
    assert isinstance(refusal, ForeignNameError | InvalidObjectError | InvalidOperationError), (statement, refusal)
    if not isinstance(refusal, ForeignNameError):
        reasons = ("not apart from", "holds the tables of", "belongs to", "was made in namespace b", "not take a link")
        assert any(reason in str(refusal) for reason in reasons), (statement, refusal)


def state_of(metastore: Metastore, root: str) -> object:
    """Everything that a statement could change: the definitions of all namespaces, and the files."""
    catalog = metastore.catalog
    tables = [
        (name, sorted(map(repr, catalog.get_tables(name, catalog.list_tables(name)))), catalog.get_database(name))
        for name in catalog.list_databases()
    ]
    files = sorted((str(each), each.stat().st_size) for each in Path(root).rglob("*") if each.is_file())
    return tables, [catalog.list_functions(name) for name in ("a", "b", "c")], files
