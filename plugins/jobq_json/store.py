"""The store: what `jobq.store.Store` asks for, over the files of one directory.

This module holds what adding needs; the view of the store, compaction and watching are imported when first used.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, TypeVar

from jobq.errors import (
    Conflict,
    DuplicateJob,
    InvalidInput,
    JobChanged,
    JobNotFound,
    NotFound,
    StoreError,
    StoreUnreadable,
)
from jobq.job import State
from jobq.store import Claimed, Counts, Store
from jobq.times import floor_ms, parse_time
from jobq_json import adding
from jobq_json.directory import Directory
from jobq_json.journal import Journal
from jobq_json.manifest import WAY_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from jobq.job import Change, Job
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Claim, Ended, NewJob, Presence, Query, Wanted, WorkerInfo
    from jobq_json.kept import Kept
    from jobq_json.manifest import Manifest
    from jobq_json.view import Place, View
    from jobq_json.watch import Watch

T = TypeVar("T")

BLIND_LIMIT = 32 << 20
"""Bytes of journal beyond which a process that only adds compacts too; the first reader has to replay them."""

LEAST = 1 << 20
"""Bytes of journal below which no process compacts."""

_ATTEMPTS = 100


class JsonStore(Store):
    """Jobs in JSON files that many processes of one machine share.

    Args:
        settings: of them `durability`, `keep-completed` and `keep-cancelled`.
        context: its `url` names a directory, relative to the home; HOME/queue where it is empty.

    Raises:
        InvalidInput: `durability` is neither `full` nor `normal`.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"processes", "durable"})

    def __init__(self, settings: Settings, context: Context) -> None:
        if settings["durability"] not in ("full", "normal"):
            raise InvalidInput("durability", settings["durability"], "must be full or normal")
        self.url = f"json:{context.url}"
        self._settings, self._warn, self._clock = settings, context.warn, context.clock
        self._path = context.home / (context.url or "queue")
        self._members = context.home / "workers"
        self._full = settings["durability"] == "full"
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        allowed = os.environ.get("JOBQ_ALLOW_NETWORK_FS") == "1"
        self._directory = Directory(self._path, allow_network=allowed)
        self._journal: Journal | None = None
        self._view: View | None = None
        self._finder: adding.Finder | None = None
        self._watch: Watch | None = None
        self._distrusted = 0
        self._compact_above = 0
        self._unsure: set[tuple[str, int]] = set()

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        if not new:
            return []
        chosen = [item.job.id for item in new if not item.generated]
        taken = set(adding.repeated(new))
        finder, present = self._searched(chosen)
        with self._writing(now) as (manifest, journal):
            if chosen:
                if finder is None or finder.generation != manifest.generation:
                    finder = self._finder = adding.Finder(self._directory, manifest, journal)
                    present = finder.in_base(chosen)
                present |= finder.in_journal(chosen)
                if present:
                    taken |= self._view_of(manifest).locate(present).keys()
            if taken:
                raise DuplicateJob(dict.fromkeys(item.job.id for item in new if item.job.id in taken))
            seq = journal.tail()
            journal.append(adding.record_of(new, seq), next_seq=seq + len(new))
        self._settle(journal, ring=True, now=now)
        return [item.job for item in new]

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        from jobq_json import transactions

        now = floor_ms(now)
        with self._writing(now) as (manifest, journal):
            view = self._view_of(manifest)
            claimed, record, ring = transactions.claim(
                view, worker, wanted=wanted, limit=limit, ended=ended, unsure=self._unsure, now=now
            )
            self._append(view, record)
        if record:
            try:
                self._settle(journal, ring=ring, now=now)
            except BaseException:
                self._unsure = {(item.claim.job.id, item.claim.run) for item in ended}
                raise
        return claimed

    def held(self, worker: Presence) -> list[Job]:
        return self._asked(lambda view: [kept.job for kept in view.held.get(worker.id, {}).values()], [])

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        from jobq_json import transactions

        now = floor_ms(now)
        with self._changing((before.id,), now) as (view, journal, found):
            if before.id not in found:
                raise JobNotFound(before.id)
            kept, place = found[before.id]
            if kept.job.rev != before.rev:
                raise JobChanged(before.id)
            job, record = transactions.change(view, kept, place, change, now=now)
            self._append(view, record)
        self._settle(journal, ring=True, now=now)
        return job

    def get(self, job_id: str) -> Job:
        found = self._asked(lambda view: view.locate((job_id,)).get(job_id), None)
        if found is None:
            raise JobNotFound(job_id)
        return found[0].job

    def find(self, query: Query) -> Iterator[Job]:
        from jobq_json import finding

        return self._asked(lambda view: finding.find(view, query), iter(()))

    def counts(self, *, now: datetime) -> Counts:
        from jobq_json import finding

        return self._asked(lambda view: finding.counts(view, now=now), Counts(queues={}, paused={}))

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        due = self._asked(lambda view: view.lanes.next_due(wanted, view.paused), None)
        return None if due is None else parse_time(due)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        from jobq_json import transactions

        with self._writing(now) as (manifest, journal):
            view = self._view_of(manifest)
            record = transactions.pause(view, queue, paused, reason)
            self._append(view, record)
        if record:
            self._settle(journal, ring=True, now=now)

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        from jobq_json import transactions

        if not jobs:
            return []
        revs, now = {job.id: job.rev for job in jobs}, self._clock.now()
        with self._changing(revs, now) as (view, journal, found):
            chosen = [
                (kept, place)
                for kept, place in found.values()
                if kept.job.rev == revs[kept.id] and kept.state != State.PROCESSING
            ]
            if chosen:
                self._append(view, transactions.delete(view, chosen))
        if chosen:
            self._settle(journal, ring=False, now=now)
        return [kept.id for kept, _ in chosen]

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        from jobq_json import finding

        return self.delete(
            self._asked(lambda view: finding.prunable(view, states=states, before=before, limit=limit), [])
        )

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
        held: dict[str, list[Kept]] = self._asked(
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
        from jobq_json.watch import Watch

        self._after_fork()
        with self._directory.locked():  # the bell is there from here on
            pass
        if self._watch is not None:
            self._watch.close()
        self._watch = Watch(self._path, self._members, wake)
        return True

    def check(self) -> list[str]:
        from jobq_json.checking import check

        return self._asked(lambda view: check(self._directory, view), [])

    def repair(self) -> list[str]:
        from jobq_json.repairing import repair

        self._after_fork()
        self._forget_generation()
        done = repair(self._directory, now=self._clock.now(), warn=self._warn)
        self._directory.close()
        self._open()
        return done

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._forget_generation()
        self._directory.close()

    @contextmanager
    def _writing(self, now: datetime) -> Iterator[tuple[Manifest, Journal]]:
        """Hold the lock, with a journal that may be written to. Trouble drops the view: it may have run ahead."""
        self._after_fork()
        with self._directory.locked() as current:
            manifest = self._renew(current, now) if current.generation == self._distrusted else current
            try:
                yield manifest, self._journal_of(manifest)
            except (Conflict, NotFound):
                raise
            except FileNotFoundError as error:
                self._forget_generation()
                raise StoreUnreadable(f"{error.filename} is missing; {WAY_OUT}") from None
            except BaseException:
                self._view = None
                raise

    @contextmanager
    def _changing(
        self, ids: Iterable[str], now: datetime
    ) -> Iterator[tuple[View, Journal, dict[str, tuple[Kept, Place]]]]:
        """As `_writing`, with the jobs of these ids, which are looked for before the lock is taken."""
        ids = tuple(ids)
        before = self._look()
        found = before.locate(ids) if before is not None else {}
        with self._writing(now) as (manifest, journal):
            view = self._view_of(manifest)
            if view is before:
                unchanged = {job_id: found[job_id] for job_id in ids if job_id not in view.delta and job_id in found}
                found = view.locate([job_id for job_id in ids if job_id in view.delta]) | unchanged
            else:
                found = view.locate(ids)
            yield view, journal, found

    def _append(self, view: View, record: str) -> None:
        if record:
            view.journal.tail()
            view.position = view.journal.append(record, next_seq=view.seq)

    def _settle(self, journal: Journal, *, ring: bool, now: datetime) -> None:
        """After the lock: wake others, make durable what was written, compact where that is due."""
        if ring:
            self._directory.ring()
        if self._full:
            try:
                journal.sync()
            except OSError:
                self._distrusted = journal.generation
                with self._writing(now):  # publishes a new generation, or raises
                    pass
                return
        size = journal.size
        if size > max(LEAST, self._compact_above) and (self._view is not None or size > BLIND_LIMIT):
            self._compact(size, now)

    def _compact(self, size: int, now: datetime) -> None:
        from jobq_json.compaction import compact, give_back_memory, worth_it

        try:
            view = self._look()
            if view is None or not worth_it(view, size, least=LEAST):
                return
            states = (State.COMPLETED, State.CANCELLED)
            keep = {state: self._settings[f"keep-{state}"] for state in states}
            if compact(self._directory, view, now=now, keep=keep):
                self._compact_above = 0
                self._forget_generation()
                give_back_memory()
        except (StoreError, OSError) as error:  # what was to be done is done and durable; the journal grows on
            self._compact_above = size + (4 << 20)
            self._view = None
            self._warn(f"the store could not be compacted: {error}")

    def _renew(self, manifest: Manifest, now: datetime) -> Manifest:
        """Under the lock: leave a journal whose sync failed behind; the manifest of the generation after it.

        A generation published by somebody else since holds what was in the journal, synced.
        """
        from jobq_json.compaction import compact_locked

        compact_locked(self._directory, self._view_of(manifest), now=now)
        self._distrusted = 0
        self._forget_generation()
        renewed = self._directory.current()
        if renewed is None:
            raise StoreUnreadable(f"the store in {self._path} was removed while it was in use")
        return renewed

    def _journal_of(self, manifest: Manifest) -> Journal:
        if self._journal is None or self._journal.generation != manifest.generation:
            self._forget_generation()
            self._journal = Journal(self._directory, manifest)
        return self._journal

    def _view_of(self, manifest: Manifest) -> View:
        """The view of a generation, up to date."""
        journal = self._journal_of(manifest)
        view = self._view
        if view is None or journal.size < view.position:
            from jobq_json.view import View

            self._view = None
            view = self._view = View(self._directory, manifest, journal, self._warn)
        else:
            try:
                view.refresh()
            except BaseException:
                self._view = None
                raise
        return view

    def _look(self) -> View | None:
        """The view as the store is now, without a lock; None where nothing was ever stored."""
        return self._asked(lambda view: view, None)

    def _asked(self, ask: Callable[[View], T], empty: T) -> T:
        """What `ask` answers of the store as it is now; `empty` where nothing was ever stored.

        A generation may be replaced, and its files removed, while it is being opened: then the next one is asked.
        """
        self._after_fork()
        before: Manifest | None = None
        missing: object = self._path
        for _ in range(_ATTEMPTS):
            manifest = self._directory.current()
            if manifest is None:
                return empty
            if manifest is before:
                break
            before = manifest
            try:
                return ask(self._view_of(manifest))
            except FileNotFoundError as error:
                self._forget_generation()
                missing = error.filename
        raise StoreUnreadable(f"{missing} is missing; {WAY_OUT}")

    def _searched(self, ids: Sequence[str]) -> tuple[adding.Finder | None, set[str]]:
        """Which of the ids stand in what never changes, as far as that can be looked up without the lock."""
        self._after_fork()
        manifest = self._directory.current() if ids else None
        if manifest is None:
            return None, set()
        try:
            if self._finder is None or self._finder.generation != manifest.generation:
                self._finder = adding.Finder(self._directory, manifest, self._journal_of(manifest))
            return self._finder, self._finder.in_base(ids)
        except FileNotFoundError:  # replaced this very moment: under the lock it stands still
            return None, set()

    def _forget_generation(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = self._view = self._finder = None

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._forget_generation()
            self._directory.close()
            self._open()
