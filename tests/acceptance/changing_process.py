"""A process that writes to tables, compacts and cleans them and changes their definitions, at random."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core import Metastore, Session
from tests.compacted_warehouse import CompactedWarehouse, Row


class Changes:
    """Random changes of the tables ``t``, ``p``, which has partitions, and ``again``."""

    def __init__(self, metastore: Metastore, session: Session, root: Path, drawn: random.Random) -> None:
        self.metastore = metastore
        self.session = session
        self.warehouse = CompactedWarehouse(metastore, root)
        self.drawn = drawn
        self.rows: dict[tuple[str, str | None], list[Row]] = {}
        """The rows of each table or partition that was written to."""
        self._numbers = itertools.count(1)

    def step(self) -> None:
        """Do one of the changes."""
        steps: dict[Callable[[], None], int] = {
            self.write: 8,
            self.delete: 4,
            self.compact: 4,
            self.clean: 3,
            self.describe: 2,
            self.rename: 1,
            self.create_again: 1,
            self.drop_partition: 1,
            self.move: 1,
        }
        (step,) = self.drawn.choices(list(steps), list(steps.values()))
        step()

    def place(self) -> tuple[str, str | None]:
        """A table, or a partition of one."""
        table = self.drawn.choice(("t", "p", "again"))
        return table, f"ds={self.drawn.randint(1, 3)}" if table == "p" else None

    def write(self) -> None:
        at = self.place()
        is_aborted, overwrites = self.drawn.random() < 0.2, self.drawn.random() < 0.15
        written = self.warehouse.write(*at, overwrite=overwrites, ends="abort" if is_aborted else "commit")
        if not is_aborted:
            self.rows[at] = written if overwrites else [*self.rows.get(at, []), *written]

    def delete(self) -> None:
        at = self.place()
        if self.rows.get(at):
            row = self.rows[at].pop(self.drawn.randrange(len(self.rows[at])))
            self.warehouse.write(*at, deletes=[row])

    def compact(self) -> None:
        at = self.place()
        if at in self.rows:
            self.warehouse.compact(*at, self.drawn.choice(("major", "minor")))

    def clean(self) -> None:
        self.metastore.compactor.clean()

    def describe(self) -> None:
        self.session.sql(f"ALTER TABLE {self.place()[0]} SET TBLPROPERTIES ('k' = '{next(self._numbers)}')")

    def rename(self) -> None:
        self.session.sql("ALTER TABLE t RENAME TO away")
        self.session.sql("ALTER TABLE away RENAME TO t")

    def create_again(self) -> None:
        self.session.sql("DROP TABLE again")
        self.session.sql(f"CREATE TABLE again (a bigint) TBLPROPERTIES ('k' = '{next(self._numbers)}')")
        self.rows.pop(("again", None), None)

    def drop_partition(self) -> None:
        value = self.drawn.randint(1, 3)
        self.session.sql(f"ALTER TABLE p DROP IF EXISTS PARTITION (ds = '{value}')")
        self.rows.pop(("p", f"ds={value}"), None)

    def move(self) -> None:
        # The writes know the folder on c1 only, so that it is the primary cluster again afterwards.
        self.session.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
        self.session.sql("ALTER TABLE t SET PRIMARY CLUSTER c1")
        self.metastore.catalog.unregister_copy("default", "t", "c2")


def change_at_random(url: str, clusters: dict[str, dict[str, str]], root: Path, seed: int, done: Path) -> None:
    """Change tables until the file ``stop`` is in ``root``; leave the number of changes in ``done``."""
    settings = {"hivex.dataframe.retention.time": 0}
    with (
        Metastore.open(url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session(user="changing") as session,
    ):
        changes = Changes(metastore, session, root, random.Random(seed))
        count = 0
        while not (root / "stop").exists():
            changes.step()
            count += 1
        done.write_text(str(count))
