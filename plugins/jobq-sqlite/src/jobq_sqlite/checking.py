"""Reading everything and telling what is wrong with it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

from jobq_sqlite import notices, rows
from jobq_sqlite.changes import lane_of
from jobq_sqlite.trouble import primary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq_sqlite.changes import Lane

_MOST = 20
"""Sentences of one kind; more would tell no more."""

_COLUMNS = ", ".join(name for name in rows.CHANGING if name not in ("record", "ended"))


def check(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the database, one sentence each; what was set aside before, too.

    Raises:
        sqlite3.Error: the system refused.
    """
    try:
        return _check(connection)
    except sqlite3.DatabaseError as error:
        if primary(error):
            raise
        return [f"the database is damaged: {error}"]  # there is a text that is none any more


def _check(connection: sqlite3.Connection) -> list[str]:
    wrong = [f"the database is damaged: {line}" for (line,) in _integrity(connection) if line != "ok"][:_MOST]
    if wrong:
        return wrong  # what is read on such ground says nothing
    try:
        notices.read(connection)
    except sqlite3.DatabaseError as error:
        wrong.append(f"the database is damaged: {error}")
    counted: Counter[Lane] = Counter()
    of_rows = list(_rows(connection, counted))
    wrong += of_rows[:_MOST]
    if len(of_rows) > _MOST:
        wrong.append(f"{len(of_rows) - _MOST} more jobs have something wrong with them")
    wrong += _counts(connection, counted)
    ((damaged,),) = connection.execute("SELECT count(*) FROM damaged")
    if damaged:
        records = "1 damaged record was" if damaged == 1 else f"{damaged} damaged records were"
        wrong.append(f"{records} set aside before, in the table `damaged`; delete them when done with them")
    return wrong


def is_wrong(connection: sqlite3.Connection) -> bool:
    """Whether there is something to mend."""
    try:
        return any("set aside before" not in sentence for sentence in check(connection))
    except sqlite3.DatabaseError:
        return True


def _integrity(connection: sqlite3.Connection) -> list[tuple[str]]:
    try:
        return connection.execute("PRAGMA integrity_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [(str(error),)]


def _rows(connection: sqlite3.Connection, counted: Counter[Lane]) -> Iterator[str]:
    """What is wrong with single jobs; those that are sound are counted."""
    tagged: Counter[int] = Counter(seq for (seq,) in connection.execute("SELECT seq FROM tags"))
    for seq, job_id, created, ended, record, *columns in connection.execute(
        f"SELECT seq, id, created, ended, {rows.RECORD}, {_COLUMNS} FROM jobs"  # noqa: S608 - of constants
    ):
        job = rows.job_of(record)
        if job is None or not rows.fits(job):
            yield f"the record of job {job_id} is damaged"
            continue
        counted[lane_of(job)] += 1
        told = rows.values(job)
        expected = [value for name, value in zip(rows.CHANGING, told, strict=True) if name not in ("record", "ended")]
        finished = rows.is_finished(job)
        if (
            (job.id, rows.ms(job.created_at)) != (job_id, created)
            or columns != expected
            or finished != (ended is not None)
        ):
            yield f"the columns of job {job_id} are not what its record says"
        if tagged.pop(seq, 0) != len(set(job.tags)):
            yield f"the tags of job {job_id} are not what its record says"
    if tagged:
        yield f"{len(tagged)} tags are of jobs that are not there"


def _counts(connection: sqlite3.Connection, counted: Counter[Lane]) -> Iterator[str]:
    told: Counter[Lane] = Counter()
    for *lane, jobs in connection.execute("SELECT state, queue, priority, handler, alone, jobs FROM lanes"):
        told[tuple(lane)] = jobs
    for lane in sorted(told.keys() | counted.keys()):
        if told[lane] != counted[lane]:
            yield f"{told[lane]} {lane[0]} jobs are counted in queue {lane[1]}, but {counted[lane]} are there"
