"""The ids of jobs that are to be added: which come twice, and which are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq_sqlite import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from jobq.job import Job

_AT_ONCE = 500


def repeated(jobs: Sequence[Job]) -> set[str]:
    """The ids that come more than once."""
    ids = [job.id for job in jobs]
    if len(set(ids)) == len(ids):
        return set()
    seen: set[str] = set()
    return {job_id for job_id in ids if job_id in seen or seen.add(job_id)}  # type: ignore[func-returns-value]


def in_order(jobs: Sequence[Job], ids: set[str]) -> list[str]:
    """Those ids, as the jobs come."""
    return list(dict.fromkeys(job.id for job in jobs if job.id in ids))


def taken(connection: sqlite3.Connection, jobs: Sequence[Job], *, undo: bool = False) -> set[str]:
    """The ids of these jobs that are stored; with `undo`, without what the transaction did before.

    Raises:
        sqlite3.Error: they cannot be read.
    """
    if undo:
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    found: set[str] = set()
    for start in range(0, len(jobs), _AT_ONCE):
        part = [job.id for job in jobs[start : start + _AT_ONCE]]
        found.update(job_id for (job_id,) in connection.execute(f"{_IDS} ({rows.marks(part)})", part))
    return found


_IDS = "SELECT id FROM jobs WHERE id IN"
