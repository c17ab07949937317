"""Claims: what ended is recorded, then jobs are taken, in one transaction.

What a run's end makes of its job is computed and written out before the transaction begins: while the stored job still
is what was claimed, nothing of it is read in it.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from jobq.errors import HIDDEN, InvalidInput
from jobq.job import State
from jobq.lifecycle import claimed, settled
from jobq.store import Claim
from jobq_sqlite import lanes, rows
from jobq_sqlite.trouble import only

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobq.job import Change, Job
    from jobq.members import Presence
    from jobq.store import Ended, Wanted
    from jobq_sqlite.changes import Changes

_STORED = "SELECT seq, state, worker, rev, created FROM jobs WHERE id = ?"


class Ending:
    """The end of a run.

    Attributes:
        expected: what it makes of the job as it was claimed, as `applied_to` has it.

    Raises:
        InvalidInput: it cannot be written as JSON.
    """

    def __init__(self, ended: Ended, *, now: datetime) -> None:
        self.claim, self.change = ended.claim, ended.change
        self._now = now
        self._sound = self.claim.holds(self.claim.job)
        self.expected = self.applied_to(self.claim.job)

    def expects(self, state: str, worker: str, rev: int, created: int) -> bool:
        """Whether these are of the job as it was claimed."""
        job = self.claim.job
        stored = (state, worker, rev, created)
        return self._sound and stored == (State.PROCESSING, job.worker, job.rev, rows.ms(job.created_at))

    def applied_to(self, job: Job) -> tuple[bool, Job, list[Any]]:
        """Whether a cancel changes the end of this job, the job after it, and its `rows.values`.

        Raises:
            InvalidInput: it cannot be written as JSON.
        """
        change: Change = settled(job, self.change)
        after = job.changed(change, now=self._now)
        try:
            return change is not self.change, after, rows.values(after)
        except (RecursionError, ValueError, TypeError) as error:
            why = f"of job {job.id} cannot be written as JSON ({error})"
            raise InvalidInput("result", HIDDEN, why) from None


def settle(
    connection: sqlite3.Connection, changes: Changes, endings: Sequence[Ending]
) -> tuple[list[Claim], list[Claim], bool]:
    """Record what ended; what was refused, what a cancel changed, and whether others should be woken.

    Raises:
        InvalidInput: an end cannot be written as JSON.
        sqlite3.Error: the system refused.
    """
    refused: list[Claim] = []
    cancelled: list[Claim] = []
    ring = False
    for ending in endings:
        claim = ending.claim
        found = connection.execute(_STORED, (claim.job.id,)).fetchone()
        if found is None:
            refused.append(claim)
            continue
        seq, *stored = found
        before, end = claim.job, ending.expected
        if not ending.expects(*stored):
            changed = rows.job_of(only(connection.execute(rows.RECORD_OF, (seq,)))[0])
            if changed is None or not claim.holds(changed):
                refused.append(claim)
                continue
            before, end = changed, ending.applied_to(changed)
        by_cancel, after, row = end
        if by_cancel:
            cancelled.append(claim)
        changes.replace(seq, before, after, row)
        ring = ring or after.state is not State.COMPLETED
    return refused, cancelled, ring


def take(
    connection: sqlite3.Connection,
    changes: Changes,
    worker: Presence,
    wanted: Wanted,
    limit: int,
    *,
    now: datetime,
) -> list[Claim]:
    """Claim up to `limit` due jobs; those that come first and are damaged are set aside, or would stay the first.

    The transition is the kernel's, and `wanted.leading` is asked of each job before it: so each row is read and written
    in turn, and no single statement does it all.

    Raises:
        sqlite3.Error: the system refused.
    """
    if limit <= 0:
        return []
    claims = []
    for seq, job in _chosen(connection, changes, wanted, limit, rows.ms(now)):
        if wanted.leading is not None and not wanted.leading(job):
            break
        after = job.changed(claimed(job, worker.id, now=now), now=now)
        changes.replace(seq, job, after)
        claims.append(Claim(after, worker.id, worker.host))
    return claims


def _chosen(
    connection: sqlite3.Connection, changes: Changes, wanted: Wanted, limit: int, now: int
) -> Iterator[tuple[int, Job]]:
    """What may be claimed: the very first job, and if that need not run alone, those behind it that need not either."""
    found = lanes.wanted_lanes(connection, wanted)
    alone = _sound(lanes.in_order(connection, [lane for lane in found if lane[4]], until=now, most=1), changes)
    others = _sound(lanes.in_order(connection, [lane for lane in found if not lane[4]], until=now, most=limit), changes)
    first, second = next(others, None), next(alone, None)
    if second is not None and (first is None or _order(second) < _order(first)):
        return iter([second])
    return islice(chain([] if first is None else [first], others), limit)


def _sound(waiting: Iterator[lanes.Waiting], changes: Changes) -> Iterator[tuple[int, Job]]:
    for _, seq, record in waiting:
        job = rows.job_of(record)
        if job is None:
            changes.set_aside(seq)
        else:
            yield seq, job


def _order(found: tuple[int, Job]) -> tuple[int, datetime, int]:
    seq, job = found
    return -job.priority, job.run_at, seq
