"""Jobs as they come in: new ones and such as another store had; which ids are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.errors import HIDDEN, DuplicateJob, InvalidInput
from jobq.job import State
from jobq_sqlite import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

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


def made(jobs: Sequence[Job]) -> list[tuple[Job, list[Any]]]:
    """Jobs that are to be stored as they are, with their `rows.values`.

    Raises:
        InvalidInput: one is `processing`.
    """
    for job in jobs:
        if job.state is State.PROCESSING:
            raise InvalidInput("state", HIDDEN, f"job {job.id} is processing and cannot be taken over")
    return [(job, rows.values(job)) for job in jobs]


def fresh(made: Iterable[tuple[Job, list[Any]]], stored: Mapping[str, Any]) -> list[tuple[Job, list[Any]]]:
    """Those of them that are not stored yet; `stored` has the versions of those that are, by id.

    Raises:
        DuplicateJob: one is stored with another version, or comes twice.
    """
    made = list(made)
    jobs = [job for job, _ in made]
    others = {job.id for job in jobs if job.id in stored and stored[job.id] != job.version}
    if clashing := repeated(jobs) | others:
        raise DuplicateJob(in_order(jobs, clashing))
    return [(job, row) for job, row in made if job.id not in stored]


_IDS = "SELECT id FROM jobs WHERE id IN"
