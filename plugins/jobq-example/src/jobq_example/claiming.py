"""What a claim makes of the document: runs that ended are recorded, then due jobs are taken. No file, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import lifecycle
from jobq.job import WAITING
from jobq.store import Claim, runs_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobq import Job
    from jobq.members import Presence
    from jobq.store import Ended, Wanted
    from jobq_example.document import Document


def settle(document: Document, ended: Sequence[Ended], *, now: datetime) -> tuple[list[Claim], list[Claim]]:
    """Record what ended, by the fencing rule: the claims refused, and those that a cancel request had overtaken."""
    refused, cancelled = [], []
    for end in ended:
        stored = document.jobs.get(end.claim.job.id)
        if stored is None or not end.claim.holds(stored):
            refused.append(end.claim)
            continue
        change = lifecycle.settled(stored, end.change)
        document.jobs[stored.id] = stored.changed(change, now=now)
        if change is not end.change:
            cancelled.append(end.claim)
    return refused, cancelled


def take(document: Document, worker: Presence, wanted: Wanted, limit: int, *, now: datetime) -> list[Claim]:
    """Give the worker up to `limit` due jobs."""
    claims: list[Claim] = []
    due = sorted((job for job in waiting(document, wanted) if job.run_at <= now), key=claim_order)
    for job in due:
        alone = runs_alone(job)
        if alone and claims:
            continue
        if len(claims) == limit or (wanted.leading and not wanted.leading(job)):
            break
        held = document.jobs[job.id] = job.changed(lifecycle.claimed(job, worker.id, now=now), now=now)
        claims.append(Claim(held, worker.id, worker.host))
        if alone:
            break
    return claims


def waiting(document: Document, wanted: Wanted) -> Iterator[Job]:
    """The waiting jobs that are wanted, due or not."""
    for job in document.jobs.values():
        if job.state in WAITING and job.queue not in document.paused and wanted.matches(job):
            yield job


def claim_order(job: Job) -> tuple[int, datetime]:
    """By priority and due time; a sort leaves equal ones in the document's order, that in which they were enqueued."""
    return -job.priority, job.run_at
