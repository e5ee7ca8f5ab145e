"""CREATE, DROP and ALTER DATABASE | SCHEMA | NAMESPACE, and USE."""

from __future__ import annotations

from airflow_hivex.core.model.statements import (
    AlterDatabase,
    CancelMove,
    CreateDatabase,
    DropDatabase,
    MoveDatabase,
    PlacedName,
    UseCluster,
    UseDatabase,
)
from airflow_hivex.core.sql.clauses import once, read_properties, read_property_keys, unsupported_statement
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind, Token, name_of

DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def read_create_database(cursor: Cursor) -> CreateDatabase:
    """Return the statement whose words up to DATABASE are read."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.database_name()
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] | None = None
    while not cursor.at_end:
        token = cursor.peek()
        if cursor.accept("COMMENT"):
            once(cursor, token, comment is not None)
            comment = read_string(cursor, "a comment")
        elif cursor.accept("LOCATION"):
            once(cursor, token, location is not None)
            location = read_string(cursor, "a location")
        elif cursor.accept("WITH"):
            once(cursor, token, properties is not None)
            _expect_properties_word(cursor)
            properties = read_properties(cursor)
        else:
            raise cursor.expected("COMMENT, LOCATION or WITH DBPROPERTIES")
    return CreateDatabase(name, if_not_exists, comment, location, properties or {})


def _expect_properties_word(cursor: Cursor) -> None:
    if not cursor.accept_one("DBPROPERTIES", "PROPERTIES"):
        raise cursor.expected("DBPROPERTIES")


def read_drop_database(cursor: Cursor) -> DropDatabase:
    """Return the statement whose words up to DATABASE are read."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.database_name()
    return DropDatabase(name, if_exists, cursor.accept_one("RESTRICT", "CASCADE") == "CASCADE")


def read_alter_database(cursor: Cursor, first: Token) -> AlterDatabase | MoveDatabase | CancelMove:
    """Return the statement whose words up to DATABASE are read."""
    after = (cursor.peek(1), cursor.peek(2))
    words = tuple(None if token is None else token.word for token in after)
    if words == ("SET", "PRIMARY"):
        return read_move(cursor)
    if words == ("CANCEL", "MOVE"):
        return read_cancel_move(cursor)
    name = cursor.database_name()
    if cursor.accept("UNSET"):
        _expect_properties_word(cursor)
        if_exists = cursor.accept("IF", "EXISTS")
        return AlterDatabase(name, unset=read_property_keys(cursor), if_exists=if_exists)
    if not cursor.accept("SET"):
        raise unsupported_statement(cursor, first)
    if cursor.accept("OWNER"):
        cursor.expect("USER")
        return AlterDatabase(name, owner=cursor.identifier("the name of a user"))
    if cursor.at("MANAGEDLOCATION"):
        raise cursor.unsupported("a database has one location for all of its tables; SET LOCATION changes it")
    if cursor.accept("LOCATION"):
        return AlterDatabase(name, location=read_string(cursor, "a location"))
    _expect_properties_word(cursor)
    return AlterDatabase(name, properties=read_properties(cursor))


def read_move(cursor: Cursor) -> MoveDatabase:
    """Return the statement whose words up to DATABASE are read; SET PRIMARY CLUSTER comes after the name."""
    name = cursor.database_name()
    cursor.expect("SET", "PRIMARY", "CLUSTER")
    cluster = read_cluster(cursor)
    copy_linked = cursor.accept("WITH")
    if copy_linked:
        cursor.expect("LINKED", "TABLES")
    keep_copies = cursor.accept("KEEP")
    if keep_copies:
        cursor.expect("COPIES")
    return MoveDatabase(name, cluster, copy_linked=copy_linked, keep_copies=keep_copies)


def read_cancel_move(cursor: Cursor) -> CancelMove:
    """Return the statement whose words up to DATABASE are read; CANCEL MOVE comes after the name."""
    name = cursor.database_name()
    cursor.expect("CANCEL", "MOVE")
    keep_copies = cursor.accept("KEEP")
    if keep_copies:
        cursor.expect("COPIES")
    return CancelMove(name, keep_copies=keep_copies)


def read_use(cursor: Cursor) -> UseDatabase | UseCluster:
    """USE name, or USE CLUSTER with or without a name; the cursor stands behind USE."""
    if cursor.accept("CLUSTER"):
        return UseCluster(None if cursor.at_end else read_cluster(cursor))
    if cursor.at("CATALOG") and cursor.peek(1) is not None:
        raise cursor.unsupported("there is one catalog; namespaces are databases, and USE names one")
    if cursor.peek(1) is not None:
        cursor.accept_one(*DATABASE_WORDS)
    return UseDatabase(cursor.database_name())


def read_cluster(cursor: Cursor) -> PlacedName:
    """Return the name of a cluster, which ends the statement."""
    start = cursor.offset()
    name = _read_cluster_name(cursor)
    return PlacedName(name, cursor.span_from(start))


def _read_cluster_name(cursor: Cursor) -> str:
    """Return a cluster's name as written: quoted, or words joined by hyphens and points, such as ``us-east-1``."""
    if cursor.at_kind(Kind.STRING):
        return read_string(cursor, "the name of a cluster")
    if cursor.at_kind(Kind.QUOTED):
        return name_of(cursor.next("the name of a cluster"))
    first = last = cursor.next("the name of a cluster")
    while (token := cursor.peek()) is not None and token.start == last.end:
        last = cursor.next("the name of a cluster")
        if not (last.kind in (Kind.WORD, Kind.NUMBER) or last.is_symbol("-", ".")):
            raise cursor.error("a cluster's name that holds more than letters, digits, -, _ and . is quoted", first)
    if first.kind not in (Kind.WORD, Kind.NUMBER):
        raise cursor.error("expected the name of a cluster", first)
    return cursor.text[first.start : last.end]
