"""Mending a database: what can be read is brought into a new one, and the old one is kept beside it."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from jobq.errors import StoreLocked, StoreUnavailable, StoreUnreadable
from jobq.files import sync_directory
from jobq.light import suppress
from jobq_sqlite import connecting, schema
from jobq_sqlite.checking import is_wrong
from jobq_sqlite.publishing import publish
from jobq_sqlite.salvage import Salvage
from jobq_sqlite.trouble import is_damage, primary

if TYPE_CHECKING:
    from jobq_sqlite.database import Database
    from jobq_sqlite.place import Place


def repair(database: Database) -> list[str]:
    """Make the database usable again; what was done, one sentence each.

    It may be interrupted at any moment and done again: the new database takes the place of the old one when it is whole.

    Raises:
        StoreLocked: others have it open.
        StoreError: a newer jobq made it, it is something else, or the system refused.
    """
    place = database.place
    if not place.is_lost() and place.identity() is None:
        return []
    with database.alone():
        if place.is_lost():
            with suppress(FileNotFoundError):
                os.unlink(place.log)
            publish(place)
            place.leave_mark()
            return ["an empty database was begun, since nothing is left of the one before"]
        old = _alone_with(place)
        if old is None:
            return _begin_anew(place)
        try:
            if _is_as_made(database, old) and not is_wrong(old):
                return []
            return _replace(database, old)
        finally:
            old.close()


def _replace(database: Database, old: sqlite3.Connection) -> list[str]:
    place, salvage = database.place, Salvage(old)
    old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with suppress(FileNotFoundError):
        if os.path.getsize(place.log):
            raise StoreUnavailable(f"{place.log} cannot be brought into {place.path}; nothing was changed")
    kept = _unused(place.path)

    def fill(path: str) -> None:
        new = database.connect(path)
        try:
            salvage.into(new)
        finally:
            new.close()
        old.close()
        _keep(place, kept)

    publish(place, fill)
    brought, *told = salvage.told
    return [f"{brought} into a new database; the old one is kept as {kept}", *told]


def _begin_anew(place: Place) -> list[str]:
    """What cannot even be opened is kept, if it was a database of jobq.

    Raises:
        StoreUnreadable: nothing says that it was.
    """
    if not place.is_marked():
        raise StoreUnreadable(f"{place.path} is no database of jobq; put back a backup, or move it away")
    kept = _unused(place.path)
    publish(place, lambda _: _keep(place, kept))
    return [
        f"nothing can be read of the database any more: an empty one was begun, and the old one is kept as {kept}",
        "whether the queue was moved to another store, or was being moved, cannot be told any more",
    ]


def _keep(place: Place, kept: str) -> None:
    """Give the old database another name beside its own, before the new one takes that; nobody has it open."""
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            os.link(f"{place.path}{end}", f"{kept}{end}")
    sync_directory(place.directory)
    for end in ("-wal", "-shm"):  # they would be taken for those of the new one
        with suppress(FileNotFoundError):
            os.unlink(f"{place.path}{end}")


def _alone_with(place: Place) -> sqlite3.Connection | None:
    """A connection that keeps all others out, whatever there is to be read; None where it cannot be opened.

    Raises:
        StoreLocked: there are others.
        sqlite3.Error: the system refused.
    """
    if os.path.getsize(place.path) == 0:
        return None  # SQLite would make a database of it
    connection = connecting.open_file(place.path)
    try:
        connection.execute("PRAGMA busy_timeout = 1000")
        connection.execute("PRAGMA writable_schema = ON")  # else one that was cut off is not read at all
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        if primary(error) == sqlite3.SQLITE_BUSY:
            raise StoreLocked(f"others have {place.path} open; stop the workers, and try again") from None
        if is_damage(error):
            return None
        raise
    return connection


def _is_as_made(database: Database, old: sqlite3.Connection) -> bool:
    """Whether what says that it is a database of jobq is sound; it is made one of this version where that can be.

    Raises:
        NewerFormat: a newer jobq made it.
        StoreUnreadable: it is something else.
        NotSupported: it is another home's.
    """
    place = database.place
    ((kind,),) = old.execute("PRAGMA application_id")
    if kind != schema.APPLICATION_ID and (kind or not place.is_marked()):
        schema.check_kind(old, place.path)
    schema.version(old)
    with suppress(sqlite3.DatabaseError):
        database.check_home(old)
    try:
        database.at_once(old, schema.upgrade)
    except (sqlite3.DatabaseError, StoreUnreadable):
        if old.in_transaction:
            old.execute("ROLLBACK")
        return False
    return bool(kind == schema.APPLICATION_ID)


def _unused(path: str) -> str:
    """A name that nothing has, for a database that is only kept."""
    number = 1
    while os.path.lexists(f"{path}.damaged-{number}"):
        number += 1
    return f"{path}.damaged-{number}"
