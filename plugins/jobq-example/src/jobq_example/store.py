"""A store that is one JSON document: every call reads all of it, and every change writes all of it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from jobq import DuplicateJob, InvalidInput, JobNotFound, State, Store, StoreError
from jobq.errors import JobChanged
from jobq.job import EPOCH, WAITING
from jobq.presence import FilePresence, forget, is_alive, members, unknown_worker
from jobq.store import Claim, Claimed, Counts
from jobq_example.claiming import claim_order, settle, take, waiting
from jobq_example.document import DocumentFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from jobq import Context, Job, Settings
    from jobq.job import Change
    from jobq.members import Presence, WorkerInfo
    from jobq.store import Ended, NewJob, Query, Wanted
    from jobq_example.document import Document


def open_document(settings: Settings, context: Context) -> DocumentStore:
    """The store of `document:NAME`, a file in the home.

    Raises:
        InvalidInput: the name leads out of the home, whose workers alone are known to be alive or gone.
    """
    path = context.home / (context.url or "document.json")
    if path.parent != context.home:
        raise InvalidInput("store", f"document:{context.url}", "should name a file in the home, as document:NAME")
    return DocumentStore(path, context.home / "workers", durable=settings["durability"] == "full")


class DocumentStore(Store):
    """Keeps jobs in one JSON document. Each call costs as much as all the jobs together.

    Args:
        path: the document.
        workers: the directory with the workers' locks: that of the home, where executors look for them too.
        durable: whether a change survives loss of power.
    """

    capabilities = frozenset({"processes", "durable"})

    def __init__(self, path: Path, workers: Path, *, durable: bool) -> None:
        self.url = f"document:{path.name}"
        self._file = DocumentFile(path, durable=durable)
        self._workers = workers

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        jobs = [each.job for each in new]
        taken = {}
        with self._file.changing() as document:
            for job in jobs:
                if job.id in document.jobs:
                    taken[job.id] = job
                document.jobs[job.id] = job
            if taken:
                raise DuplicateJob(taken)
        return jobs

    def get(self, job_id: str) -> Job:
        return _stored(self._file.read(), job_id)

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        with self._file.changing() as document:
            stored = _stored(document, before.id)
            if stored.version != before.version:
                raise JobChanged(before.id)
            job = document.jobs[before.id] = stored.changed(change, now=now)
        return job

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        deleted = []
        with self._file.changing() as document:
            for job in jobs:
                stored = document.jobs.get(job.id)
                if stored and stored.version == job.version and stored.state is not State.PROCESSING:
                    del document.jobs[job.id]
                    deleted.append(job.id)
        return deleted

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        with self._file.changing() as document:
            jobs = document.jobs.values()
            ids = [job.id for job in jobs if job.state in states and job.updated_at < before][:limit]
            for job_id in ids:
                del document.jobs[job_id]
        return ids

    def find(self, query: Query) -> Iterator[Job]:
        found = sorted(filter(query.matches, self._file.read().jobs.values()), key=_listing_order)
        return iter(found[: query.limit])

    def counts(self, *, now: datetime) -> Counts:
        document = self._file.read()
        queues = {queue: dict.fromkeys(State, 0) for queue in document.paused}
        later = 0
        for job in document.jobs.values():
            queues.setdefault(job.queue, dict.fromkeys(State, 0))[job.state] += 1
            later += job.state is State.PENDING and job.run_at > now
        return Counts(queues=queues, paused=document.paused, later=later)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        with self._file.changing() as document:
            if paused:
                document.paused[queue] = reason
            else:
                document.paused.pop(queue, None)

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        with self._file.changing() as document:
            refused, cancelled = settle(document, ended, now=now)
            claims = take(document, worker, wanted, limit, now=now)
        return Claimed(claims, refused, cancelled)

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        return min((job.run_at for job in waiting(self._file.read(), wanted)), default=None)

    def held(self, worker: Presence) -> list[Job]:
        return self._file.read().held_by(worker.id)

    def join(self, info: WorkerInfo) -> Presence:
        return FilePresence(self._workers, info)

    def report(self, worker: Presence, info: WorkerInfo) -> None:
        if isinstance(worker, FilePresence):
            worker.report(info)

    def workers(self) -> list[WorkerInfo]:
        return sorted((info for info, alive in members(self._workers) if alive), key=attrgetter("started"))

    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        document = self._file.read()
        found = list(members(self._workers))
        gone = [info for info, alive in found if not alive]
        # Some holders are not found: they left without ending their jobs, or their files were removed. One that is
        # just joining or leaving is not found either, but alive.
        holders = {job.worker for job in document.jobs.values() if job.worker} - {info.id for info, _ in found}
        gone += [unknown_worker(holder) for holder in sorted(holders) if not is_alive(self._workers, holder)]
        return [
            (info, [Claim(job, info.id, info.host) for job in document.held_by(info.id)])
            for info in sorted(gone, key=attrgetter("started"))
        ]

    def forget(self, worker: WorkerInfo) -> None:
        forget(self._workers, worker.id)

    def watch(self, wake: Callable[[], None]) -> bool:
        return False

    def check(self) -> list[str]:
        try:
            self._file.read()
        except StoreError as error:
            return [str(error)]
        return []

    def close(self) -> None:
        """Do nothing: between two calls no file is open."""


def _stored(document: Document, job_id: str) -> Job:
    if job_id not in document.jobs:
        raise JobNotFound(job_id)
    return document.jobs[job_id]


def _listing_order(job: Job) -> tuple[int | datetime | timedelta, ...]:
    if job.state is State.PROCESSING:
        return (0,)
    if job.state in WAITING:
        return (1, *claim_order(job))
    if job.state is State.DEAD:
        return (2,)
    return (3, EPOCH - job.updated_at)
