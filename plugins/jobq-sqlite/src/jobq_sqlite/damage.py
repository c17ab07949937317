"""Jobs whose records are damaged: told of once, and set aside where they would stand in the way of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq_sqlite import rows
from jobq_sqlite.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobq.job import Job
    from jobq_sqlite.database import Database

DAMAGED = "is damaged; `jobq doctor --repair` sets it aside"


class Damage:
    """What is done about damaged records.

    Args:
        database: whose.
        warn: is told in one sentence.
    """

    def __init__(self, database: Database, warn: Callable[[str], None]) -> None:
        self._database, self._warn = database, warn
        self._told = False

    def sound(self, found: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Job]]:
        """Of numbers and records those that are jobs; if others are among them, that is told."""
        for seq, record in found:
            job = self.job_of(record)
            if job is not None:
                yield seq, job

    def job_of(self, record: bytes) -> Job | None:
        """The job of a record; None, which is told, where it is damaged."""
        job = rows.job_of(record)
        if job is None and not self._told:
            self._told = True
            self._warn(f"{self._database.place.path}: a job's record {DAMAGED}")
        return job

    def set_aside(self, found: Iterable[int]) -> None:
        """Take out the jobs of these numbers, those of them whose records are damaged still.

        Raises:
            StoreError: the system refused.
        """
        with self._database.writing("") as connection:
            changes = Changes(connection)
            for seq in found:
                row = connection.execute(rows.RECORD_OF, (seq,)).fetchone()
                if row is not None and rows.job_of(row[0]) is None:
                    changes.set_aside(seq)
            changes.count()
        self.tell_of(changes)

    def tell_of(self, changes: Changes) -> None:
        """Tell of what a transaction set aside."""
        if changes.damaged:
            records = "the damaged record of a job was" if changes.damaged == 1 else "the damaged records of jobs were"
            self._warn(f"{self._database.place.path}: {records} set aside, in the table `damaged`")
