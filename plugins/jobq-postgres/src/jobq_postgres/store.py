"""The store: what `jobq.store.Store` asks for, over one connection to a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from jobq.errors import DuplicateJob, InvalidInput, JobNotFound, StoreUnavailable
from jobq.job import State
from jobq.notices import heed
from jobq.store import Claim, Claimed, Counts, Store, changed_alone
from jobq.times import floor_ms
from jobq_postgres import adding, archiving, changing, claiming, finding, members, moving, reading, schema
from jobq_postgres.address import parse
from jobq_postgres.checking import check
from jobq_postgres.connecting import Line
from jobq_postgres.eras import STARTS, Eras
from jobq_postgres.members import LeasePresence
from jobq_postgres.rows import LIVE, live
from jobq_postgres.transactions import Transactions
from jobq_postgres.trouble import NoDay, NotConnected
from jobq_postgres.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import ClassVar

    from jobq.job import Change, Job
    from jobq.members import Presence, WorkerInfo
    from jobq.notices import Notice
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Ended, NewJob, Query, Wanted

    Connection = psycopg.Connection[Any]

T = TypeVar("T")

_HELD = f"SELECT {LIVE} FROM @schema@.held(%s::integer[], %s, %s::text[]) ORDER BY seq"  # noqa: S608 - of constants alone
_HOLDERS = "SELECT DISTINCT worker FROM @schema@.holders(%s::integer[], %s)"
_DUE = f"SELECT @schema@.next_due({STARTS}, %s::text[], %s::text[], %s)"


class PostgresStore(Store):
    """Jobs in a schema of a PostgreSQL database, for the workers of many machines.

    Args:
        settings: of them `durability` and `postgresql.lease`.
        context: its `url` is what stands behind the scheme of a libpq URL; lock files of workers go into its home.

    Raises:
        InvalidInput: `durability` is neither `full` nor `normal`, or the URL is none.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"processes", "durable", "hosts", "moves", "transactions"})

    def __init__(self, settings: Settings, context: Context) -> None:
        if settings["durability"] not in ("full", "normal"):
            raise InvalidInput("durability", settings["durability"], "must be full or normal")
        self.address = parse(context.url)
        self.url = self.address.url
        self._lease = settings["postgresql.lease"]
        self._workers = f"{context.directory}/workers"
        self._durable = settings["durability"] == "full"
        self.line = Line(
            self.address,
            name="jobq",
            silence=self._lease.total_seconds() / members.RENEWALS,
            opened=self._opened,
        )
        self._transactions = Transactions(self.line, self.address, durable=self._durable)
        self._within = adding.Within(self.line, self.address)
        self._eras = Eras(self.address)
        self._unsure: dict[claiming.Key, bool] = {}
        self._watch: Watch | None = None

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        jobs = [item.job for item in new]
        if not new:
            return jobs
        try:
            adding.add(self._transactions, new)
        except NotConnected:
            raise
        except StoreUnavailable:
            if self.line.is_open:
                raise
            self._add_again(new)
        return jobs

    def add_within(self, connection: object, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        if not isinstance(connection, psycopg.Connection):
            raise InvalidInput("connection", connection, "must be a connection of psycopg 3, and not an async one")
        self._within.add(connection, new)
        return [item.job for item in new]

    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        def act() -> Claimed:
            return claiming.claim(
                self._transactions,
                lambda: self._eras,
                worker,
                wanted=wanted,
                limit=limit,
                ended=ended,
                unsure=self._unsure,
                now=floor_ms(now),
            )

        return self._with_days(act)

    def held(self, worker: Presence) -> list[Job]:
        return self._ask(lambda connection: self._held(connection, [worker.id]))

    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        try:
            return changed_alone(self, before, change, now=now)
        except StoreUnavailable:
            if self.line.is_open:
                raise
            wished = before.changed(change, now=floor_ms(now))
            if self.get(before.id) == wished:  # it took effect, and only its answer was lost
                return wished
            return changed_alone(self, before, change, now=now)

    def change_many(self, changes: Sequence[tuple[Job, Change]], *, now: datetime) -> list[Job]:
        if not changes:
            return []

        def act() -> list[Job]:
            with self._transactions.writing("change", *(before for before, _ in changes)) as connection:
                jobs, rings = changing.change(connection, self.address, changes, now=floor_ms(now))
                with connection.pipeline():
                    self._transactions.commit(connection, rings=rings)
            return jobs

        return self._with_days(act)

    def get(self, job_id: str) -> Job:
        found = self.get_many([job_id]).get(job_id)
        if found is None:
            raise JobNotFound(job_id)
        return found

    def get_many(self, job_ids: Iterable[str]) -> dict[str, Job]:
        ids = list(job_ids)

        def ask(connection: Connection) -> dict[str, Job]:
            self._may_read(connection)
            return reading.jobs(connection, self.address, ids)

        return self._ask(ask)

    def find(self, query: Query) -> Iterator[Job]:
        def ask(connection: Connection) -> Iterator[Job]:
            self._may_read(connection)
            return finding.find(connection, self.address, query)

        return self._ask(ask)

    def counts(self, *, now: datetime) -> Counts:
        def ask(connection: Connection) -> Counts:
            self._may_read(connection)
            return finding.counts(finding.count(connection, self.address, now))

        return self._ask(ask)

    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        def ask(connection: Connection) -> datetime | None:
            self._may_read(connection)
            values = [*self._eras.starts, *claiming.wishes(wanted)]
            row = connection.execute(self.address.sql(_DUE), values, binary=True).fetchone()
            return None if row is None else row[0]

        return self._ask(ask)

    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        with self._transactions.writing("pause") as connection:
            rings = changing.pause(connection, self.address, queue, reason if paused else None)
            with connection.pipeline():
                self._transactions.commit(connection, rings=rings)

    def delete(self, jobs: Sequence[Job]) -> list[str]:
        if not jobs:
            return []
        with self._transactions.writing("delete") as connection:
            deleted = changing.delete(connection, self.address, jobs)
            self._transactions.commit(connection)
        return deleted

    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        with self._transactions.writing("prune") as connection:
            pruned = archiving.prune(connection, self.address, states=states, before=before, limit=limit)
            self._transactions.commit(connection)
        return pruned

    def expire(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        with self._transactions.writing("prune") as connection:
            archiving.tidy(connection, self.address)
            expired = archiving.expire(connection, self.address, states=states, before=before, limit=limit)
            self._transactions.commit(connection)
        return expired

    def restore(self, jobs: Sequence[Job], *, now: datetime) -> list[str]:
        if not jobs:
            return []

        def act() -> list[str]:
            with self._transactions.writing("restore") as connection:
                stored = moving.restore(connection, self.address, jobs)
                with connection.pipeline():
                    self._transactions.commit(connection, rings=bool(stored))
            return stored

        return self._with_days(act)

    def notice(self) -> Notice | None:
        return self._ask(lambda connection: moving.notice(connection, self.address))

    def identity(self) -> str:
        return self._ask(lambda connection: moving.identity(connection, self.address))

    def post(self, notice: Notice | None, *, before: Notice | None, now: datetime) -> None:
        with self.line.use() as connection:
            self._transactions.begin(connection)
            rings = moving.post(connection, self.address, notice, before=before)
            with connection.pipeline():
                self._transactions.commit(connection, rings=rings)

    def join(self, info: WorkerInfo) -> Presence:
        with self.line.use():  # the schema is there from here on
            pass
        return LeasePresence(self.address, self._workers, info, self._lease, self._lapse, self._stop_of)

    def report(self, worker: Presence, info: WorkerInfo) -> None:
        with self.line.use() as connection:
            members.report(connection, self.address, info)

    def workers(self) -> list[WorkerInfo]:
        def ask(connection: Connection) -> list[WorkerInfo]:
            return [info for info, alive in members.everybody(connection, self.address, self._workers) if alive]

        return self._ask(ask)

    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        def ask(connection: Connection) -> list[tuple[WorkerInfo, list[Claim]]]:
            holders = {row[0] for row in connection.execute(self.address.sql(_HOLDERS), self._eras.alive)}
            everybody = members.everybody(connection, self.address, self._workers)
            gone = [info for info, alive in everybody if not alive]
            gone += members.unknown(self._workers, sorted(holders - {info.id for info, _ in everybody}))
            claims: dict[str, list[Claim]] = {info.id: [] for info in gone}
            hosts = {info.id: info.host for info in gone}
            for job in self._held(connection, list(claims)) if holders & claims.keys() else ():
                claims[str(job.worker)].append(Claim(job, str(job.worker), hosts[str(job.worker)]))
            return [(info, claims[info.id]) for info in gone]

        return self._ask(ask)

    def forget(self, worker: WorkerInfo) -> None:
        with self.line.use() as connection:
            members.forget(connection, self.address, self._workers, worker)

    def ask_to_stop(self, worker: WorkerInfo, level: int) -> None:
        with self.line.use() as connection:
            if members.ask_to_stop(connection, self.address, worker.id, level):
                self._transactions.ring(connection)

    def watch(self, wake: Callable[[], None]) -> bool:
        with self.line.use():
            pass
        if self._watch is not None:
            self._watch.close()
        self._watch = Watch(self.address, self._transactions.token, self._workers, wake)
        return self._watch.listens

    def check(self) -> list[str]:
        return self._ask(lambda connection: check(connection, self.address))

    def remark(self) -> str:
        return "behind a pooler, so that workers poll" if self.line.pooled else ""

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self.line.close()

    def _add_again(self, new: Sequence[NewJob]) -> None:
        """After a loss of the connection on the way: it took effect or not, and the same ids cannot be added twice.

        Raises:
            DuplicateJob: others have them.
            StoreUnavailable: it is not known whether they are stored.
        """
        try:
            adding.add(self._transactions, new)
        except DuplicateJob:
            if not adding.is_stored(self.get_many([item.job.id for item in new]), new):
                raise
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error}; whether the jobs were stored is not known") from None

    def _ask(self, ask: Callable[[Connection], T]) -> T:
        """What is answered; a connection that turns out to be lost is no reason not to ask on another one."""
        was_open = self.line.is_open
        try:
            with self.line.use() as connection:
                return ask(connection)
        except StoreUnavailable:
            if not was_open or self.line.is_open:
                raise
        with self.line.use() as connection:
            return ask(connection)

    def _with_days(self, act: Callable[[], T]) -> T:
        """Do what may archive jobs; once more where the archive had no part for this day."""
        try:
            return act()
        except NoDay:
            pass
        with self.line.use() as connection:
            archiving.make_days(connection, self.address)
        return act()

    def _lapse(self) -> None:
        """A worker of this handle counts as gone: it has to look at that, even if it waits for an answer, or for the bell.

        Called from another thread.
        """
        self.line.cut()
        if self._watch is not None:
            self._watch.ring()

    def _stop_of(self, worker: str) -> int:
        return self._ask(lambda connection: members.stop_of(connection, self.address, worker))

    def _opened(self, connection: Connection) -> None:
        schema.ensure(connection, self.address)
        self._eras = Eras(self.address)
        if not self.line.pooled and self._durable:
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )

    def _may_read(self, connection: Connection) -> None:
        heed(moving.notice(connection, self.address), "read")

    def _held(self, connection: Connection, workers: list[str]) -> list[Job]:
        rows = connection.execute(self.address.sql(_HELD), [*self._eras.alive, workers], binary=True)
        return [live(row) for row in rows]
