"""The migration of a metastore database to the schema of this release, and the database's revision."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, String, column, inspect, select, table, text
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError

from airflow_hivex.core.errors import (
    NotAMetastoreError,
    StorePermissionError,
    StoreRefusedError,
    StoreTooNewError,
    StoreTooOldError,
)
from airflow_hivex.core.store.connecting import WRITING
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import together

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

VERSION_TABLE = "hivex_alembic_version"
MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of the migrations. The first migration makes the schema of the first release."""
_REVISION = select(column("version_num", String)).select_from(table(VERSION_TABLE))
# Any constant that all clients share.
_ADVISORY_LOCK = 0x68697665_78
_MOST_NAMED = 5
# Source: PostgreSQL appendix A: undefined_table.
_UNDEFINED_TABLE = "42P01"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The revision of a database, or None for an empty database, and the revision of this release.

    ``known`` is False if this release does not have the database's revision.
    """

    found: str | None
    head: str
    known: bool

    @property
    def state(self) -> str:
        """Return ``new`` for an empty database, or else ``current``, ``older`` or ``newer`` than this release."""
        if self.found is None:
            return "new"
        if self.found == self.head:
            return "current"
        return "older" if self.known else "newer"


def status(store: Store) -> SchemaStatus:
    """Return the revisions of the database and of this release. The database is not changed.

    Raises:
        NotAMetastoreError: the database has tables of another program.
    """
    with store.read() as connection:
        return _status(store, connection)


def prepare(store: Store, *asked: Select[Any]) -> list[list[Any]]:
    """Create the schema in an empty database, or check the revision of an existing metastore.

    Several processes are allowed to call this function at the same time.

    Raises:
        StoreTooOldError: the database must be upgraded first; the message has the command.
        StoreTooNewError: a newer release has upgraded the database.
        NotAMetastoreError: the database has tables of another program, or the file is not a database.
    """
    answers = _of_current(store, asked) if store.is_postgresql else None
    if answers is not None:
        return answers
    found = status(store)
    if found.state == "new":
        upgrade(store)
    if found.state == "older":
        raise StoreTooOldError(store.name, str(found.found), found.head)
    if found.state == "newer":
        raise StoreTooNewError(store.name, str(found.found), found.head)
    store.enable_write_ahead_log()
    with store.read() as connection:
        return together(connection, *asked)


def _of_current(store: Store, asked: Sequence[Select[Any]]) -> list[list[Any]] | None:
    """Return the rows of queries, or None if the database does not have the revision of this release."""
    try:
        with store.read() as connection:
            revisions, *answers = together(connection, _REVISION, *asked)
    except StoreRefusedError:
        # A table is missing, or may not be read: the next query has the reason.
        return None
    return answers if [row.version_num for row in revisions] == [_head(MIGRATIONS)] else None


def upgrade(store: Store) -> SchemaStatus:
    """Migrate the database to this release's schema, and return the status before the migration.

    All migrations run in one database transaction.

    Raises:
        StoreTooNewError: a newer release has upgraded the database.
        NotAMetastoreError: the database has tables of another program, or the file is not a database.
    """
    began = time.monotonic()
    try:
        with _connected(store) as connection:
            if store.is_postgresql:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            before = _status(store, connection)
            if before.state == "newer":
                raise StoreTooNewError(store.name, str(before.found), before.head)
            if before.state != "current":
                from alembic import command

                config = alembic_config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
            connection.commit()
            return before
    except (OperationalError, InterfaceError) as error:
        raise store.unavailable(error, time.monotonic() - began) from error
    except ProgrammingError as error:
        # The definitions are valid, so the error can only be about permissions or the place of the schema.
        raise StorePermissionError(store.name, str(error.orig).partition("\n")[0]) from error


@contextmanager
def _connected(store: Store) -> Iterator[Connection]:
    """Yield a connection for writing.

    On this connection SQLite does not check foreign keys, so a migration can rebuild a table with its rows.

    Source: https://www.sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes".
    """
    if store.is_postgresql:
        # Without the time limits of changes: a migration may wait long for another one, or between two statements.
        with store.engine.connect() as connection:
            yield connection
        return
    with store.engine.connect().execution_options(**{WRITING: True}) as connection:
        raw: Any = connection.connection.dbapi_connection
        raw.execute("PRAGMA foreign_keys = OFF")
        try:
            yield connection
        finally:
            # Within a transaction the PRAGMA would have no effect.
            connection.rollback()
            raw.execute("PRAGMA foreign_keys = ON")


def _status(store: Store, connection: Connection) -> SchemaStatus:
    head = _head(MIGRATIONS)
    if head is not None and _stored_revision(connection) == head:
        return SchemaStatus(head, head, known=True)
    from alembic.runtime.migration import MigrationContext

    script = _script(MIGRATIONS)
    head = str(script.get_current_head())
    found = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if found is None:
        _check_empty(store, connection)
    known = found is None or any(revision.revision == found for revision in script.walk_revisions())
    return SchemaStatus(found, head, known)


def _check_empty(store: Store, connection: Connection) -> None:
    """Refuse a database with tables of another program, such as the tables of Airflow."""
    inspector = inspect(connection)
    foreign = sorted((*inspector.get_table_names(), *inspector.get_view_names()))
    if foreign:
        shown = ", ".join(foreign[:_MOST_NAMED]) + (
            f" and {len(foreign) - _MOST_NAMED} more" * (len(foreign) > _MOST_NAMED)
        )
        raise NotAMetastoreError(store.name, f"it has tables of something else ({shown})")
    if store.is_postgresql and connection.scalar(text("SELECT current_schema()")) is None:
        raise StorePermissionError(store.name, "no schema of its search path exists; CREATE SCHEMA first")


def _stored_revision(connection: Connection) -> str | None:
    """Return the revision of a database, or None if the database has no revision or several revisions."""
    is_alone = not connection.in_transaction() and connection.dialect.name == "postgresql"
    if not is_alone and not inspect(connection).has_table(VERSION_TABLE):
        return None
    try:
        found = connection.execute(_REVISION).scalars().all()
    except ProgrammingError as error:
        # Outside of a transaction an error costs less than a question before.
        if is_alone and getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE:
            return None
        raise
    return found[0] if len(found) == 1 else None


@cache
def _head(migrations: Path) -> str | None:
    """Return the newest revision, read from the files of the migrations, or None if only Alembic can find the revision.

    Reading the files is faster than Alembic, which runs them.
    """
    texts = [file.read_text() for file in migrations.joinpath("versions").glob("[0-9]*.py")]
    revisions = {found[1] for each in texts if (found := re.search(r'^revision = "(\w+)"$', each, re.MULTILINE))}
    parents = {found[1] for each in texts if (found := re.search(r'^down_revision = "(\w+)"$', each, re.MULTILINE))}
    heads = revisions - parents
    return heads.pop() if len(heads) == 1 and len(revisions) == len(texts) else None


@cache
def _script(migrations: Path) -> ScriptDirectory:  # noqa: ARG001 - the cache's key
    from alembic.script import ScriptDirectory

    # Its first use runs the files of all revisions.
    return ScriptDirectory.from_config(alembic_config())


def alembic_config() -> Config:
    """Return the configuration of Alembic for this package's migrations. The caller must set ``connection``."""
    from alembic.config import Config

    config = Config()
    # ConfigParser reads % as the start of an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
