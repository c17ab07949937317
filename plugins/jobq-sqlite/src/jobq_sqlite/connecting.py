"""Connections to a database of jobq: opened, set up, closed."""

from __future__ import annotations

import os
import sqlite3

from jobq.light import suppress
from jobq_sqlite import logwatch, schema
from jobq_sqlite.trouble import extended, primary
from jobq_sqlite.writequeue import LIMIT

_ONLY_TO_READ = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


class Lasting(sqlite3.Connection):
    """A connection that is used again: any other is of a time in which not everything could be written."""


def connect(path: str, *, durable: bool) -> sqlite3.Connection:
    """A connection to a database that is there; one that reads where nothing can be written beside it.

    Where only the room is missing for what processes share, it keeps all others out as long as it is open.

    Raises:
        sqlite3.Error: SQLite or the system refused.
        StoreUnreadable: it is no database of jobq.
        NewerFormat: a newer jobq made it.
    """
    try:
        return _set_up(path, "rw", durable=durable)
    except sqlite3.Error as error:
        full = extended(error) == sqlite3.SQLITE_IOERR_SHMSIZE
        if not full and primary(error) not in _ONLY_TO_READ:
            raise
    if full:
        return _set_up(path, "rw", durable=durable, alone=True)
    try:
        return _set_up(path, "ro", durable=durable)
    except sqlite3.Error:
        with suppress(FileNotFoundError):
            if os.path.getsize(f"{path}-wal"):
                raise
        # All that was committed is in the file itself, and nobody can change it here
        return _set_up(path, "ro&immutable=1", durable=durable)


def open_file(path: str, mode: str = "rw", *, lasting: bool = True) -> sqlite3.Connection:
    """A connection to whatever file there is, in which transactions begin and end only where they are told to.

    Raises:
        sqlite3.Error: SQLite or the system refused.
    """
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(
        f"file:{name}?mode={mode}",
        uri=True,
        timeout=LIMIT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=Lasting if lasting and mode == "rw" else sqlite3.Connection,
    )


def leave(connection: sqlite3.Connection) -> None:
    """Undo what the connection was about, and close it."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    with suppress(sqlite3.Error):
        connection.close()


def _set_up(path: str, mode: str, *, durable: bool, alone: bool = False) -> sqlite3.Connection:
    connection = open_file(path, mode, lasting=not alone)
    try:
        if alone:  # then SQLite keeps in memory what it shares otherwise
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        schema.check_kind(connection, path)
        schema.version(connection)
        # FULL syncs each commit; NORMAL only what a checkpoint moves
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute(f"PRAGMA fullfsync = {int(durable)}")
        connection.execute("PRAGMA checkpoint_fullfsync = 1")
        connection.execute(f"PRAGMA journal_size_limit = {logwatch.LIMIT}")
        connection.execute("PRAGMA cache_size = -16384")  # KiB
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        leave(connection)
        raise
    return connection
