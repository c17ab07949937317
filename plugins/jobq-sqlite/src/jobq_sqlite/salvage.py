"""What can be read of a damaged database, brought into a new one; and what cannot, told."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from jobq.notices import UNKNOWN
from jobq_sqlite import ids, notices, rows
from jobq_sqlite.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq.job import Job

_BATCH = 1000
_FURTHEST = 1 << 40
"""Behind a gap of so many numbers nothing more is looked for."""

_JOBS = f"SELECT seq, ended, {rows.RECORD} FROM jobs WHERE seq > ? ORDER BY seq"  # noqa: S608 - of constants
_DAMAGED = f"SELECT id, {rows.RECORD} FROM damaged ORDER BY seq"  # noqa: S608 - of constants


class Salvage:
    """Brings what can be read of one database into another one.

    Args:
        old: the damaged one; its texts are read as bytes from here on, where they are none any more.

    Attributes:
        told: what was lost, one sentence each.
    """

    def __init__(self, old: sqlite3.Connection) -> None:
        self._old = old
        old.text_factory = _text
        self._brought = self._damaged = 0
        self._lost: set[str] = set()

    def into(self, new: sqlite3.Connection) -> None:
        """Bring everything; what is there of a database when this fails is of no use.

        Raises:
            sqlite3.Error: the new one cannot be written.
        """
        new.execute("BEGIN IMMEDIATE")
        self._jobs(new)
        for queue, reason in self._table("paused", "SELECT queue, reason FROM paused"):
            new.execute("INSERT INTO paused (queue, reason) VALUES (?, ?)", (queue, reason))
        for name, value in self._table("meta", "SELECT name, value FROM meta"):
            new.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))
        for job_id, record in self._table("damaged", _DAMAGED):
            self._set_aside(new, job_id, record)
        try:
            notices.read(new)
        except sqlite3.DatabaseError:
            self._lost.add("meta")
        if "meta" in self._lost:
            notices.write(new, UNKNOWN if self._brought else None)
        new.execute("COMMIT")

    @property
    def told(self) -> Iterator[str]:
        """What was brought, and what was not, one sentence each."""
        yield "1 job was brought" if self._brought == 1 else f"{self._brought} jobs were brought"
        if self._damaged:
            records = "1 damaged record was" if self._damaged == 1 else f"{self._damaged} damaged records were"
            yield f"{records} set aside, in the table `damaged`"
        yield from (sentence for name, sentence in _LOST.items() if name in self._lost)
        if "meta" in self._lost and self._brought:
            yield (
                "so that nothing runs twice, nothing is run or added behind a notice; if the queue is nowhere else, "
                "`jobq move --abort --force` takes it down"
            )

    def _jobs(self, new: sqlite3.Connection) -> None:
        order: list[tuple[int, int]] = []
        batch: list[tuple[Job, int | None]] = []
        for _, ended, record in self._readable():
            job = rows.job_of(record)
            if job is None or not rows.fits(job):
                self._set_aside(new, None, record)
                self._damaged += 1
            else:
                batch.append((job, ended))
            if len(batch) == _BATCH:
                order += self._insert(new, batch)
                batch = []
        order += self._insert(new, batch)
        new.executemany("UPDATE jobs SET ended = ? WHERE seq = ?", order)

    def _readable(self) -> Iterator[tuple[int, int | None, bytes]]:
        """What can be read of the jobs: number, order of finishing and record; what cannot is passed over."""
        at, step = 0, 1
        while step < _FURTHEST:
            try:
                for row in self._old.execute(_JOBS, (at,)):
                    yield row
                    at, step = row[0], 1
                return
            except sqlite3.DatabaseError:
                self._lost.add("jobs")
                at, step = at + step, 2 * step

    def _table(self, name: str, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table up to the first that cannot be read, without those that are no text any more."""
        try:
            for row in self._old.execute(statement):
                if name != "damaged" and any(isinstance(value, bytes) for value in row):
                    self._lost.add(name)
                else:
                    yield row
        except sqlite3.DatabaseError:
            self._lost.add(name)

    def _insert(self, new: sqlite3.Connection, batch: list[tuple[Job, int | None]]) -> list[tuple[int, int]]:
        """Add those whose ids are not there yet; which order of finishing those had that were finished."""
        jobs = [job for job, _ in batch]
        taken = ids.taken(new, jobs)
        fresh: list[tuple[Job, int | None]] = []
        for job, ended in batch:
            if job.id in taken:
                self._set_aside(new, job.id, rows.values(job)[-1].encode())
                self._damaged += 1
            else:
                taken.add(job.id)
                fresh.append((job, ended))
        changes = Changes(new)
        first = changes.insert([(job, rows.values(job)) for job, _ in fresh])
        changes.count()
        self._brought += len(fresh)
        return [(ended, seq) for seq, (job, ended) in enumerate(fresh, first) if ended and rows.is_finished(job)]

    @staticmethod
    def _set_aside(new: sqlite3.Connection, job_id: str | bytes | None, record: bytes) -> None:
        new.execute("INSERT INTO damaged (id, record) VALUES (?, ?)", (job_id, record))


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


_LOST = {
    "jobs": "some jobs cannot be read any more",
    "paused": "which queues were paused cannot be read in full; `jobq status` shows those that are",
    "damaged": "of the records that were set aside before, some cannot be read any more",
    "meta": "whether the queue was moved, or was being moved, cannot be read",
}
