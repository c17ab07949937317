"""What a store does, said in the plainest way over a dict of jobs; what stores are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq import lifecycle
from jobq.errors import DuplicateJob, JobChanged, JobNotFound
from jobq.job import FINISHED, WAITING, Change, Job, State
from jobq.store import ALONE_LOSSES, Claim, Claimed, Counts, Ended, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobq.members import WorkerInfo
    from jobq.store import Query


class StoreModel:
    """The answers that a store must give.

    Attributes:
        jobs: by id, in the order in which they were added.
        paused: the paused queues and why.
        members: the workers that live, by id.
        gone: those that died and were not forgotten, by id.
        closed: whether a notice keeps jobs from being handed out.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.paused: dict[str, str] = {}
        self.members: dict[str, WorkerInfo] = {}
        self.gone: dict[str, WorkerInfo] = {}
        self.closed = False

    def add(self, jobs: Sequence[Job]) -> list[Job]:
        """As `Store.add`.

        Raises:
            DuplicateJob: as there.
        """
        ids = [job.id for job in jobs]
        taken = dict.fromkeys(name for name in ids if name in self.jobs or ids.count(name) > 1)
        if taken:
            raise DuplicateJob(taken)
        self.jobs |= {job.id: job for job in jobs}
        return list(jobs)

    def restore(self, jobs: Sequence[Job]) -> list[str]:
        """As `Store.restore`.

        Raises:
            DuplicateJob: as there.
        """
        taken = [job.id for job in jobs if job.id in self.jobs and self.jobs[job.id].version != job.version]
        if taken:
            raise DuplicateJob(taken)
        fresh = {job.id: job for job in jobs if job.id not in self.jobs}
        self.jobs |= fresh
        return list(fresh)

    def claim(
        self, worker: WorkerInfo, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        """As `Store.claim`."""
        refused, cancelled = [], []
        for claim, change in ((item.claim, item.change) for item in ended):
            stored = self.jobs.get(claim.job.id)
            if stored is None or not claim.holds(stored):
                refused.append(claim)
                continue
            settled = lifecycle.settled(stored, change)
            if settled is not change:
                cancelled.append(claim)
            self.jobs[stored.id] = stored.changed(settled, now=now)
        claims = []
        due = [job for job in self.claimable(wanted) if job.run_at <= now and not self.closed]
        for job in self._chosen(due, limit, wanted.leading):
            claimed = self.jobs[job.id] = job.changed(lifecycle.claimed(job, worker.id, now=now), now=now)
            claims.append(Claim(claimed, worker.id, worker.host))
        return Claimed(claims, refused, cancelled)

    def claimable(self, wanted: Wanted) -> list[Job]:
        """The waiting jobs that are wanted, due or not, in claim order."""
        return [
            job
            for job in self.waiting()
            if job.queue not in self.paused
            and (wanted.queues is None or job.queue in wanted.queues)
            and (wanted.handlers is None or job.handler is None or job.handler in wanted.handlers)
            and wanted.alone in (None, job.losses >= ALONE_LOSSES)
        ]

    def waiting(self) -> list[Job]:
        """The waiting jobs, in claim order."""
        place = {job_id: number for number, job_id in enumerate(self.jobs)}
        waiting = [job for job in self.jobs.values() if job.state in WAITING]
        return sorted(waiting, key=lambda job: (-job.priority, job.run_at, place[job.id]))

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        """As `Store.change`.

        Raises:
            JobNotFound, JobChanged: as there.
        """
        stored = self.jobs.get(before.id)
        if stored is None:
            raise JobNotFound(before.id)
        if stored.version != before.version:
            raise JobChanged(before.id)
        self.jobs[before.id] = stored.changed(change, now=now)
        return self.jobs[before.id]

    def held(self, worker: str) -> dict[str, Job]:
        """The jobs that are `processing` with this worker, by id."""
        return {job.id: job for job in self.jobs.values() if (job.state, job.worker) == (State.PROCESSING, worker)}

    def found(self, query: Query) -> dict[str, Job]:
        """The jobs that match, by id, whatever the limit."""
        return {job.id: job for job in self.jobs.values() if query.matches(job)}

    def counts(self, *, now: datetime) -> Counts:
        """As `Store.counts`."""
        queues = {name: dict.fromkeys(State, 0) for name in (*self.paused, *(job.queue for job in self.jobs.values()))}
        for job in self.jobs.values():
            queues[job.queue][job.state] += 1
        later = [job for job in self.jobs.values() if job.state is State.PENDING and job.run_at > now]
        return Counts(queues=queues, paused=dict(self.paused), later=len(later))

    def next_due(self, wanted: Wanted) -> datetime | None:
        """When the first of the wanted jobs is due; None where there is none."""
        return min((job.run_at for job in self.claimable(wanted)), default=None)

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        """As `Store.delete`."""
        deleted = []
        for job in jobs:
            stored = self.jobs.get(job.id)
            if stored is not None and stored.version == job.version and stored.state is not State.PROCESSING:
                del self.jobs[job.id]
                deleted.append(job.id)
        return deleted

    def prunable(self, states: frozenset[State], before: datetime) -> set[str]:
        """The ids of the jobs that `Store.prune` may delete."""
        return {job.id for job in self.jobs.values() if job.state in states and job.updated_at < before}

    def pause(self, queue: str, paused: bool, reason: str) -> None:
        """As `Store.pause`."""
        if paused:
            self.paused[queue] = reason
        else:
            self.paused.pop(queue, None)

    def die(self, worker: str) -> None:
        """A member is gone without having left."""
        self.gone[worker] = self.members.pop(worker)

    def lost(self) -> dict[str, dict[str, Job]]:
        """What each dead member holds, by its id."""
        return {worker: self.held(worker) for worker in self.gone}

    @staticmethod
    def group(job: Job) -> int:
        """Which of the four parts of a listing a job belongs to."""
        return 3 if job.state in FINISHED else 2 if job.state is State.DEAD else 1 if job.state in WAITING else 0

    @staticmethod
    def _chosen(due: Sequence[Job], limit: int, leading: Callable[[Job], bool] | None) -> list[Job]:
        """Those of the due jobs that one claim takes."""
        chosen: list[Job] = []
        for job in due:
            alone = job.losses >= ALONE_LOSSES
            if len(chosen) >= limit:
                break
            if alone and chosen:
                continue
            if leading is not None and not leading(job):
                break
            chosen.append(job)
            if alone:
                break
        return chosen


def outcome(act: Callable[[], object]) -> object:
    """What comes of it, errors of the contract included."""
    try:
        return act()
    except DuplicateJob as error:
        return "duplicate", sorted(error.ids)
    except (JobChanged, JobNotFound) as error:
        return type(error), error.job_id


def leading(shown: list[Job], leaders: tuple[str | None, ...] | None) -> Callable[[Job], bool] | None:
    """A `Wanted.leading` that lets jobs of these handlers lead (None: commands), and notes what it is shown."""
    if leaders is None:
        return None

    def lead(job: Job) -> bool:
        shown.append(job)
        return job.handler in leaders

    return lead


def by_id(jobs: Any) -> dict[str, Job]:
    """Jobs by their ids, none twice."""
    found = list(jobs)
    named = {job.id: job for job in found}
    assert len(named) == len(found), "something comes twice"
    return named
