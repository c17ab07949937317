"""The store: what `jobq.store.Store` asks for, over the files of one directory.

This module holds what adding needs; what a view of the store and a watch need is imported when first used.
"""

from __future__ import annotations

import os

from jobq.errors import DuplicateJob, InvalidInput, JobNotFound
from jobq.job import State
from jobq.store import Claimed, Counts, Store, changed_alone
from jobq.times import floor_ms, parse_time
from jobq_json import adding
from jobq_json.access import Access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import ClassVar

    from jobq.job import Change, Job
    from jobq.members import Presence, WorkerInfo
    from jobq.notices import Notice
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Claim, Ended, NewJob, Query, Wanted
    from jobq.watching import Watch
    from jobq_json.kept import Kept
    from jobq_json.view import Place, View


class JsonStore(Store):
    """Jobs in JSON files that many processes of one machine share.

    Args:
        settings: of them `durability`.
        context: its `url` names a directory, relative to the home; HOME/queue where it is empty.

    Attributes:
        access: the files.

    Raises:
        InvalidInput: `durability` is neither `full` nor `normal`, or the URL names what the home has for other things.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"processes", "durable", "moves"})

    def __init__(self, settings: Settings, context: Context) -> None:
        if settings["durability"] not in ("full", "normal"):
            raise InvalidInput("durability", settings["durability"], "must be full or normal")
        self.url = f"json:{context.url}"
        self._members = f"{context.directory}/workers"
        self._path = _path(context.directory, context.url) if context.url else f"{context.directory}/queue"
        if context.url:
            from jobq.home import refuse_own_place

            refuse_own_place(_path(context.directory, ""), self._path, self.url)
        durable = settings["durability"] == "full"
        # A directory elsewhere stands among what is not ours.
        inside = not context.url or os.path.dirname(self._path) == _path(context.directory, "")
        mark = f"{self._path}.made" if inside else None
        self.access = Access(self._path, context.clock, durable=durable, warn=context.warn, mark=mark)
        self._watch: Watch | None = None
        self._unsure: dict[tuple[str, int], bool] = {}

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        if not new:
            return []
        chosen = [item.job.id for item in new if not item.generated]
        taken = set(adding.repeated(new))
        self.access.look_for(chosen)
        with self.access.writing() as generation:
            generation.heed("add")
            if chosen and (present := generation.finder().found(chosen)):
                taken |= generation.view_locked().locate(present).keys()
            if taken:
                raise DuplicateJob(dict.fromkeys(item.job.id for item in new if item.job.id in taken))
            journal = generation.journal
            added = [item.job for item in new]
            journal.append(adding.record_of(added, journal.seq), next_seq=journal.seq + len(new))
        self.access.settle(generation, ring=True)
        return added

    def restore(self, jobs: Sequence[Job], *, now: datetime) -> list[str]:
        from jobq.notices import arrivals

        if not jobs:
            return []
        ids = [job.id for job in jobs]
        self.access.look_for(ids)
        with self.access.writing() as generation:
            generation.heed("restore")
            present = generation.finder().found(ids)
            stored = generation.view_locked().locate(present) if present else {}
            fresh = arrivals(jobs, {job_id: kept.job.version for job_id, (kept, _) in stored.items()})
            if fresh:
                journal = generation.journal
                journal.append(adding.record_of(fresh, journal.seq), next_seq=journal.seq + len(fresh))
        self.access.settle(generation, ring=bool(fresh))
        return [job.id for job in fresh]

    def notice(self) -> Notice | None:
        return self.access.notice()

    def post(self, notice: Notice | None, *, before: Notice | None, now: datetime) -> None:
        self.access.post(notice, before=before, url=self.url)

    def identity(self) -> str:
        try:
            facts = os.stat(self._path)
        except OSError:  # not made yet, or to be told of when it is used
            return f"json:{os.path.realpath(self._path)}"
        return f"json:{facts.st_dev}:{facts.st_ino}"

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        from jobq_json import transactions

        now = floor_ms(now)
        with self.access.writing() as generation:
            generation.heed("claim")
            if generation.manifest.notice is not None:
                limit = 0
            view = generation.view_locked()
            claimed, record, ring = transactions.claim(
                view, worker, wanted=wanted, limit=limit, ended=ended, unsure=self._unsure, now=now
            )
            generation.append(view, record)
        if record:
            try:
                self.access.settle(generation, ring=ring)
            except BaseException:
                refused, cancelled = (_runs(claims) for claims in (claimed.refused, claimed.cancelled))
                self._unsure = {key: key in cancelled for key in _runs(item.claim for item in ended) - refused}
                raise
        return claimed

    def held(self, worker: Presence) -> list[Job]:
        return self.access.asked(lambda view: [kept.job for kept in view.held.get(worker.id, {}).values()], [])

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        return changed_alone(self, before, change, now=now)

    def change_many(self, changes: Sequence[tuple[Job, Change]], *, now: datetime) -> list[Job]:
        from jobq_json import transactions

        now = floor_ms(now)
        with self.access.changing([before.id for before, _ in changes]) as (generation, view, found):
            chosen = []
            for before, change in changes:
                generation.heed("change", before)
                kept, place = found.get(before.id, (None, None))
                if kept is not None and kept.job.version == before.version:
                    chosen.append((kept, place, change))
            jobs, record = transactions.change(view, chosen, now=now)
            generation.append(view, record)
        if record:
            self.access.settle(generation, ring=True)
        return jobs

    def get(self, job_id: str) -> Job:
        found = self.access.read(lambda view: view.locate((job_id,)).get(job_id), None)
        if found is None:
            raise JobNotFound(job_id)
        return found[0].job

    def get_many(self, job_ids: Iterable[str]) -> dict[str, Job]:
        ids = set(job_ids)
        return self.access.read(lambda view: {key: found[0].job for key, found in view.locate(ids).items()}, {})

    def find(self, query: Query) -> Iterator[Job]:
        from jobq_json import finding

        return self.access.read(lambda view: finding.find(view, query), iter(()))

    def counts(self, *, now: datetime) -> Counts:
        from jobq_json import finding

        return self.access.read(lambda view: finding.counts(view, now=now), Counts(queues={}, paused={}))

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        due = self.access.read(lambda view: view.lanes.next_due(wanted, view.paused), None)
        return None if due is None else parse_time(due)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        from jobq_json import transactions

        with self.access.writing() as generation:
            generation.heed("pause")
            view = generation.view_locked()
            record = transactions.pause(view, queue, paused, reason)
            generation.append(view, record)
        if record:
            self.access.settle(generation, ring=True)

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        from jobq_json import transactions

        if not jobs:
            return []
        versions = {job.id: job.version for job in jobs}
        with self.access.changing(versions) as (generation, view, found):
            generation.heed("delete")
            chosen = [
                (kept, place)
                for kept, place in found.values()
                if kept.job.version == versions[kept.id] and kept.state != State.PROCESSING
            ]
            record = transactions.delete(view, chosen)
            generation.append(view, record)
        if record:
            self.access.settle(generation, ring=False)
        return [kept.id for kept, _ in chosen]

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        from jobq.notices import heed
        from jobq_json import pruning, transactions

        nothing: tuple[View | None, list[tuple[Kept, Place]]] = None, []
        record = ""
        heed(self.access.notice(), "prune")
        while not record:
            seen, old = self.access.asked(
                lambda view: (view, pruning.batch(view, states=states, before=before, limit=limit)), nothing
            )
            if not old:
                return []
            with self.access.writing() as generation:
                generation.heed("prune")
                view = generation.view_locked()
                chosen = [found for found in old if view is seen and view.is_current(found[0])]
                record = transactions.delete(view, chosen)
                generation.append(view, record)
        self.access.settle(generation, ring=False)
        return [kept.id for kept, _ in chosen]

    def join(self, info: WorkerInfo) -> Presence:
        from jobq.presence import FilePresence

        return FilePresence(self._members, info)

    def report(self, worker: Presence, info: WorkerInfo) -> None:
        from jobq.presence import FilePresence

        if isinstance(worker, FilePresence):
            worker.report(info)

    def workers(self) -> list[WorkerInfo]:
        from jobq.presence import members

        return sorted((info for info, alive in members(self._members) if alive), key=lambda info: info.started)

    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        from jobq import presence
        from jobq.store import Claim

        known = {info.id: (info, alive) for info, alive in presence.members(self._members)}
        held: dict[str, list[Kept]] = self.access.asked(
            lambda view: {worker: list(jobs.values()) for worker, jobs in view.held.items()}, {}
        )
        gone = {worker: info for worker, (info, alive) in known.items() if not alive}
        for worker in held.keys() - known.keys():
            if not presence.is_alive(self._members, worker):
                gone[worker] = presence.unknown_worker(worker)
        return [
            (info, [Claim(kept.job, info.id, info.host) for kept in held.get(info.id, ())])
            for info in sorted(gone.values(), key=lambda info: (info.started, info.id))
        ]

    def forget(self, worker: WorkerInfo) -> None:
        from jobq.presence import forget

        forget(self._members, worker.id)

    def watch(self, wake: Callable[[], None]) -> bool:
        from jobq.watching import Watch
        from jobq_json.directory import BELL

        self.access.create()  # the bell is there from here on
        if self._watch is not None:
            self._watch.close()
        self._watch = Watch(f"{self._path}/{BELL}", self._members, wake)
        return True

    def rest(self) -> None:
        self.access.rest()

    def check(self) -> list[str]:
        from jobq_json.checking import check

        return self.access.asked(lambda view: check(self.access.directory, view), [])

    def repair(self) -> list[str]:
        return self.access.repair()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self.access.close()


def _path(home: str, url: str) -> str:
    """Where a URL leads to from the home. What goes up behind a symbolic link is the system's to follow."""
    absolute = os.path.abspath(home) if not os.path.isabs(home) else home
    parts = os.path.join(absolute, url).split(os.sep)
    return os.sep + os.sep.join(part for part in parts if part not in ("", os.curdir))


def _runs(claims: Iterable[Claim]) -> set[tuple[str, int]]:
    return {(claim.job.id, claim.run) for claim in claims}
