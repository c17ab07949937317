"""Mending a database: what can be read is brought into a new one, and the old one is kept beside it."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

from jobq.errors import StoreLocked
from jobq.light import suppress
from jobq_sqlite import incoming, rows
from jobq_sqlite.changes import Changes
from jobq_sqlite.checking import is_wrong
from jobq_sqlite.publishing import publish
from jobq_sqlite.trouble import primary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq.job import Job
    from jobq_sqlite.database import Database

_BATCH = 1000
_FURTHEST = 1 << 40
"""Behind a gap of so many numbers nothing more is looked for."""


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
                os.unlink(f"{place.path}-wal")
            publish(place)
            place.leave_mark()
            return ["an empty database was begun, since nothing is left of the one before"]
        old = _alone_with(database)
        try:
            if not is_wrong(old):
                return []
            kept = _unused(place.path)
            salvage = _Salvage(old)

            def fill(path: str) -> None:
                salvage.into(path, database)
                with suppress(sqlite3.Error):  # what a checkpoint cannot move stays in the file that is kept
                    old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                for end in ("", "-wal"):
                    with suppress(FileNotFoundError):
                        os.link(f"{place.path}{end}", f"{kept}{end}")
                old.close()
                for end in ("-wal", "-shm"):  # they would be taken for those of the new one
                    with suppress(FileNotFoundError):
                        os.unlink(f"{place.path}{end}")

            publish(place, fill)
        finally:
            old.close()
    jobs = "1 job was" if salvage.brought == 1 else f"{salvage.brought} jobs were"
    done = [f"{jobs} brought into a new database; the old one is kept as {kept}"]
    if salvage.damaged:
        records = "1 damaged record was" if salvage.damaged == 1 else f"{salvage.damaged} damaged records were"
        done.append(f"{records} set aside, in the table `damaged`")
    return done


class _Salvage:
    """Brings what can be read of one database into another one."""

    def __init__(self, old: sqlite3.Connection) -> None:
        self._old = old
        self.brought = self.damaged = 0

    def into(self, path: str, database: Database) -> None:
        new = database.connect(path)
        try:
            new.execute("BEGIN IMMEDIATE")
            self._jobs(new)
            for table in ("paused", "meta", "damaged"):
                with suppress(sqlite3.DatabaseError):
                    for row in self._old.execute(f"SELECT * FROM {table}"):  # noqa: S608 - of constants
                        new.execute(f"INSERT OR REPLACE INTO {table} VALUES ({rows.marks(row)})", row)  # noqa: S608
            new.execute("COMMIT")
        finally:
            new.close()

    def _jobs(self, new: sqlite3.Connection) -> None:
        order: list[tuple[int, int]] = []
        batch: list[tuple[Job, int | None]] = []
        for _, ended, record in _readable(self._old):
            job = rows.job_of(record)
            if job is None:
                self._set_aside(new, None, record)
            else:
                batch.append((job, ended))
            if len(batch) == _BATCH:
                order += self._insert(new, batch)
                batch = []
        order += self._insert(new, batch)
        new.executemany("UPDATE jobs SET ended = ? WHERE seq = ?", order)

    def _insert(self, new: sqlite3.Connection, batch: list[tuple[Job, int | None]]) -> list[tuple[int, int]]:
        """Add those whose ids are not there yet; which order of finishing those had that were finished."""
        jobs = [job for job, _ in batch]
        taken = incoming.taken(new, jobs)
        fresh: list[tuple[Job, int | None]] = []
        for job, ended in batch:
            if job.id in taken:
                self._set_aside(new, job.id, rows.values(job)[-1])
            else:
                taken.add(job.id)
                fresh.append((job, ended))
        changes = Changes(new)
        first = changes.insert([(job, rows.values(job)) for job, _ in fresh])
        changes.count()
        self.brought += len(fresh)
        return [(ended, seq) for seq, (job, ended) in enumerate(fresh, first) if ended and rows.is_finished(job)]

    def _set_aside(self, new: sqlite3.Connection, job_id: str | None, record: Any) -> None:
        new.execute("INSERT INTO damaged (id, record) VALUES (?, ?)", (job_id, record))
        self.damaged += 1


def _readable(connection: sqlite3.Connection) -> Iterator[tuple[int, int | None, Any]]:
    """What can be read of the jobs: number, order of finishing and record; what cannot is passed over."""
    at, step = 0, 1
    while step < _FURTHEST:
        try:
            for row in connection.execute("SELECT seq, ended, record FROM jobs WHERE seq > ? ORDER BY seq", (at,)):
                yield row
                at, step = row[0], 1
            return
        except sqlite3.DatabaseError:
            at, step = at + step, 2 * step


def _alone_with(database: Database) -> sqlite3.Connection:
    """A connection that keeps all others out.

    Raises:
        StoreLocked: there are others.
    """
    connection = database.connect(database.place.path)
    try:
        connection.execute("PRAGMA busy_timeout = 1000")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        if primary(error) == sqlite3.SQLITE_BUSY:
            raise StoreLocked(f"others have {database.place.path} open; stop the workers, and try again") from None
        raise
    return connection


def _unused(path: str) -> str:
    """A name that nothing has, for a database that is only kept."""
    number = 1
    while os.path.lexists(f"{path}.damaged-{number}"):
        number += 1
    return f"{path}.damaged-{number}"
