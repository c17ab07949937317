"""What one transaction changes: rows, tags, and the numbers of jobs, which are written at its end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from jobq.job import WAITING
from jobq.store import runs_alone
from jobq_sqlite import rows, schema
from jobq_sqlite.trouble import only

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from jobq.job import Job

Lane = tuple[str, str, int, str, int]
"""State, queue, priority, handler and alone, as the table `lanes` has them."""

_ADD = """
INSERT INTO lanes (state, queue, priority, handler, alone, jobs) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs
"""
_DELETE = "DELETE FROM jobs WHERE seq = ? AND id = ? AND rev = ? AND created = ? AND worker IS ?"
_BY_SEQ = "SELECT state, queue, priority, handler, alone FROM jobs WHERE seq = ?"
_SET_ASIDE = f"INSERT INTO damaged (id, record) SELECT id, {rows.RECORD} FROM jobs WHERE seq = ?"  # noqa: S608
_UNTAG = "DELETE FROM tags WHERE tag = ? AND seq = ?"
_TIDY = "DELETE FROM lanes WHERE (state, queue, priority, handler, alone) = (?, ?, ?, ?, ?) AND jobs = 0"


class Changes:
    """The changes of one transaction; `count` must be called before it ends, and before its lanes are looked at.

    Args:
        connection: in the transaction.

    Attributes:
        damaged: how many jobs were set aside.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lanes: Counter[Lane] = Counter()
        self._ended = 0
        self.damaged = 0

    def insert(self, made: Sequence[tuple[Job, list[Any]]]) -> int:
        """Add jobs with their `rows.values`, in this order; the number of the first of them.

        Raises:
            sqlite3.IntegrityError: an id is taken.
        """
        seq: int
        ((seq,),) = self._connection.execute("SELECT ifnull(max(seq), 0) + 1 FROM jobs")
        numbered = [
            (number, job.id, rows.ms(job.created_at), *self._placed(job, row))
            for number, (job, row) in enumerate(made, seq)
        ]
        self._connection.executemany(rows.INSERT, numbered)
        tags = [(tag, number) for number, (job, _) in enumerate(made, seq) for tag in job.tags]
        self._tag(tags)
        self._lanes.update(lane_of(job) for job, _ in made)
        return seq

    def replace(self, seq: int, before: Job, after: Job, row: list[Any] | None = None) -> None:
        """Put a job in the place of what it was; `row` are its `rows.values`, where they are known already."""
        if row is None:
            row = rows.values(after)
        self._connection.execute(rows.UPDATE, (*self._placed(after, row), seq))
        if before.tags != after.tags:
            self._connection.executemany(_UNTAG, [(tag, seq) for tag in before.tags])
            self._tag((tag, seq) for tag in after.tags)
        self._lanes[lane_of(before)] -= 1
        self._lanes[lane_of(after)] += 1

    def remove(self, found: Iterable[tuple[int, Job]]) -> list[str]:
        """Delete those of these jobs that are what they were when they were read; their ids."""
        removed = []
        for seq, job in found:
            version = (job.rev, rows.ms(job.created_at), job.worker)
            if self._connection.execute(_DELETE, (seq, job.id, *version)).rowcount:
                self._connection.executemany(_UNTAG, [(tag, seq) for tag in job.tags])
                self._lanes[lane_of(job)] -= 1
                removed.append(job.id)
        return removed

    def set_aside(self, seq: int) -> None:
        """Take out a job whose record is damaged; the record is kept in the table `damaged`."""
        state, queue, *rest = only(self._connection.execute(_BY_SEQ, (seq,)))
        self._connection.execute(_SET_ASIDE, (seq,))
        for statement in ("DELETE FROM jobs WHERE seq = ?", "DELETE FROM tags WHERE seq = ?"):
            self._connection.execute(statement, (seq,))
        priority, handler, alone = rest if state in WAITING else (0, "", 0)
        self._lanes[state, queue, priority, handler, alone] -= 1
        self.damaged += 1

    def count(self) -> None:
        """Write the numbers of jobs, as far as that has not been done."""
        changed = [(*lane, number) for lane, number in self._lanes.items() if number]
        self._connection.executemany(_ADD, changed)
        self._connection.executemany(_TIDY, [lane for *lane, number in changed if number < 0])
        self._lanes.clear()

    def _placed(self, job: Job, row: list[Any]) -> list[Any]:
        if not rows.is_finished(job):
            return row
        if not self._ended:
            latest = f"SELECT ifnull(max(ended), 0) FROM jobs INDEXED BY finished WHERE {schema.FINISHED}"  # noqa: S608
            ((self._ended,),) = self._connection.execute(latest)
        self._ended += 1
        return rows.numbered(row, self._ended)

    def _tag(self, tags: Iterable[tuple[str, int]]) -> None:
        # A job may have the same tag twice
        self._connection.executemany("INSERT OR IGNORE INTO tags (tag, seq) VALUES (?, ?)", tags)


def lane_of(job: Job) -> Lane:
    """Where a job is counted."""
    if job.state in WAITING:
        return job.state.value, job.queue, job.priority, job.handler or "", int(runs_alone(job))
    return job.state.value, job.queue, 0, "", 0
