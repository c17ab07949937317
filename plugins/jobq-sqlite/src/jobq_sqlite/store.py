"""The store: what `jobq.store.Store` asks for, over one SQLite database."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, ClassVar

from jobq import presence
from jobq.bell import Bell
from jobq.errors import DuplicateJob, InvalidInput, JobNotFound, NotSupported, StoreError, StoreUnreadable
from jobq.job import State
from jobq.light import suppress
from jobq.notices import arrivals, heed
from jobq.store import Claim, Claimed, Counts, Store, changed_alone
from jobq.times import floor_ms
from jobq_sqlite import claiming, finding, ids, lanes, notices, rows, schema
from jobq_sqlite.changes import Changes
from jobq_sqlite.damage import DAMAGED, Damage
from jobq_sqlite.database import Database
from jobq_sqlite.place import Place
from jobq_sqlite.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from jobq.job import Change, Job
    from jobq.members import Presence, WorkerInfo
    from jobq.notices import Notice
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Ended, NewJob, Query, Wanted
    from jobq.watching import Watch

_AT_ONCE = 500
_LEAST = (3, 35)
"""The first SQLite that knows every statement here."""
_BY_IDS = f"SELECT seq, {rows.RECORD} FROM jobs WHERE id IN ({{}})"  # noqa: S608 - of constants
_HELD = f"SELECT seq, {rows.RECORD}, worker FROM jobs INDEXED BY running WHERE state = 'processing'"  # noqa: S608
_OLD = f"SELECT seq, {rows.RECORD} FROM jobs INDEXED BY old WHERE {schema.ENDED}"  # noqa: S608 - of constants
_OLD += " AND state = ? AND updated < ? ORDER BY updated LIMIT ?"


def open_store(settings: Settings, context: Context) -> SqliteStore:
    """The store that a URL names.

    Raises:
        InvalidInput: `durability` is neither `full` nor `normal`, or the home keeps other things at the place.
        NotSupported: SQLite is too old.
    """
    if sqlite3.sqlite_version_info < _LEAST:
        raise NotSupported(f"SQLite {sqlite3.sqlite_version} is too old for jobq-sqlite; it needs 3.35")
    if settings["durability"] not in ("full", "normal"):
        raise InvalidInput("durability", settings["durability"], "must be full or normal")
    allowed = os.environ.get("JOBQ_ALLOW_NETWORK_FS") == "1"
    place = Place(context.home, context.url, allow_network=allowed)
    database = Database(place, durable=settings["durability"] == "full")
    return SqliteStore(database, f"{context.directory}/workers", url=context.url, warn=context.warn)


class SqliteStore(Store):
    """Jobs in a SQLite database that many processes of one machine share.

    Args:
        database: the access to it.
        members: the directory with the workers' locks: that of the home, where executors look for them too.
        url: what stands behind the scheme.
        warn: is told of trouble that stops nothing, in one sentence.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"processes", "durable", "moves"})

    def __init__(self, database: Database, members: str, *, url: str, warn: Callable[[str], None]) -> None:
        self.url = f"sqlite:{url}"
        self._database, self._members = database, members
        self._damage = Damage(database, warn)
        self._bell = Bell(database.place.bell)
        self._watch: Watch | None = None

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        if not new:
            return []
        jobs = [item.job for item in new]
        made = [(job, rows.values(job)) for job in jobs]
        twice = ids.repeated(jobs)
        with self._database.writing("add") as connection:
            if twice:
                raise DuplicateJob(ids.in_order(jobs, twice | ids.taken(connection, jobs)))
            changes = Changes(connection)
            try:
                changes.insert(made)
            except sqlite3.IntegrityError:
                if not (taken := ids.taken(connection, jobs, undo=True)):
                    raise  # the index has what the table has not
                raise DuplicateJob(ids.in_order(jobs, taken)) from None
            changes.count()
        self._ring()
        return jobs

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        now = floor_ms(now)
        endings = [claiming.Ending(item, now=now) for item in ended]
        with self._database.writing("claim") as connection:
            changes = Changes(connection)
            refused, cancelled, ring = claiming.settle(connection, changes, endings)
            changes.count()
            claims: list[Claim] = []
            if notices.read(connection) is None:
                claims = claiming.take(connection, changes, worker, wanted, limit, now=now)
            changes.count()
        self._damage.tell_of(changes)
        if ring:
            self._ring()
        return Claimed(claims, refused, cancelled)

    def held(self, worker: Presence) -> list[Job]:
        def ask(connection: sqlite3.Connection) -> list[tuple[int, bytes, str]]:
            return connection.execute(f"{_HELD} AND worker = ?", (worker.id,)).fetchall()

        nothing: list[tuple[int, bytes, str]] = []
        found = self._database.asked(ask, nothing, "")
        return [job for _, job in self._damage.sound((seq, record) for seq, record, _ in found)]

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        return changed_alone(self, before, change, now=now)

    def change_many(self, changes: Sequence[tuple[Job, Change]], *, now: datetime) -> list[Job]:
        now = floor_ms(now)
        changed = []
        with self._database.writing("") as connection:
            notice = notices.read(connection)
            stored = {job.id: (seq, job) for seq, job in self._by_ids(connection, [job.id for job, _ in changes])}
            written = Changes(connection)
            for before, change in changes:
                heed(notice, "change", before)
                seq, job = stored.get(before.id, (0, None))
                if job is not None and job.version == before.version:
                    after = job.changed(change, now=now)
                    written.replace(seq, job, after)
                    changed.append(after)
            written.count()
        if changed:
            self._ring()
        return changed

    def get(self, job_id: str) -> Job:
        for _, job in self._found([job_id]):
            return job
        raise JobNotFound(job_id)

    def get_many(self, job_ids: Iterable[str]) -> dict[str, Job]:
        return {job.id: job for _, job in self._found(list(dict.fromkeys(job_ids)))}

    def find(self, query: Query) -> Iterator[Job]:
        sought = (query.queue, query.tag, query.handler, query.prefix)
        if not all(map(rows.can_be_stored, sought)):
            return iter(())
        page = min(query.limit or finding.PAGE, finding.PAGE)
        reading = self._database.search(lambda connection: finding.find(connection, query), page=page)
        if reading is None:
            return iter(())

        def accept(record: bytes) -> Job | None:
            job = self._damage.job_of(record)
            return job if job is not None and query.matches(job) else None

        return Snapshot(reading, accept, query.limit)

    def counts(self, *, now: datetime) -> Counts:
        nothing = Counts(queues={}, paused={})
        return self._database.asked(lambda connection: finding.counts(connection, now=now), nothing)

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        def ask(connection: sqlite3.Connection) -> int | None:
            return lanes.next_due(connection, lanes.wanted_lanes(connection, wanted))

        due = self._database.asked(ask, None)
        return None if due is None else rows.instant(due)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        with self._database.writing("pause") as connection:
            before = connection.execute("SELECT reason FROM paused WHERE queue = ?", (queue,)).fetchone()
            wanted = (reason,) if paused else None
            if before == wanted:
                return
            if wanted is None:
                connection.execute("DELETE FROM paused WHERE queue = ?", (queue,))
            else:
                connection.execute("INSERT OR REPLACE INTO paused (queue, reason) VALUES (?, ?)", (queue, reason))
        self._ring()

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        if not jobs:
            return []
        versions = {job.id: job.version for job in jobs}
        chosen = [
            (seq, job)
            for seq, job in self._found(list(versions))
            if job.version == versions[job.id] and job.state is not State.PROCESSING
        ]
        return self._remove(chosen, "delete")

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        def old(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
            found: list[tuple[int, bytes]] = []
            for state in sorted(states):
                asked = (state.value, rows.first_ms(before), limit - len(found))
                found += connection.execute(_OLD, asked)
            return found

        nothing: list[tuple[int, bytes]] = []
        found = [(seq, rows.job_of(record)) for seq, record in self._database.asked(old, nothing)]
        if broken := [seq for seq, job in found if job is None]:
            self._damage.set_aside(broken)
        return self._remove([(seq, job) for seq, job in found if job is not None], "prune") if found else []

    def restore(self, jobs: Sequence[Job], *, now: datetime) -> list[str]:
        if not jobs:
            return []
        values = {job.id: rows.values(job) for job in jobs}
        with self._database.writing("restore") as connection:
            stored = self._by_ids(connection, [job.id for job in jobs])
            fresh = arrivals(jobs, {job.id: job.version for _, job in stored})
            changes = Changes(connection)
            changes.insert([(job, values[job.id]) for job in fresh])
            changes.count()
        if fresh:
            self._ring()
        return [job.id for job in fresh]

    def notice(self) -> Notice | None:
        return self._database.asked(notices.read, None, "")

    def post(self, notice: Notice | None, *, before: Notice | None, now: datetime) -> None:
        with self._database.writing("") as connection:
            notices.post(connection, notice, before=before, url=self.url)
        if notice != before:
            self._ring()

    def identity(self) -> str:
        place = self._database.place
        return "sqlite:{}:{}".format(*(place.identity() or (os.path.realpath(place.path), "")))

    def join(self, info: WorkerInfo) -> Presence:
        return presence.FilePresence(self._members, info)

    def report(self, worker: Presence, info: WorkerInfo) -> None:
        if isinstance(worker, presence.FilePresence):
            worker.report(info)

    def workers(self) -> list[WorkerInfo]:
        return sorted((info for info, alive in presence.members(self._members) if alive), key=lambda info: info.started)

    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        known = {info.id: (info, alive) for info, alive in presence.members(self._members)}
        running: list[tuple[int, bytes, str]] = []
        held: dict[str, list[Job]] = {}
        broken: dict[int, str] = {}
        for seq, record, holder in self._database.asked(lambda each: each.execute(_HELD).fetchall(), running, ""):
            job = rows.job_of(record)
            if job is None:
                broken[seq] = holder
            else:
                held.setdefault(str(job.worker), []).append(job)
        gone = {worker: info for worker, (info, alive) in known.items() if not alive}
        for worker in held.keys() - known.keys():
            if not presence.is_alive(self._members, worker):
                gone[worker] = presence.unknown_worker(worker)
        # Whoever runs a job whose record is damaged writes it anew at its end; of one that is gone nobody does
        if left := [seq for seq, holder in broken.items() if not presence.is_alive(self._members, holder)]:
            self._damage.set_aside(left)
        return [
            (info, [Claim(job, info.id, info.host) for job in held.get(info.id, ())])
            for info in sorted(gone.values(), key=lambda info: (info.started, info.id))
        ]

    def forget(self, worker: WorkerInfo) -> None:
        presence.forget(self._members, worker.id)

    def watch(self, wake: Callable[[], None]) -> bool:
        from jobq.watching import Watch

        self._database.create()
        if not os.path.lexists(self._database.place.bell):
            self._bell.ring()  # from here on it is there
        if self._watch is not None:
            self._watch.close()
        self._watch = Watch(self._database.place.bell, self._members, wake)
        return True

    def check(self) -> list[str]:
        from jobq_sqlite.checking import check

        return self._database.asked(check, [], "")

    def repair(self) -> list[str]:
        from jobq_sqlite.repairing import repair

        return repair(self._database)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._bell.close()
        self._database.close()

    def _remove(self, chosen: list[tuple[int, Job]], act: str) -> list[str]:
        """Delete what was chosen before the transaction, unless it was changed since."""
        with self._database.writing(act) as connection:
            changes = Changes(connection)
            removed = changes.remove(chosen)
            changes.count()
        return removed

    def _found(self, job_ids: list[str]) -> list[tuple[int, Job]]:
        nothing: list[tuple[int, Job]] = []
        return self._database.asked(lambda connection: self._by_ids(connection, job_ids), nothing)

    def _by_ids(self, connection: sqlite3.Connection, job_ids: list[str]) -> list[tuple[int, Job]]:
        """The jobs of these ids, with their numbers.

        Raises:
            StoreUnreadable: the record of one is damaged.
        """
        found = []
        for start in range(0, len(job_ids), _AT_ONCE):
            part = list(filter(rows.can_be_stored, job_ids[start : start + _AT_ONCE]))
            for seq, record in connection.execute(_BY_IDS.format(rows.marks(part)), part):
                job = rows.job_of(record)
                if job is None:
                    raise StoreUnreadable(f"the record of job {seq} {DAMAGED}")
                found.append((seq, job))
        return found

    def _ring(self) -> None:
        """Wake who waits; no trouble with the bell may come behind what is recorded, and `Place` has looked at it."""
        with suppress(StoreError):
            self._bell.ring()
