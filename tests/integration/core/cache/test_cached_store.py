"""Reads with a write id list: from memory without a database call, and never stale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_hivex.core.catalog.given_lists import GivenList, StateOf
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidOperationError,
    InvalidWriteIdListError,
    MissingWriteIdListError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import Column, Table, TableType
from airflow_hivex.core.model.predicates import And, ColumnReference, Comparison, In, IsNull, Like, Not, Or, Predicate
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.store.engine import Store
from tests.integration.core.cache.conftest import STORAGE, E, P, Process, T, Writer

WANTED = Comparison(ColumnReference("d"), "=", "x")


def test_equivalent_list_is_answered_without_a_database_call(near: Process, writer: Writer) -> None:
    ids = writer.list_of(T)
    found = near.catalog.get_table(*T, ids)
    assert found == writer.catalog.get_table(*T)
    assert near.hits(lambda: near.catalog.get_table(*T, ids))
    assert near.hits(lambda: near.catalog.get_table("DEFAULT", "T", str(ids)))
    # Ids that were allocated and have not committed change nothing.
    writer.begin(T)
    writer.begin(T)
    later = writer.list_of(T)
    assert later != ids
    assert near.hits(lambda: near.catalog.get_table(*T, later))
    assert near.catalog.get_table(*T, later) == found


def test_list_that_sees_another_commit_is_answered_by_the_database(near: Process, writer: Writer) -> None:
    near.catalog.get_table(*T, writer.list_of(T))
    writer.altered(T, k="v")
    ids = writer.list_of(T)
    assert near.catalog.get_table(*T, ids).parameters["k"] == "v"
    assert near.reasons()[-1] == "stale"
    assert near.hits(lambda: near.catalog.get_table(*T, ids))


def test_list_of_the_writer_itself_does_not_tag_the_entry(near: Process, writer: Writer) -> None:
    """Its own id counts as committed in it, and the change comes later."""
    txn_id, _, ids = writer.begin(T)
    near.catalog.get_table(*T, ids)
    writer.alter(T, txn_id, ids, k="v")
    writer.transactions.commit(txn_id)
    assert near.catalog.get_table(*T, writer.list_of(T)).parameters["k"] == "v"


def test_partitions_are_answered_without_a_database_call(near: Process, writer: Writer) -> None:
    for day in ("y", "x", "z"):
        writer.insert(P, f"d={day}")
    ids = writer.list_of(P)
    reads: list[Callable[[ObjectStore], object]] = [
        lambda catalog: catalog.get_partition(*P, ["x"], ids),
        lambda catalog: list(catalog.get_partitions(*P, ids, batch_size=2)),
        lambda catalog: catalog.get_partitions_by_names(*P, ["d=z", "D=x", "d=no"], ids),
        lambda catalog: catalog.get_partitions_by_expr(*P, WANTED, ids),
        lambda catalog: catalog.get_partitions_by_expr(*P, None, ids),
        lambda catalog: catalog.list_partition_names(*P, None, ids),
        lambda catalog: catalog.list_partition_names(*P, WANTED, ids),
    ]
    for read in reads:
        assert read(near.catalog) == read(writer.catalog)
        assert near.hits(lambda read=read: read(near.catalog))  # type: ignore[misc]
        assert read(near.catalog) == read(writer.catalog)


def test_missing_partition_is_known_once_all_are(near: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    ids = writer.list_of(P)
    near.catalog.list_partition_names(*P, None, ids)

    def read() -> None:
        with pytest.raises(NoSuchPartitionError):
            near.catalog.get_partition(*P, ["no"], ids)

    assert near.hits(read)


def test_new_partitions_of_an_insert_are_seen(near: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    near.catalog.get_partition(*P, ["x"], writer.list_of(P))
    near.catalog.list_partition_names(*P, None, writer.list_of(P))
    writer.insert(P, "d=y")
    ids = writer.list_of(P)
    assert near.catalog.list_partition_names(*P, None, ids) == ["d=x", "d=y"]
    assert near.catalog.get_partition(*P, ["y"], ids).name == "d=y"


def test_change_without_a_write_id_is_seen_by_readers_that_took_the_list_here(near: Process, writer: Writer) -> None:
    """Lists that the transaction manager gives know the version of their table; their text form does not."""
    near.catalog.list_partition_names(*P, None, writer.list_of(P))
    table = writer.catalog.get_table(*P)
    writer.catalog.add_partitions(*P, [writer.catalog.new_partition(table, ["x"])])
    assert near.catalog.list_partition_names(*P, None, writer.list_of(P)) == ["d=x"]
    writer.catalog.drop_table(*T)
    near.catalog.get_table(*P, writer.list_of(P))


def test_table_that_was_dropped_and_created_again_is_not_mistaken(near: Process, writer: Writer) -> None:
    writer.insert(T)
    near.catalog.get_table(*T, writer.list_of(T))
    writer.catalog.drop_table(*T)
    with pytest.raises(NoSuchTableError):
        near.catalog.get_table(*T)
    writer.catalog.create_table(Table(*T, STORAGE, parameters={"transactional": "true", "k": "v"}))
    writer.insert(T)
    assert near.catalog.get_table(*T, writer.list_of(T)).parameters["k"] == "v"


def test_renamed_table_has_its_new_name_only(near: Process, writer: Writer) -> None:
    near.catalog.get_table(*T, writer.list_of(T))
    txn_id, _, ids = writer.begin(T)
    table = writer.catalog.get_table(*T)
    writer.catalog.alter_table(
        *T, Table("default", "u", table.storage, parameters=table.parameters), ids, txn_id=txn_id
    )
    writer.transactions.commit(txn_id)
    u = ("default", "u")
    assert near.catalog.get_table(*u, writer.list_of(u)).name == "u"
    near.follower.catch_up()
    with pytest.raises(NoSuchTableError):
        near.catalog.get_table(*T, str(ids))


def test_missing_list_is_refused_for_managed_tables_only(near: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    for catalog in (near.catalog, writer.catalog):
        reads: list[Callable[[], object]] = [
            lambda catalog=catalog: catalog.get_table(*T, None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.get_tables("default", ["t"], {"t": None}),  # type: ignore[misc]
            lambda catalog=catalog: catalog.get_partition(*P, ["x"], None),  # type: ignore[misc]
            lambda catalog=catalog: list(catalog.get_partitions(*P, None)),  # type: ignore[misc]
            lambda catalog=catalog: catalog.get_partitions_by_names(*P, ["d=x"], None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.get_partitions_by_expr(*P, None, None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.list_partition_names(*P, None, None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.drop_table(*T, None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.drop_partitions(*P, ["d=x"], None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.rename_partition(*P, "d=x", "d=y", None),  # type: ignore[misc]
            lambda catalog=catalog: catalog.create_table(
                Table("default", "n", STORAGE, parameters={"transactional": "true"}), None
            ),  # type: ignore[misc]
        ]
        for _ in range(2):
            # From memory and from the database.
            for read in reads:
                with pytest.raises(MissingWriteIdListError):
                    read()
            catalog.get_table(*T, writer.list_of(T))
            catalog.list_partition_names(*P, None, writer.list_of(P))
        assert catalog.get_table(*E, None).name == "e"
    assert writer.catalog.list_tables("default") == ["e", "p", "t"]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "  ",
        "default.t",
        "default.t:5",
        "default.t:5:x::",
        "default.t:5:9223372036854775807:1:1",
        "default.other:5:9223372036854775807::",
        "null:5:9223372036854775807::",
        ValidWriteIdList.parse(""),
        ValidWriteIdList.of(None, 5),
        ValidWriteIdList.of("default.t", 2**63 - 1),
    ],
    ids=str,
)
def test_list_that_is_not_one_of_the_table_is_refused(
    near: Process, writer: Writer, given: ValidWriteIdList | str
) -> None:
    for catalog in (near.catalog, writer.catalog):
        for _ in range(2):
            with pytest.raises(InvalidWriteIdListError):
                catalog.get_table(*T, given)
            catalog.get_table(*T, writer.list_of(T))
        with pytest.raises(InvalidWriteIdListError):
            catalog.drop_table(*T, given)
    assert writer.catalog.get_table(*T).name == "t"


def test_read_without_the_argument_returns_the_state_of_now(near: Process, writer: Writer) -> None:
    near.catalog.get_table(*T, writer.list_of(T))
    writer.catalog.alter_table(*T, Table(*T, STORAGE, parameters={"transactional": "true", "k": "v"}))
    assert near.catalog.get_table(*T).parameters["k"] == "v"
    assert near.catalog.get_table(*T, StateOf.NOW).parameters["k"] == "v"


def test_table_on_a_cluster_is_kept_by_cluster(near: Process, writer: Writer) -> None:
    ids = writer.list_of(T)
    near.catalog.get_table(*T, ids, cluster="c1")
    assert near.hits(lambda: near.catalog.get_table(*T, ids, cluster="c1"))
    assert near.catalog.get_table(*T, ids, cluster="c1") == writer.catalog.get_table(*T, cluster="c1")


def test_named_tables_are_answered_together(near: Process, writer: Writer) -> None:
    lists = {"t": writer.list_of(T), "p": writer.list_of(P)}
    near.catalog.get_table(*T, lists["t"])
    near.catalog.get_table(*P, lists["p"])
    assert near.hits(lambda: near.catalog.get_tables("default", ["p", "t"], lists))
    found = near.catalog.get_tables("default", ["p", "no", "t", "e"], lists)
    assert found == writer.catalog.get_tables("default", ["p", "no", "t", "e"])


def test_table_without_partition_keys_has_no_partitions(near: Process, writer: Writer) -> None:
    for _ in range(2):
        with pytest.raises(InvalidOperationError):
            near.catalog.list_partition_names(*T, None, writer.list_of(T))


def test_equal_columns_are_kept_once(near: Process, writer: Writer) -> None:
    for number in range(3):
        name = ("default", f"n{number}")
        writer.catalog.create_table(Table(*name, STORAGE, parameters={"transactional": "true"}))
        near.catalog.get_table(*name, writer.list_of(name))
    kept = near.cache.known([("default", f"n{number}") for number in range(3)])
    assert len({id(table.storage.columns) for table in kept}) == 1
    near.cache.drop_named(None)
    assert near.cache.shared_parts == 0


def test_any_predicate_leaves_the_partitions_that_the_database_leaves(near: Process, writer: Writer) -> None:
    name = ("default", "k")
    keys = (Column("d", "string"), Column("n", "int"))
    writer.catalog.create_table(Table(*name, STORAGE, partition_keys=keys, parameters={"transactional": "true"}))
    table = writer.catalog.get_table(*name)
    values = [(day, number) for day in ("x", "y", "xy", None) for number in (1, 2, 10)]
    writer.catalog.add_partitions(*name, [writer.catalog.new_partition(table, each) for each in values])
    day, number = ColumnReference("d"), ColumnReference("N")
    of_one: list[Predicate] = [
        Comparison(day, "=", "x"),
        Comparison(day, "=", "no"),
        Comparison(day, "<>", "x"),
        Comparison(day, ">", "x"),
        In(day, ("x", "xy", None)),
        Like(day, "x%"),
        Not(Like(day, "%y")),
        IsNull(day),
        Comparison(number, "=", 2),
        Comparison(number, "=", "2"),
        Comparison(number, "<", 10),
        In(number, (1, 10)),
    ]
    predicates = [
        *of_one,
        *(And((a, b)) for a in of_one for b in of_one[6:]),
        *(Or((a, b)) for a in of_one[:3] for b in of_one[8:]),
    ]
    ids = writer.list_of(name)
    for predicate in predicates:
        found = near.catalog.get_partitions_by_expr(*name, predicate, ids)
        assert found == writer.catalog.get_partitions_by_expr(*name, predicate), predicate


def managed(name: tuple[str, str], **parameters: str) -> Table:
    """A managed table without partitions."""
    return Table(*name, STORAGE, parameters={"transactional": "true", **parameters})


def with_keys(table: Table) -> Table:
    return replace(table, partition_keys=(Column("d", "string"),))


def seen(catalog: ObjectStore, name: tuple[str, str], ids: GivenList) -> list[object]:
    """The answers of a catalog for a list."""
    found: list[object] = []
    reads: list[Callable[[], object]] = [
        lambda: catalog.get_table(*name, ids),
        lambda: catalog.get_tables(name[0], [name[1]], {name[1]: ids}),
        lambda: catalog.list_partition_names(*name, None, ids),
        lambda: catalog.get_partitions_by_expr(*name, None, ids),
        lambda: catalog.get_partition(*name, ["x"], ids),
    ]
    for read in reads:
        try:
            found.append(read())
        except HivexError as error:
            found.append(error.code)
    return found


def replaced_by_managed(writer: Writer) -> None:
    writer.catalog.drop_table(*E)
    writer.catalog.create_table(with_keys(managed(E)))


def made_transactional(writer: Writer) -> None:
    table = writer.catalog.get_table(*E)
    managed_now = {**table.parameters, "transactional": "true"}
    writer.catalog.alter_table(*E, replace(table.definition, type=TableType.MANAGED_TABLE, parameters=managed_now))
    writer.catalog.drop_partitions(*E, ["d=x"])


def swapped_for_managed(writer: Writer) -> None:
    new = writer.catalog.create_table(with_keys(managed(("default", "new"))))
    old = writer.catalog.get_table(*E)
    writer.catalog.alter_table(*E, replace(old.definition, name="old"))
    writer.catalog.alter_table("default", "new", replace(new.definition, name="e"))


def created_again(writer: Writer) -> None:
    old = writer.catalog.drop_table(*E)
    writer.catalog.create_table(replace(old.definition, parameters={"k": "v"}, id=None, location=""))


@pytest.mark.parametrize("form", ["value", "text"])
@pytest.mark.parametrize("change", [replaced_by_managed, made_transactional, swapped_for_managed])
def test_entry_of_an_external_table_answers_no_list_of_a_managed_one(
    near: Process, writer: Writer, change: Callable[[Writer], None], form: str
) -> None:
    """The follower has applied none of the events."""
    table = writer.catalog.get_table(*E)
    writer.catalog.add_partitions(*E, [writer.catalog.new_partition(table, ["x"])])
    seen(near.catalog, E, None)
    assert near.hits(lambda: near.catalog.list_partition_names(*E, None, None))
    change(writer)
    ids = writer.list_of(E)
    assert seen(near.catalog, E, ids if form == "value" else str(ids)) == seen(writer.catalog, E, ids)


@pytest.mark.parametrize("change", [created_again, swapped_for_managed])
def test_exact_list_is_never_answered_by_another_table_of_the_name(
    near: Process, writer: Writer, change: Callable[[Writer], None]
) -> None:
    table = writer.catalog.get_table(*E)
    writer.catalog.add_partitions(*E, [writer.catalog.new_partition(table, ["x"])])
    seen(near.catalog, E, writer.list_of(E))
    change(writer)
    ids = writer.list_of(E)
    assert seen(near.catalog, E, ids) == seen(writer.catalog, E, ids)


def test_managed_table_that_becomes_external_leaves_nothing(near: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    seen(near.catalog, P, writer.list_of(P))
    near.catalog.contents(near.catalog.snapshot([P]), near.catalog.get_table(*P), None, [])
    table = writer.catalog.get_table(*P)
    writer.catalog.alter_table(*P, replace(table.definition, type=TableType.EXTERNAL_TABLE, parameters={}))
    ids = writer.list_of(P)
    for given in (ids, str(ids), None):
        assert seen(near.catalog, P, given) == seen(writer.catalog, P, given)


def test_table_that_becomes_managed_takes_no_write_id_of_an_earlier_one(near: Process, writer: Writer) -> None:
    """A reader has only the text of the list, in which another table of the name would look the same."""
    writer.insert(T)
    writer.altered(T, k="old")
    text = writer.text_of(T)
    near.catalog.get_table(*T, text)
    writer.catalog.alter_table(
        *T, replace(writer.catalog.get_table(*T).definition, type=TableType.EXTERNAL_TABLE, parameters={})
    )
    writer.catalog.drop_table(*T)
    writer.catalog.create_table(Table(*T, STORAGE, type=TableType.EXTERNAL_TABLE))
    writer.catalog.alter_table(*T, managed(T, k="new"))
    assert near.catalog.get_table(*T, writer.text_of(T)).parameters["k"] == "new"
    assert writer.list_of(T).high_watermark > int(text.split(":")[1])


def test_reader_cannot_change_the_answer_of_later_readers(near: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    ids = writer.list_of(P)
    for _ in range(2):
        table = near.catalog.get_table(*P, ids)
        (partition,) = near.catalog.get_partitions_by_expr(*P, None, ids)
        for mapping in (
            table.parameters,
            table.storage.parameters,
            table.storage.serde_parameters,
            partition.parameters,
            near.catalog.get_database("default").parameters,
        ):
            with pytest.raises(TypeError):
                mapping["x"] = "1"  # type: ignore[index]
        names = near.catalog.list_partition_names(*P, None, ids)
        names.clear()
        near.catalog.get_partitions_by_expr(*P, None, ids).clear()
    assert near.catalog.list_partition_names(*P, None, ids) == ["d=x"]
    assert near.catalog.get_table(*P, ids) == writer.catalog.get_table(*P)


def test_tables_that_are_read_together_are_kept(near: Process, writer: Writer) -> None:
    lists = {name[1]: writer.list_of(name) for name in (T, P)}
    wanted = [*lists, "not_there"]
    first = near.catalog.get_tables("default", wanted, {**lists, "not_there": None})
    assert [table.name for table in first] == ["p", "t"]
    assert near.hits(lambda: near.catalog.get_tables("default", ["T", "p"], {"T": str(lists["t"]), "p": lists["p"]}))
    assert near.hits(lambda: near.catalog.get_table(*T, lists["t"]))
    writer.altered(T, k="v")
    new = {**lists, "t": writer.list_of(T)}
    trips = near.counted(lambda: near.catalog.get_tables("default", ["t", "p"], new))
    assert len(trips) <= 2
    assert near.catalog.get_tables("default", ["t", "p"], new)[1].parameters["k"] == "v"


def test_changes_of_a_schema_leave_no_parts(near: Process, writer: Writer) -> None:
    for number in range(60):
        table = writer.catalog.get_table(*P)
        columns = (*table.columns, Column(f"c{number}", "int"))
        writer.catalog.alter_table(*P, replace(table.definition, storage=replace(table.storage, columns=columns)))
        near.catalog.get_table(*P, writer.list_of(P))
        near.catalog.list_partition_names(*P, None, writer.list_of(P))
        near.follower.catch_up()
    assert near.cache.shared_parts <= 6
    near.cache.drop_named(None)
    assert near.cache.shared_parts == 0


def test_writer_keeps_the_table_that_it_has_created(near: Process, writer: Writer) -> None:
    new = ("default", "new")
    near.catalog.create_table(managed(new), ValidWriteIdList.of("default.new", 0))
    ids = writer.list_of(new)
    assert near.hits(lambda: near.catalog.get_table(*new, str(ids)))
    assert near.catalog.get_table(*new, ids) == writer.catalog.get_table(*new)


def test_writer_keeps_the_table_that_it_has_changed(near: Process, writer: Writer) -> None:
    """With the new list; a reader with an older one is not answered by it."""
    before = writer.list_of(P)
    near.catalog.list_partition_names(*P, None, before)
    table = near.catalog.get_table(*P, before)
    near.catalog.alter_table(*P, replace(table.definition, parameters={**table.parameters, "k": "v"}), before)
    near.catalog.add_partitions(*P, [near.catalog.new_partition(table, ["x"])], writer.list_of(P))
    ids = writer.list_of(P)
    assert near.hits(lambda: near.catalog.get_table(*P, str(ids)))
    assert near.hits(lambda: near.catalog.list_partition_names(*P, None, str(ids)))
    assert near.catalog.get_table(*P, ids).parameters["k"] == "v"
    assert near.catalog.list_partition_names(*P, None, ids) == ["d=x"]
    assert not near.hits(lambda: near.catalog.get_table(*P, str(before)))


def test_writer_keeps_what_its_transaction_has_changed_once_it_commits(near: Process, writer: Writer) -> None:
    writer.transactions.when_committed = near.catalog.keep_written
    before = near.catalog.get_table(*T, writer.list_of(T))
    txn_id, _, ids = writer.begin(T)
    near.catalog.alter_table(
        *T, replace(before.definition, parameters={**before.parameters, "k": "v"}), ids, txn_id=txn_id
    )
    assert not near.hits(lambda: near.catalog.get_table(*T, str(ids)))
    writer.transactions.commit(txn_id)
    now = writer.text_of(T)
    assert near.hits(lambda: near.catalog.get_table(*T, now))
    assert near.catalog.get_table(*T, now).parameters["k"] == "v"


def test_write_that_is_rolled_back_leaves_nothing(near: Process, writer: Writer) -> None:
    before = near.catalog.get_table(*T, writer.list_of(T))
    taken = managed(("default", "p"))
    with pytest.raises(AlreadyExistsError):
        near.catalog.alter_table(*T, taken, writer.list_of(T))
    ids = writer.list_of(T)
    assert near.catalog.get_table(*T, ids) == before
    assert near.catalog.get_table(*T, str(ids)) == writer.catalog.get_table(*T)


def test_commit_event_has_the_list_of_each_table(writer: Writer, store: Store) -> None:
    open_id, _, _ = writer.begin(T)
    writer.insert(T)
    writer.altered(P, k="v")
    commits = [each for each in NotificationLog(store).events() if each.type is EventType.COMMIT_TXN]
    found = {name: text for each in commits for name, text in each.message["valid_write_ids"].items()}
    assert found == {"default.t": writer.text_of(T), "default.p": writer.text_of(P)}
    writer.transactions.abort(open_id)
    txn_ids = writer.transactions.open(2)
    for txn_id in txn_ids:
        writer.transactions.allocate_write_ids([txn_id], *T)
    writer.transactions.commit_together(txn_ids)
    last = NotificationLog(store).events()[-1]
    assert ValidWriteIdList.parse(last.message["valid_write_ids"]["default.t"]).is_valid(
        last.message["write_ids"]["default.t"]
    )
