"""A store in memory: the reference that other stores are compared with, and the store of fast tests.

It does in the plainest way what `jobq.store.Store` asks for. Every job goes through its JSON form once, so what a real
store could not keep does not pass here either.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobq import lifecycle
from jobq.errors import DuplicateJob, JobChanged, JobNotFound
from jobq.job import FINISHED, WAITING, Change, Job, State
from jobq.members import Presence, WorkerInfo
from jobq.notices import Notice, arrivals, empties, heed
from jobq.store import Claim, Claimed, Counts, Ended, NewJob, Query, Store, Wanted, runs_alone

if TYPE_CHECKING:
    from datetime import datetime
    from typing import ClassVar


@dataclass
class MemoryStorage:
    """What the handles of one store share.

    Attributes:
        jobs: by id, in the order of their sequence numbers.
        sequence: of each job, by id.
        writes: the number of the latest write of each job, by id.
        paused: the paused queues and why.
        members: every worker that joined and was not forgotten, by id.
        gone: the ids of those that died or left.
        stops: how members were asked to stop, by id.
        notice: what stands at its door.
        watchers: what the open handles want called, by handle.
        lock: held while any of this is read or changed.
        added, written: how many jobs were ever added, and how many writes there were.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    sequence: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    paused: dict[str, str] = field(default_factory=dict)
    members: dict[str, WorkerInfo] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    stops: dict[str, int] = field(default_factory=dict)
    notice: Notice | None = None
    watchers: dict[MemoryStore, Callable[[], None]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    added: int = 0
    written: int = 0

    def put(self, job: Job) -> Job:
        """Store one job."""
        job = Job.from_record(json.loads(json.dumps(job.record(), allow_nan=False)))
        if job.id not in self.sequence:
            self.added += 1
            self.sequence[job.id] = self.added
        self.written += 1
        self.writes[job.id] = self.written
        self.jobs[job.id] = job
        return job

    def drop(self, job_id: str) -> None:
        """Delete one job."""
        self.written += 1
        for table in (self.jobs, self.sequence, self.writes):
            del table[job_id]

    def empty(self) -> None:
        """Delete every job and pause."""
        self.written += 1
        for table in (self.jobs, self.sequence, self.writes, self.paused):
            table.clear()

    def wake(self, changer: MemoryStore | None = None) -> None:
        """Call every watcher but the one that made the change."""
        for handle, watcher in list(self.watchers.items()):
            if handle is not changer:
                watcher()

    def claim_order(self, job: Job) -> tuple[int, datetime, int]:
        """What sorts jobs in the order in which they are claimed."""
        return -job.priority, job.run_at, self.sequence[job.id]


class MemoryPresence(Presence):
    """A worker's membership in a `MemoryStorage`."""

    def __init__(self, storage: MemoryStorage, info: WorkerInfo) -> None:
        self.id, self.host = info.id, info.host
        self._storage = storage

    @property
    def stop_asked(self) -> int:
        return self._storage.stops.get(self.id, 0)

    def close(self, *, clean: bool = True) -> None:
        del clean  # what is held is looked at instead
        with self._storage.lock:
            self._storage.gone.add(self.id)
            if not any(job.worker == self.id for job in self._storage.jobs.values()):
                self._storage.members.pop(self.id, None)
        self._storage.wake()

    def die(self) -> None:
        """Be gone without having left, as a worker that was killed."""
        with self._storage.lock:
            self._storage.gone.add(self.id)
        self._storage.wake()


class MemoryStore(Store):
    """One handle of a store in memory. It is gone with the process.

    Args:
        storage: what it shares with other handles; None for a fresh, empty one.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"moves"})

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self.url = "memory:"

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        with self._changing("add") as storage:
            seen: set[str] = set()
            taken: dict[str, None] = {}
            for job in (item.job for item in new):
                if job.id in seen or job.id in storage.jobs:
                    taken[job.id] = None
                seen.add(job.id)
            if taken:
                raise DuplicateJob(taken)
            return [storage.put(item.job) for item in new]

    def restore(self, jobs: Sequence[Job], *, now: datetime) -> list[str]:
        with self._changing("restore") as storage:
            fresh = arrivals(jobs, {job_id: job.version for job_id, job in storage.jobs.items()})
            return [storage.put(job).id for job in fresh]

    def notice(self) -> Notice | None:
        return self.storage.notice

    def post(self, notice: Notice | None, *, before: Notice | None, now: datetime) -> None:
        storage = self.storage
        with storage.lock:
            if empties(notice, before=before, stands=storage.notice, jobs=len(storage.jobs), url=self.url):
                storage.empty()
            storage.notice = notice
        if notice != before:
            self.storage.wake(self)

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        with self._changing("claim") as storage:
            refused, cancelled = self._apply(ended, now)
            if storage.notice is not None:
                return Claimed([], refused, cancelled)
            claims: list[Claim] = []
            for job in self._wanted(wanted):
                alone = runs_alone(job)
                if len(claims) >= limit:
                    break
                if job.run_at > now or (alone and claims):
                    continue
                if wanted.leading is not None and not wanted.leading(job):
                    break
                change = lifecycle.claimed(job, worker.id, now=now)
                claims.append(Claim(storage.put(job.changed(change, now=now)), worker.id, worker.host))
                if alone:
                    break
            return Claimed(claims, refused, cancelled)

    def held(self, worker: Presence) -> list[Job]:
        with self.storage.lock:
            return self._held(worker.id)

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        with self._changing("change", before) as storage:
            stored = self._get(before.id)
            if stored.version != before.version:
                raise JobChanged(before.id)
            return storage.put(stored.changed(change, now=now))

    def get(self, job_id: str) -> Job:
        with self._reading():
            return self._get(job_id)

    def get_many(self, job_ids: Iterable[str]) -> dict[str, Job]:
        with self._reading():
            return {job_id: self.storage.jobs[job_id] for job_id in job_ids if job_id in self.storage.jobs}

    def find(self, query: Query) -> Iterator[Job]:
        with self._reading():
            found = sorted(filter(query.matches, self.storage.jobs.values()), key=self._listing_order)
        return iter(found[: query.limit])

    def counts(self, *, now: datetime) -> Counts:
        with self._reading():
            jobs, paused = list(self.storage.jobs.values()), dict(self.storage.paused)
        queues = {name: dict.fromkeys(State, 0) for name in sorted({*paused, *(job.queue for job in jobs)})}
        for job in jobs:
            queues[job.queue][job.state] += 1
        later = sum(job.state is State.PENDING and job.run_at > now for job in jobs)
        return Counts(queues=queues, paused=paused, later=later)

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        with self._reading():
            return min((job.run_at for job in self._wanted(wanted)), default=None)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        wish = reason if paused else None
        with self._changing("pause") as storage:
            if storage.paused.get(queue) == wish:
                return
            storage.written += 1
            if wish is None:
                del storage.paused[queue]
            else:
                storage.paused[queue] = wish

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        deleted = []
        with self._changing("delete") as storage:
            for job in jobs:
                stored = storage.jobs.get(job.id)
                if stored is not None and stored.version == job.version and stored.state is not State.PROCESSING:
                    storage.drop(job.id)
                    deleted.append(job.id)
        return deleted

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        with self._changing("prune") as storage:
            old = [job for job in storage.jobs.values() if job.state in states and job.updated_at < before]
            old.sort(key=lambda job: job.updated_at)
            for job in old[:limit]:
                storage.drop(job.id)
            return [job.id for job in old[:limit]]

    def join(self, info: WorkerInfo) -> Presence:
        with self.storage.lock:
            self.storage.members[info.id] = info
        return MemoryPresence(self.storage, info)

    def report(self, worker: Presence, info: WorkerInfo) -> None:
        with self.storage.lock:
            self.storage.members[worker.id] = info

    def ask_to_stop(self, worker: WorkerInfo, level: int) -> None:
        with self.storage.lock:
            self.storage.stops[worker.id] = max(level, self.storage.stops.get(worker.id, 0))
        self.storage.wake()

    def workers(self) -> list[WorkerInfo]:
        with self.storage.lock:
            live = [info for info in self.storage.members.values() if info.id not in self.storage.gone]
        return sorted(live, key=lambda info: info.started)

    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        with self.storage.lock:
            gone = [info for info in self.storage.members.values() if info.id in self.storage.gone]
            gone.sort(key=lambda info: info.started)
            return [(info, [Claim(job, info.id, info.host) for job in self._held(info.id)]) for info in gone]

    def forget(self, worker: WorkerInfo) -> None:
        with self.storage.lock:
            self.storage.members.pop(worker.id, None)

    def watch(self, wake: Callable[[], None]) -> bool:
        self.storage.watchers[self] = wake
        return True

    def check(self) -> list[str]:
        with self.storage.lock:
            return [
                f"job {job.id} is processing with {job.worker}, which never joined"
                for job in self.storage.jobs.values()
                if job.state is State.PROCESSING and job.worker not in self.storage.members
            ]

    def close(self) -> None:
        self.storage.watchers.pop(self, None)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self.storage.lock:
            heed(self.storage.notice, "read")
            yield

    @contextmanager
    def _changing(self, act: str, job: Job | None = None) -> Iterator[MemoryStorage]:
        with self.storage.lock:
            heed(self.storage.notice, act, job)
            before = self.storage.written
            yield self.storage
            changed = self.storage.written != before
        if changed:
            self.storage.wake(self)

    def passes(self, stored: Job, claim: Claim) -> bool:
        """Whether the fencing rule lets an end of this claim apply to the stored job."""
        return claim.holds(stored)

    def _apply(self, ended: Sequence[Ended], now: datetime) -> tuple[list[Claim], list[Claim]]:
        refused, cancelled = [], []
        for claim, change in ((each.claim, each.change) for each in ended):
            stored = self.storage.jobs.get(claim.job.id)
            if stored is None or not self.passes(stored, claim):
                refused.append(claim)
                continue
            settled = lifecycle.settled(stored, change)
            if settled is not change:
                cancelled.append(claim)
            self.storage.put(stored.changed(settled, now=now))
        return refused, cancelled

    def _get(self, job_id: str) -> Job:
        job = self.storage.jobs.get(job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def _held(self, worker_id: str) -> list[Job]:
        return [job for job in self.storage.jobs.values() if (job.state, job.worker) == (State.PROCESSING, worker_id)]

    def _wanted(self, wanted: Wanted) -> list[Job]:
        """The jobs that a worker may claim now or later, in claim order."""
        jobs = [
            job
            for job in self.storage.jobs.values()
            if job.state in WAITING and job.queue not in self.storage.paused and wanted.matches(job)
        ]
        return sorted(jobs, key=self.storage.claim_order)

    def _listing_order(self, job: Job) -> tuple[object, ...]:
        if job.state in FINISHED:
            return 3, -self.storage.writes[job.id]
        group = 0 if job.state is State.PROCESSING else 1 if job.state in WAITING else 2
        return group, *self.storage.claim_order(job)
