"""The notice at the database's door, as it is stored."""

from __future__ import annotations

import sqlite3

from jobq.codec import encode, loads
from jobq.notices import Notice, empties


def read(connection: sqlite3.Connection) -> Notice | None:
    """The notice, None where there is none.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    found = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE name = 'notice'").fetchone()
    if found is None:
        return None
    try:
        notice = Notice.from_record(loads(found[0]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise sqlite3.DatabaseError("the notice at its door cannot be read") from None
    return notice


def write(connection: sqlite3.Connection, notice: Notice | None) -> None:
    """In a transaction: put it in place of the one that is there, or (None) take that down.

    Raises:
        sqlite3.Error: the system refused.
    """
    if notice is None:
        connection.execute("DELETE FROM meta WHERE name = 'notice'")
    else:
        text = encode(notice.record())
        connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('notice', ?)", (text,))


def post(connection: sqlite3.Connection, notice: Notice | None, *, before: Notice | None, url: str) -> None:
    """In a transaction: put up a notice in place of another, and empty the database where that goes with it.

    Raises:
        NoticeChanged, NotEmpty: as `jobq.notices.empties` says.
        sqlite3.Error: the system refused.
    """
    jobs = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    emptied = empties(notice, before=before, stands=read(connection), jobs=jobs, url=url)
    write(connection, notice)
    if emptied:
        for table in ("jobs", "tags", "lanes", "paused"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - of constants
