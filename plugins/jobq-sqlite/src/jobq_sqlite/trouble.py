"""What SQLite says went wrong, as an error of the store."""

from __future__ import annotations

import sqlite3
from typing import Any

from jobq.errors import StoreError, StoreLocked, StoreUnavailable, StoreUnreadable

WAY_OUT = "`jobq doctor` tells more, `jobq doctor --repair` takes out what can still be read, or put back a backup"

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_REFUSED = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def told(error: sqlite3.Error, path: str) -> StoreError:
    """The error of the store for one of SQLite, with the file that it is about."""
    code = primary(error)
    if code in _BUSY:
        return StoreLocked(f"another process has held {path} for long")
    if is_damage(error):
        return StoreUnreadable(f"{path} is damaged or no database of jobq ({error}); {WAY_OUT}")
    if code in _REFUSED or isinstance(error, sqlite3.ProgrammingError):  # the latter: it was closed meanwhile
        return StoreUnavailable(f"{path}: {error}")
    return StoreUnreadable(f"{path} is not as jobq made it ({error}); {WAY_OUT}")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether what is in the file is wrong, and not what the system does."""
    return primary(error) in _DAMAGED


def only(found: sqlite3.Cursor) -> Any:
    """The one row that a statement must find.

    Raises:
        sqlite3.DatabaseError: it does not: one part of the database contradicts another one.
    """
    row = found.fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it names a row that is not there")
    return row


def extended(error: sqlite3.Error) -> int:
    """SQLite's number of the very error; 0 where the error is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0)


def primary(error: sqlite3.Error) -> int:
    """SQLite's number of the kind of error; 0 where the error is not SQLite's own."""
    return extended(error) & 0xFF
