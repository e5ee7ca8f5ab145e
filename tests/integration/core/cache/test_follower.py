"""Catching up with the notification log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, update

from airflow_hivex.core.cache.follower import registered_caches
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import EventsPurgedError, EventsReplacedError, NoSuchTableError
from airflow_hivex.core.events.notification_log import Bookmark, NotificationLog
from airflow_hivex.core.model.objects import Database, Table
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters, notification_log, recorded_events
from tests.integration.core.cache.conftest import STORAGE, E, P, Process, T, Writer
from tests.integration.core.conftest import Clock
from tests.restoring import back_up, restore
from tests.waiting import wait_until


def test_seven_steps_of_a_cache_update(near: Process, far: Process, writer: Writer) -> None:
    """An alter_table of one metastore, as another one's cache sees it."""
    cached = far.catalog.get_table(*T, writer.list_of(T))
    # 1. Both have the same list. 2. The first one changes the table.
    txn_id, _, ids = writer.begin(T)
    writer.alter(T, txn_id, ids, k="v")
    # 3. The entry of the other one is as it was, and answers readers that do not see the change.
    before = writer.list_of(T)
    assert far.hits(lambda: far.catalog.get_table(*T, str(before)))
    assert far.catalog.get_table(*T, str(before)) == cached
    # 4. Its follower reads the change, which has not committed.
    far.follower.catch_up()
    # 5. A read asks the database.
    assert not far.hits(lambda: far.catalog.get_table(*T, str(before)))
    assert far.reasons()[-1] == "uncommitted"
    writer.transactions.commit(txn_id)
    after = writer.text_of(T)
    assert far.catalog.get_table(*T, after).parameters["k"] == "v"
    # 6. The follower reads the commit. 7. The next read is answered from memory.
    far.follower.catch_up()
    assert far.hits(lambda: far.catalog.get_table(*T, after))
    assert far.catalog.get_table(*T, after).parameters["k"] == "v"
    assert far.catalog.get_table(*T, after) == writer.catalog.get_table(*T)


def test_change_is_answered_from_memory_once_its_events_are_applied(far: Process, writer: Writer) -> None:
    writer.insert(P, "d=x")
    far.catalog.get_table(*P, writer.list_of(P))
    far.catalog.list_partition_names(*P, None, writer.list_of(P))
    writer.insert(P, "d=y")
    writer.altered(P, k="v")
    far.follower.catch_up()
    ids = writer.text_of(P)
    assert far.hits(lambda: far.catalog.get_table(*P, ids))
    assert far.hits(lambda: far.catalog.list_partition_names(*P, None, ids))
    assert far.catalog.get_table(*P, ids).parameters["k"] == "v"
    assert far.catalog.list_partition_names(*P, None, ids) == ["d=x", "d=y"]


def test_commits_of_rows_carry_the_entry_on_without_a_read(far: Process, writer: Writer) -> None:
    far.catalog.get_table(*T, writer.list_of(T))
    for _ in range(5):
        writer.insert(T)
    writer.begin(T)
    trips = far.counted(far.follower.catch_up)
    assert not any("tables" in text for trip in trips for text in trip if "SELECT tables" in text)
    assert far.hits(lambda: far.catalog.get_table(*T, writer.text_of(T)))


def test_several_writes_of_one_transaction_are_never_seen_in_part(far: Process, writer: Writer) -> None:
    writer.insert(P, "d=w")
    far.catalog.get_table(*P, writer.list_of(P))
    far.catalog.list_partition_names(*P, None, writer.list_of(P))
    txn_id, _, ids = writer.begin(P)
    writer.alter(P, txn_id, ids, k="v")
    # The follower has one of two events when the transaction commits.
    far.follower.catch_up()
    table = writer.catalog.get_table(*P)
    writer.catalog.add_partitions(*P, [writer.catalog.new_partition(table, ["x"])], ids, txn_id=txn_id)
    writer.transactions.commit(txn_id)
    after = writer.text_of(P)
    for limit in (0, 1, 1, 1):
        far.follower.catch_up(limit)
        assert far.catalog.get_table(*P, after).parameters["k"] == "v"
        assert far.catalog.list_partition_names(*P, None, after) == ["d=w", "d=x"]


def test_read_of_the_table_does_not_vouch_for_its_partitions(far: Process, writer: Writer) -> None:
    """The change is announced; its commit is read from the database, by a question for the table alone."""
    far.catalog.get_table(*P, writer.list_of(P))
    far.catalog.list_partition_names(*P, None, writer.list_of(P))
    txn_id, _, ids = writer.begin(P)
    table = writer.catalog.get_table(*P)
    writer.catalog.add_partitions(*P, [writer.catalog.new_partition(table, ["x"])], ids, txn_id=txn_id)
    far.follower.catch_up()
    writer.transactions.commit(txn_id)
    after = writer.text_of(P)
    far.catalog.get_table(*P, after)
    far.follower.catch_up()
    assert far.catalog.list_partition_names(*P, None, after) == ["d=x"]


def test_aborted_change_is_dropped(far: Process, writer: Writer) -> None:
    far.catalog.get_table(*T, writer.list_of(T))
    txn_id, _, ids = writer.begin(T)
    writer.alter(T, txn_id, ids, k="v")
    far.follower.catch_up()
    writer.transactions.abort(txn_id)
    far.follower.catch_up()
    now = writer.text_of(T)
    assert not far.hits(lambda: far.catalog.get_table(*T, now))
    assert far.hits(lambda: far.catalog.get_table(*T, now))


def test_dropped_table_is_gone_and_a_new_one_is_not_mistaken_for_it(far: Process, writer: Writer) -> None:
    writer.insert(T)
    far.catalog.get_table(*T, writer.list_of(T))
    text = writer.text_of(T)
    txn_id, _, ids = writer.begin(T)
    writer.catalog.drop_table(*T, ids, txn_id)
    writer.transactions.commit(txn_id)
    far.follower.catch_up()
    with pytest.raises(NoSuchTableError):
        far.catalog.get_table(*T, text)
    writer.catalog.create_table(Table(*T, STORAGE, parameters={"transactional": "true", "k": "v"}))
    assert far.catalog.get_table(*T, writer.text_of(T)).parameters["k"] == "v"


@pytest.mark.parametrize("leave", ["drop", "rename", "drop a database"])
def test_text_of_a_list_is_never_that_of_an_earlier_table_of_the_name(far: Process, writer: Writer, leave: str) -> None:
    """The text has no id of the table, and the follower of the cache has not heard of the change yet."""
    catalog, name = writer.catalog, ("others", "t")
    catalog.create_database(Database("others"))
    new = Table(*name, STORAGE, parameters={"transactional": "true"})
    earlier = catalog.create_table(new)
    far.catalog.get_table(*name, writer.text_of(name))
    match leave:
        case "drop":
            catalog.drop_table(*name)
        case "rename":
            catalog.alter_table(*name, replace(earlier.definition, name="u"))
        case _:
            catalog.drop_database("others", cascade=True)
            catalog.create_database(Database("others"))
    later = catalog.create_table(replace(new, parameters={"transactional": "true", "k": "v"}))
    assert later.id != earlier.id
    assert far.catalog.get_table(*name, writer.text_of(name)).id == later.id


def test_text_of_a_list_is_never_that_of_an_earlier_table_of_the_new_name(far: Process, writer: Writer) -> None:
    catalog, name = writer.catalog, ("default", "u")
    catalog.create_table(Table(*name, STORAGE, parameters={"transactional": "true"}))
    # As many write ids as the renamed table will have.
    catalog.alter_table(*name, replace(catalog.get_table(*name).definition, comment="c"))
    far.catalog.get_table(*name, writer.text_of(name))
    catalog.drop_table(*name)
    moved = catalog.alter_table(*T, replace(catalog.get_table(*T).definition, name="u"))
    assert far.catalog.get_table(*name, writer.text_of(name)).id == moved.id


def test_events_of_an_earlier_table_do_not_touch_a_later_one(far: Process, writer: Writer) -> None:
    """A follower that is behind what the database answers."""
    far.follower.begin()
    writer.insert(T)
    writer.insert(T)
    writer.catalog.drop_table(*T)
    writer.catalog.create_table(Table(*T, STORAGE, parameters={"transactional": "true"}))
    far.catalog.get_table(*T, writer.list_of(T))
    far.follower.catch_up()
    writer.altered(T, k="v")
    writer.altered(T, k="w")
    assert far.catalog.get_table(*T, writer.text_of(T)).parameters["k"] == "w"


def test_external_table_follows_the_log(far: Process, writer: Writer) -> None:
    assert far.catalog.get_table(*E, None).parameters == {}
    assert far.catalog.list_partition_names(*E, None, None) == []
    writer.alter(E, 0, None, k="v")
    table = writer.catalog.get_table(*E)
    writer.catalog.add_partitions(*E, [writer.catalog.new_partition(table, ["x"])])
    # Not yet: what is there may be older.
    assert far.hits(lambda: far.catalog.get_table(*E, None))
    assert far.hits(lambda: far.catalog.get_table(*E, "default.e:0:9223372036854775807::"))
    far.follower.catch_up()
    assert far.catalog.get_table(*E, None).parameters == {"k": "v"}
    assert far.catalog.list_partition_names(*E, None, None) == ["d=x"]
    assert far.hits(lambda: far.catalog.list_partition_names(*E, None, None))


def test_external_table_is_read_from_the_database_while_nothing_is_followed(far: Process, writer: Writer) -> None:
    far.catalog.get_table(*E, None)
    far.cache.followed_until = 0.0
    writer.alter(E, 0, None, k="v")
    assert far.catalog.get_table(*E, None).parameters == {"k": "v"}
    assert far.reasons()[-1] == "lagging"


def test_copies_and_compactions_reach_the_entry(far: Process, writer: Writer) -> None:
    writer.insert(T)
    far.catalog.get_table(*T, writer.list_of(T))
    writer.catalog.add_copies(writer.catalog.get_table(*T), "c2", [])
    far.follower.catch_up()
    found = far.catalog.get_table(*T, writer.text_of(T))
    assert [copy.cluster for copy in found.storage.secondaries] == ["c2"]


def test_repeated_events_change_nothing(far: Process, writer: Writer) -> None:
    far.follower.begin()
    first = far.follower.position
    far.catalog.get_table(*T, writer.list_of(T))
    for number in range(3):
        writer.altered(T, k=str(number))
        writer.insert(T)
    far.follower.catch_up()
    for _ in range(2):
        far.follower.position = first
        far.follower.catch_up()
        assert far.catalog.get_table(*T, writer.text_of(T)) == writer.catalog.get_table(*T)
        assert far.hits(lambda: far.catalog.get_table(*T, writer.text_of(T)))


def test_follower_that_was_outrun_by_the_purge_reads_everything_again(
    far: Process, writer: Writer, clock: Clock
) -> None:
    far.catalog.get_table(*E, None)
    writer.alter(E, 0, None, k="v")
    clock.advance(3600)
    NotificationLog(far.store).purge(clock())
    far.follower.catch_up()
    assert far.cache.counting.resynchronizations == 1
    assert far.catalog.get_table(*E, None).parameters == {"k": "v"}


def test_gap_in_the_log_is_noticed(far: Process, writer: Writer) -> None:
    far.catalog.get_table(*E, None)
    writer.alter(E, 0, None, k="v")
    writer.insert(T)
    NotificationLog(far.store).current_event_id()
    lost = notification_log.c.event_id == (far.follower.position or 0) + 1
    far.store.write(lambda connection: connection.execute(delete(notification_log).where(lost)))
    far.follower.catch_up()
    assert far.cache.counting.resynchronizations == 1
    assert far.catalog.get_table(*E, None).parameters == {"k": "v"}


def test_database_that_was_restored_from_a_backup_is_noticed(far: Process, writer: Writer) -> None:
    writer.insert(T)
    far.catalog.get_table(*E, None)
    event_id = far.follower.position or 0

    def restore(connection) -> None:  # type: ignore[no-untyped-def]
        connection.execute(delete(notification_log))
        connection.execute(update(counters).where(counters.c.name == "event").values(value=event_id - 1))

    far.store.write(restore)
    far.follower.catch_up()
    assert far.cache.counting.resynchronizations == 1


def test_event_of_an_unknown_type_drops_whatever_it_is_about(far: Process, writer: Writer, store: Store) -> None:
    far.catalog.get_table(*T, writer.list_of(T))
    far.catalog.get_table(*P, writer.list_of(P))

    def record(database: str | None, table: str | None) -> None:
        values = {"event_ms": 0, "type": "OF_LATER", "database": database, "table": table, "message": {}}
        store.write(lambda connection: connection.execute(insert(recorded_events).values(**values)))

    record("default", "t")
    far.follower.catch_up()
    assert not far.hits(lambda: far.catalog.get_table(*T, writer.list_of(T)))
    assert far.hits(lambda: far.catalog.get_table(*P, writer.list_of(P)))
    record(None, None)
    far.follower.catch_up()
    assert not far.hits(lambda: far.catalog.get_table(*P, writer.list_of(P)))


def test_fill_that_a_change_has_overtaken_is_not_kept(
    processes: list[Process], clusters: Clusters, clock: Clock, writer: Writer
) -> None:
    """The events of a change are applied while the table is read."""
    far = processes[1]
    far.follower.begin()
    ids = writer.list_of(T)
    begun = far.cache.begin()
    table = writer.catalog.get_table(*T)
    stored = writer.catalog.snapshot([T]).tables[T]
    writer.altered(T, k="v")
    far.follower.catch_up()
    far.cache.put_definition(begun, stored, ids, {None: table}, is_used=True)
    assert far.catalog.get_table(*T, writer.text_of(T)).parameters["k"] == "v"
    assert far.catalog.get_table(*T, str(ids)).parameters["k"] == "v"


@pytest.mark.parametrize("metastore_url", ["postgresql", "sqlite"], indirect=True)
def test_thread_follows_by_itself_and_is_quiet_when_nothing_happens(far: Process, writer: Writer) -> None:
    far.catalog.follow = far.follower.start
    far.catalog.get_table(*E, None)
    wait_until(lambda: bool(far_rows(far)))
    try:
        for value in ("v", "w"):
            writer.alter(E, 0, None, k=value)
            wait_until(lambda value=value: far.catalog.get_table(*E, None).parameters == {"k": value})  # type: ignore[misc]
    finally:
        far.follower.stop()
    assert not far_rows(far)


def far_rows(process: Process) -> list[object]:
    return list(registered_caches(process.store))


def test_lost_future_answers_no_reader_after_a_restore_and_as_many_new_events(
    near: Process, far: Process, writer: Writer, store: Store
) -> None:
    """All numbers are equal: ids of tables, transactions, write ids, versions and events."""
    near.catalog.follow = lambda: None
    writer.insert(P, "d=before")
    backup = back_up(store)
    states = []
    for name in ("lost", "new"):
        if states:
            restore(store, backup)
        writer.altered(P, k=name)
        writer.insert(P, f"d={name}")
        ids = writer.list_of(P)
        states.append((str(ids), ids.mark, NotificationLog(store).current_event_id()))
        far.follower.catch_up()
        for process in (near, far):
            for given in (ids, str(ids)):
                if process is near and states[1:]:
                    # It follows no events: its statements notice, and so does each of its fills.
                    process.catalog.snapshot([P])
                assert process.catalog.get_table(*P, given).parameters["k"] == name
                assert process.catalog.list_partition_names(*P, None, given) == ["d=before", f"d={name}"]
            taken = process.catalog.snapshot([P])
            assert taken.tables[P].parameters["k"] == name
            contents = process.catalog.contents(taken, taken.tables[P], None, [])
            assert sorted(each.name for each in contents.partitions) == ["d=before", f"d={name}"]
    assert states[0][:2] == states[1][:2]
    assert far.cache.counting.resynchronizations == 1


def test_noted_restore_empties_the_memory_of_each_process(near: Process, writer: Writer, store: Store) -> None:
    """Without a follower: the next snapshot has another incarnation."""
    near.catalog.follow = lambda: None
    backup = back_up(store)
    for name in ("lost", "new"):
        restore(store, backup)
        if name == "new":
            NotificationLog(store).note_restore()
        writer.altered(P, k=name)
        writer.insert(P, f"d={name}")
        taken = near.catalog.snapshot([P])
        assert taken.tables[P].parameters["k"] == name
        contents = near.catalog.contents(taken, taken.tables[P], None, [])
        assert [each.name for each in contents.partitions] == [f"d={name}"]


def test_reader_of_the_log_learns_of_a_restore(writer: Writer, store: Store) -> None:
    """Also a reader that knows nothing but the id of the last event that it has read."""
    log = NotificationLog(store)
    backup = back_up(store)
    writer.altered(T, k="lost")
    bookmark = log.bookmark()
    restore(store, backup)
    with pytest.raises(EventsReplacedError):
        log.read(Bookmark(bookmark.position))
    with pytest.raises(EventsPurgedError):
        log.events(bookmark.position)
    restore(store, backup)
    writer.altered(T, k="new")
    assert log.current_event_id() == bookmark.position
    with pytest.raises(EventsReplacedError):
        log.read(bookmark)
    with pytest.raises(EventsPurgedError):
        log.events(bookmark.position)
    assert log.current_event_id() > bookmark.position
    assert log.read(log.bookmark())[0] == []
