"""The store's interface, and the records that the kernel and a store exchange.

The kernel computes every next state (`jobq.lifecycle`); a store makes it durable and exclusive. `now` is an argument
everywhere: a store reads no clock of its own (one that spans machines may use its server's, for leases only).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from jobq.errors import JobChanged, JobNotFound, NotSupported
from jobq.job import State
from jobq.light import suppress
from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import ClassVar

    from jobq.job import Change, Job
    from jobq.members import Presence, WorkerInfo
    from jobq.notices import Notice

ALONE_LOSSES = 2
"""A job with this many losses or more runs alone in its worker (docs/promises.md, 5)."""


def runs_alone(job: Job) -> bool:
    """Whether a job is claimed only as the single one of a call, by a worker that runs nothing else."""
    return job.losses >= ALONE_LOSSES


@record(frozen=True, slots=True)
class NewJob:
    """A job to be added. `generated`: its id was drawn in this very call and need not be looked for."""

    job: Job
    generated: bool


@record(frozen=True, slots=True)
class Claim:
    """A job handed to one worker: `job` as it is after the claim, with its run number; and who has it.

    `text` is the JSON text of the job's record, where the store has it at hand; it makes no other claim of it.
    """

    job: Job
    worker: str
    host: str
    text: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Claim):
            return NotImplemented
        return (self.job, self.worker, self.host) == (other.job, other.worker, other.host)

    __hash__ = None  # type: ignore[assignment]  # jobs have none

    @property
    def run(self) -> int:
        """The number of the run that the claim is for."""
        return self.job.run

    def holds(self, stored: Job) -> bool:
        """The fencing rule: whether the job, as it is stored, is under way in that run with that worker."""
        return (
            stored.state is State.PROCESSING
            and stored.worker == self.worker
            and stored.run == self.job.run
            and stored.created_at == self.job.created_at  # its id may have been deleted and added anew
        )


@record(frozen=True, slots=True)
class Ended:
    """A claim that is over, and what that makes of its job. Applied by the fencing rule, else refused."""

    claim: Claim
    change: Change


@record(frozen=True)
class Claimed:
    """The answer of `Store.claim`.

    Attributes:
        claims: the new claims.
        refused: those of the ended ones that the fencing rule refused: they changed nothing.
        cancelled: those of the ended ones that a cancel request, made meanwhile, turned into `cancelled`.
    """

    claims: Sequence[Claim]
    refused: Sequence[Claim]
    cancelled: Sequence[Claim] = ()


@record(frozen=True, kw_only=True)
class Wanted:
    """Which jobs a worker may claim. None stands for all. Jobs of paused queues are never wanted.

    Attributes:
        queues: the names of the queues.
        handlers: the handler names that are installed; commands are always wanted.
        alone: True: only jobs that must run alone (`ALONE_LOSSES`); False: only others.
        leading: asked of each job that would be claimed, in claim order, before it is; the claim ends before the first
            one for which it answers False. It is shown the job as it is before the claim, at most once a call, and
            neither raises nor calls the store. `next_due` ignores it.
    """

    queues: tuple[str, ...] | None = None
    handlers: frozenset[str] | None = None
    alone: bool | None = None
    leading: Callable[[Job], bool] | None = None

    def matches(self, job: Job) -> bool:
        """Whether a waiting job is wanted, if its queue is not paused, and when it is due; `leading` is not asked."""
        return (
            (self.queues is None or job.queue in self.queues)
            and (self.handlers is None or job.handler is None or job.handler in self.handlers)
            and self.alone in (None, runs_alone(job))
        )


@record(frozen=True, kw_only=True)
class Query:
    """Which jobs to find. None stands for all; the conditions are joined by and.

    Attributes:
        states, queue, tag, handler: of the job.
        prefix: the beginning of its id.
        since, before: bounds of `updated_at`, the first inclusive, the second exclusive.
        limit: the most jobs to answer with.
    """

    states: frozenset[State] | None = None
    queue: str | None = None
    tag: str | None = None
    handler: str | None = None
    prefix: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    limit: int | None = None

    def matches(self, job: Job) -> bool:
        """Whether `job` fulfils every condition (the limit is not one)."""
        return (
            (self.states is None or job.state in self.states)
            and (self.queue is None or job.queue == self.queue)
            and (self.tag is None or self.tag in job.tags)
            and (self.handler is None or job.handler == self.handler)
            and (self.prefix is None or job.id.startswith(self.prefix))
            and (self.since is None or job.updated_at >= self.since)
            and (self.before is None or job.updated_at < self.before)
        )


@record(frozen=True, kw_only=True)
class Counts:
    """How many jobs there are.

    Attributes:
        queues: for each queue that has jobs or is paused, the number of jobs by state (every state is there).
        paused: the paused queues, with the reason given ("" for none).
        later: pending jobs that are not due.
        damaged: records that were found damaged and set aside.
    """

    queues: Mapping[str, Mapping[State, int]]
    paused: Mapping[str, str]
    later: int = 0
    damaged: int = 0

    @property
    def states(self) -> dict[State, int]:
        """The number of jobs by state over all queues."""
        totals = dict.fromkeys(State, 0)
        for counts in self.queues.values():
            for state, count in counts.items():
                totals[state] += count
        return totals


def changed_alone(store: Store, before: Job, change: Change, *, now: datetime) -> Job:
    """What `Store.change` answers, in a store that changes one job as it changes many.

    Raises:
        JobNotFound, JobChanged: as there.
    """
    for job in store.change_many([(before, change)], now=now):
        return job
    store.get(before.id)
    raise JobChanged(before.id)


class Store(ABC):
    """Keeps jobs. One handle: one thread at a time, reopened after a fork; many handles share the storage.

    Every method may raise `StoreError`. What returned is durable (promise 2), unless the store's documentation says
    what durability it was set to instead. Where the store has a notice, `jobq.notices.heed` says what raises
    `StoreMoved` instead; members, `held`, `watch`, `check`, `notice`, `post`, `identity` and `close` work all the same.

    Attributes:
        capabilities: of `processes` (several processes may share it), `durable` (survives them all), `hosts` (spans
            machines), `moves` (its jobs can be moved to and from it: `restore`, `notice` and `post`), `transactions`
            (`add_within`). Closed by default.
        url: what `--store` would say, without a password.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    url: str

    @abstractmethod
    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        """Store jobs, all or none of them.

        Raises:
            DuplicateJob: naming every id that is taken or comes twice; nothing was stored.
        """

    def add_within(self, connection: object, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        """As `add`, in the transaction that is under way on a connection of the application, and as durable as that.

        The jobs are there if and only if it is committed. After an error of the contract it can go on.

        Raises:
            DuplicateJob: as `add`.
            InvalidInput: it is no connection that the store can use, or is in no transaction.
            NotSupported: the store has not the capability `transactions`.
        """
        raise NotSupported(f"the store {self.url} cannot add jobs in a transaction of the application")

    @abstractmethod
    def claim(
        self, worker: Presence, *, wanted: Wanted, limit: int, now: datetime, ended: Sequence[Ended] = ()
    ) -> Claimed:
        """Record what ended, then claim up to `limit` due jobs: one transaction, one sync, durable on return.

        Claimed are, of the wanted `pending` and `failed` jobs with `run_at <= now`, those first by priority (high
        first), `run_at`, sequence. A job with `ALONE_LOSSES` losses or more is claimed only as the single claim of a
        call, and only where it comes first; later ones wait.
        An ended claim applies only while its job is `processing` with that run and that worker; what is applied is
        `lifecycle.settled(stored, change)`, since a cancel may have been asked for meanwhile.
        """

    def finish(self, worker: Presence, ended: Sequence[Ended], *, now: datetime) -> Sequence[Claim]:
        """Record what ended, and claim nothing; the claims that the fencing rule refused."""
        return self.claim(worker, wanted=Wanted(), limit=0, now=now, ended=ended).refused

    @abstractmethod
    def held(self, worker: Presence) -> list[Job]:
        """The jobs that are `processing` with this worker, as stored now; cheap enough to ask every second."""

    @abstractmethod
    def change(self, before: Job, change: Change, *, now: datetime) -> Job:
        """Apply `change` if the stored job still has `before.version`; the job after it.

        Raises:
            JobNotFound: it was deleted.
            JobChanged: its version differs.
        """

    def change_many(self, changes: Sequence[tuple[Job, Change]], *, now: datetime) -> list[Job]:
        """As `change`, for jobs of different ids; the jobs after it, of those that still had the version given.

        This one changes each by itself; a store overrides it where all cost less than each, with one transaction and
        one sync.
        """
        changed = []
        for before, change in changes:
            with suppress(JobChanged, JobNotFound):
                changed.append(self.change(before, change, now=now))
        return changed

    @abstractmethod
    def get(self, job_id: str) -> Job:
        """The job of this whole id.

        Raises:
            JobNotFound: there is none.
        """

    def get_many(self, job_ids: Iterable[str]) -> dict[str, Job]:
        """The jobs of these whole ids, by id; none for an id that is not there.

        This one asks for each by itself; a store overrides it where all cost less than each.
        """
        found = {}
        for job_id in job_ids:
            with suppress(JobNotFound):
                found[job_id] = self.get(job_id)
        return found

    @abstractmethod
    def find(self, query: Query) -> Iterator[Job]:
        """The matching jobs: processing, waiting in claim order, dead, then finished ones latest first.

        What is found is the state at one moment, the call's; nothing comes twice.
        """

    @abstractmethod
    def counts(self, *, now: datetime) -> Counts:
        """How many jobs there are by queue and state, and which queues are paused, without reading every job."""

    @abstractmethod
    def next_due(self, wanted: Wanted, *, now: datetime) -> datetime | None:
        """The earliest moment at which `claim(wanted)` could return something; at most `now` if at once."""

    @abstractmethod
    def pause(self, queue: str, paused: bool, *, reason: str = "", now: datetime) -> None:
        """Pause or resume a queue, whether or not it has jobs yet."""

    @abstractmethod
    def delete(self, jobs: Sequence[Job]) -> list[str]:
        """Delete those that still have the `rev` given and are not `processing`; the ids deleted."""

    @abstractmethod
    def prune(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        """Delete up to `limit` jobs in these (ended) states last updated before then; the ids deleted."""

    def expire(self, *, states: frozenset[State], before: datetime, limit: int) -> list[str]:
        """As `prune`, for what the settings keep no longer: what is deleted more cheaply together with its neighbours
        may be kept until they can go too. This one prunes.
        """
        return self.prune(states=states, before=before, limit=limit)

    def identity(self) -> str:
        """What tells this storage from every other one, under whatever URL it is reached; in this one the URL."""
        return self.url

    def restore(self, jobs: Sequence[Job], *, now: datetime) -> list[str]:
        """Store jobs as they are, with their state, run, rev and history, all or none of them; the ids newly stored.

        Their order is that of the sequence, and among finished ones the order of finishing. What is stored already
        with the same `version` is passed over, so that a restore may be repeated.

        Raises:
            DuplicateJob: naming every id that is stored with another version, or comes twice; nothing was stored.
            InvalidInput: one is `processing`: its run is with a worker, and no other store could tell its end.
            NotSupported: the store has not the capability `moves`.
        """
        raise NotSupported(f"the store {self.url} cannot take over jobs from another one")

    def notice(self) -> Notice | None:
        """The notice at the store's door, None where there is none; cheap enough to ask every quarter of a second."""
        return None

    def post(self, notice: Notice | None, *, before: Notice | None, now: datetime) -> None:
        """Put up a notice in place of the one that the caller saw there, `before`, or take it down (None).

        On return it is durable, and every call that any handle begins afterwards heeds it; no `add` or `claim` that
        was under way takes effect later. It wakes those who watch. Whether it may be, and whether it empties the store
        in the same step, of jobs and pauses, `jobq.notices.empties` says.

        Raises:
            NoticeChanged: another one stands there by now; nothing was changed.
            NotEmpty: it is `arriving`, and there are jobs; nothing was changed.
            NotSupported: the store has not the capability `moves`.
        """
        raise NotSupported(f"the store {self.url} cannot be moved to or from")

    @abstractmethod
    def join(self, info: WorkerInfo) -> Presence:
        """Become a member as this worker: from here on others see it, and see when it is gone."""

    @abstractmethod
    def report(self, worker: Presence, info: WorkerInfo) -> None:
        """Replace what is told of a member (state, running jobs, progress); not durable."""

    @abstractmethod
    def workers(self) -> list[WorkerInfo]:
        """The live members, the oldest first."""

    @abstractmethod
    def lost(self, *, now: datetime) -> list[tuple[WorkerInfo, list[Claim]]]:
        """The members that are gone and what they still hold, the oldest first; also those that hold nothing."""

    @abstractmethod
    def forget(self, worker: WorkerInfo) -> None:
        """Remove what is kept of a lost member, once nothing of it runs and none of its claims is left."""

    def ask_to_stop(self, worker: WorkerInfo, level: int) -> None:
        """Ask a member to stop, wherever it is; its watch wakes, and its `Presence.stop_asked` is this from then on.

        A lower level than one asked for before changes nothing; nor does asking one that is gone.

        Args:
            worker: who.
            level: `jobq.draining.DRAIN` or `NOW`.

        Raises:
            NotSupported: the store has not the capability `hosts`; on one machine signals do it.
        """
        raise NotSupported(f"workers on other machines cannot be told to stop through the store {self.url}")

    @abstractmethod
    def watch(self, wake: Callable[[], None]) -> bool:
        """From the return of this until `close`, call `wake` when a job may have become claimable, a held one may
        have been asked to stop, or a member may have gone. False: cannot watch, poll instead.

        `wake` comes from any thread, does not block, and may come for nothing; but not for this handle's own calls,
        nor for calls elsewhere that changed nothing, or workers would keep one another awake.
        """

    @abstractmethod
    def check(self) -> list[str]:
        """What is wrong with the stored data, one sentence each; reads everything."""

    def repair(self) -> list[str]:
        """Make damaged data usable again, as far as that can be; what was done, one sentence each.

        Nothing that can still be read is lost; what cannot is set aside, not deleted.

        Raises:
            StoreError: it cannot be mended.
        """
        return []

    def rest(self) -> None:  # noqa: B027 - a plugin that knows nothing of it does nothing
        """Do what would else be put off until it is in somebody's way. This one does nothing.

        A worker calls it once when it has had nothing to do for a second, after it had.
        """

    def remark(self) -> str:
        """What else there is to say of how it works here, in a few words, for `jobq doctor`; "" for nothing."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Free everything. The handle is not used again."""
