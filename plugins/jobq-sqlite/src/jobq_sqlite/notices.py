"""The notice at the database's door, as it is stored."""

from __future__ import annotations

import sqlite3

from jobq.codec import encode, loads
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice


def read(connection: sqlite3.Connection) -> Notice | None:
    """The notice, None where there is none.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    found = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE name = 'notice'").fetchone()
    if found is None:
        return None
    try:
        record = loads(found[0])
        state, url = record["state"], record["url"]
    except (ValueError, KeyError, TypeError, RecursionError):
        state = url = None
    if state not in (LEAVING, LEFT, ARRIVING) or not isinstance(url, str):
        raise sqlite3.DatabaseError("the notice at its door cannot be read")
    return Notice(state=state, url=url)


def write(connection: sqlite3.Connection, notice: Notice | None) -> None:
    """In a transaction: put it in place of the one that is there, or (None) take that down.

    Raises:
        sqlite3.Error: the system refused.
    """
    if notice is None:
        connection.execute("DELETE FROM meta WHERE name = 'notice'")
    else:
        text = encode({"state": notice.state, "url": notice.url})
        connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('notice', ?)", (text,))


def post(connection: sqlite3.Connection, before: Notice | None, notice: Notice | None) -> None:
    """In a transaction: put up a notice in place of another; what replaces `left` empties the database.

    Raises:
        sqlite3.Error: the system refused.
    """
    write(connection, notice)
    if before is not None and before.state == LEFT and (notice is None or notice.state != LEFT):
        for table in ("jobs", "tags", "lanes", "paused"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - of constants
