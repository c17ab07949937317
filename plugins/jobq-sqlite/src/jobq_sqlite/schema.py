"""The tables and how they came to be: each version of the schema is made from the one before it.

A job's record, its JSON as `Job.record` has it, is the truth, with fields that this version does not know. The columns
beside it are what is searched and sorted by; times are whole milliseconds since 1970. `lanes` has how many jobs there
are, kept in the transaction that changes them: those that wait by all that a claim tells apart, others by queue and
state. Indexes of jobs that wait, run, are dead or finished hold no others, so none of them is slowed down by the rest.
"""

from __future__ import annotations

import os

from jobq.errors import NewerFormat, StoreUnreadable
from jobq_sqlite.trouble import WAY_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

APPLICATION_ID = int.from_bytes(b"jobq", "big")
VERSION = 1

WAITING = "state IN ('pending', 'failed')"
FINISHED = "state IN ('completed', 'cancelled')"
ENDED = "state IN ('completed', 'cancelled', 'dead')"
"""The conditions of the partial indexes; SQLite uses one only for a query that says the very same."""

_TABLES = f"""
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,        -- the order in which they were added
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    handler TEXT NOT NULL,          -- '' for a command
    alone INTEGER NOT NULL,         -- 1 where it must run alone
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    worker TEXT,
    rev INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ended INTEGER,                  -- the order in which they finished; NULL while they have not
    tagged INTEGER NOT NULL,        -- 1 where it has tags
    record TEXT NOT NULL
);
CREATE UNIQUE INDEX ids ON jobs (id);
CREATE INDEX waiting ON jobs (state, queue, handler, alone, priority, run_at) WHERE {WAITING};
CREATE INDEX running ON jobs (worker) WHERE state = 'processing';
CREATE INDEX dead ON jobs (priority DESC, run_at) WHERE state = 'dead';
CREATE INDEX finished ON jobs (ended, state, queue, handler, updated) WHERE {FINISHED};
CREATE INDEX old ON jobs (state, updated) WHERE {ENDED};
CREATE TABLE tags (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq)) WITHOUT ROWID;
CREATE TABLE lanes (
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,      -- this and the next two are 0, '' and 0 of jobs that do not wait
    handler TEXT NOT NULL,
    alone INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (state, queue, priority, handler, alone)
) WITHOUT ROWID;
CREATE TABLE paused (queue TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE damaged (seq INTEGER PRIMARY KEY, id TEXT, record BLOB);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

STEPS: Mapping[int, Sequence[str]] = {}
"""For each older version the statements that make the next one of it."""


def create(connection: sqlite3.Connection, meta: Mapping[str, str]) -> None:
    """Make the tables in a database that is empty, with these facts about it.

    Raises:
        sqlite3.Error: the system refused.
    """
    connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA application_id = {APPLICATION_ID}; BEGIN; {_TABLES}")
    connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", list(meta.items()))
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def check_kind(connection: sqlite3.Connection, path: str) -> None:
    """Check that a database is one of jobq.

    Raises:
        StoreUnreadable: it is something else, or empty.
    """
    ((kind,),) = connection.execute("PRAGMA application_id")
    if kind != APPLICATION_ID:
        empty = os.path.getsize(path) == 0
        what = "is empty" if empty else "is no database of jobq"
        raise StoreUnreadable(f"{path} {what}; put back a backup, or move it away and `jobq doctor --repair`")


def version(connection: sqlite3.Connection) -> int:
    """The version of the schema.

    Raises:
        NewerFormat: a newer jobq made it.
    """
    found: int
    ((found,),) = connection.execute("PRAGMA user_version")
    if found > VERSION:
        raise NewerFormat(f"the database has format {found}, made by a newer jobq-sqlite; this one knows {VERSION}")
    return found


def upgrade(connection: sqlite3.Connection) -> None:
    """In a transaction: bring the tables to this version.

    Raises:
        NewerFormat: a newer jobq made them.
        StoreUnreadable: they have no version that there ever was.
    """
    before = version(connection)
    for older in range(before, VERSION):
        if older not in STEPS:
            raise StoreUnreadable(f"the database has format {older}, which there never was; {WAY_OUT}")
        for statement in STEPS[older]:
            connection.execute(statement)
    if before != VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")
