"""The notice at the database's door, as it is stored."""

from __future__ import annotations

from jobq.codec import encode, loads
from jobq.notices import Notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


def read(connection: sqlite3.Connection) -> Notice | None:
    """The notice, None where there is none.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    found = connection.execute("SELECT value FROM meta WHERE name = 'notice'").fetchone()
    if found is None:
        return None
    record = loads(found[0])
    return Notice(state=record["state"], url=record["url"])


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
