"""The worker: claims jobs, has them run, records what became of them, and looks after those of dead workers.

One thread does all of it and owns the store's handle. Its loop: record what ended and claim what fits (one
transaction), start that, look around, wait for the bell.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from datetime import timedelta
from random import SystemRandom
from typing import TYPE_CHECKING, TypeVar

from jobq import __version__, processes
from jobq.attempts import Attempts
from jobq.claiming import ClaimRequest, Turns
from jobq.clock import Wake
from jobq.door import Door
from jobq.draining import DRAIN, KILL, NOW, Draining
from jobq.errors import InvalidInput, StoreMoved, StoreUnreadable
from jobq.executor import Kind
from jobq.horizon import Horizon
from jobq.job import State, new_id
from jobq.members import WorkerInfo
from jobq.recovery import Recovery
from jobq.reporting import Reporting
from jobq.retention import Retention
from jobq.spec import checked_queue
from jobq.store import Claim, runs_alone
from jobq.summary import Summary
from jobq.trouble import StoreTrouble
from jobq.unrecorded import Unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobq.app import App
    from jobq.clock import Random
    from jobq.job import Job
    from jobq.members import Presence

LOOK_SECONDS = 0.25
REST_SECONDS = 1.0
"""After how long without anything to do a worker lets its store rest."""
_NEVER, _NOT_AT_ALL = float("-inf"), float("inf")
T = TypeVar("T")


class Worker:
    """Runs jobs until it is told to stop, or until nothing is left.

    Args:
        app: whose jobs.
        count: how many it runs at most at once.
        queues: the queues it serves; None: all.
        until: None: until it is stopped; `idle`: while anything is due; `empty`: until nothing will be soon.
        name: what people call it.
        random: chance, for the backoff.
        finished: called with each job after an attempt of it was recorded.
        note: hears what a person at the worker's terminal should know.

    Raises:
        InvalidInput: the count is below 1, or a queue's name is none.
        PluginError: the executor or backoff is missing or broken.
    """

    def __init__(
        self,
        app: App,
        *,
        count: int = 1,
        queues: Sequence[str] | None = None,
        until: str | None = None,
        name: str | None = None,
        random: Random | None = None,
        finished: Callable[[Job], None] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        if not isinstance(count, int) or count < 1:
            raise InvalidInput("count", count, "must be a whole number, at least 1")
        app.create_home()
        self._app, self._clock, self._settings = app, app.clock, app.settings
        self._until = until
        self._queues = tuple(dict.fromkeys(map(checked_queue, queues))) if queues else None
        self._note = note or app.warn
        self._handlers = frozenset(app.handlers)
        worker_id = new_id()
        me = processes.process(os.getpid()) if processes.visible() else None
        info = WorkerInfo(
            id=worker_id,
            name=name or worker_id[:8],
            host=processes.host(),
            boot_id=processes.boot_id(),
            pid=os.getpid(),
            start_time=0 if me is None else me.start_time,
            started=self._clock.now(),
            version=__version__,
            queues=self._queues,
            handlers=tuple(sorted(self._handlers)),
            count=count,
        )
        self._reporting = Reporting(info, self._clock, self._note)
        self._unrecorded = Unrecorded(app, app.delay(random or SystemRandom()), finished)
        self.summary = self._unrecorded.summary
        self._wake = Wake()
        self._attempts = Attempts(
            app.executor,
            app.home.path,
            count,
            self._settings,
            clock=self._clock,
            ring=self._wake.ring,
            note=self._note,
        )
        self._trouble = StoreTrouble(self._clock, self._note)
        self._door = Door(self._note)
        self._draining = Draining(self._clock, self._settings, self._note)
        self._horizon = Horizon(until, self._clock, self._note)
        self._retention = Retention(app.home.path, self._settings, self._clock)
        self._turns = Turns(self._clock)
        self._due: datetime | None = None
        self._stirred = False  # something happened elsewhere since the latest look around
        self._exhausted = False  # the latest claim was given less than it asked for
        self._looked = _NEVER
        self._rests_at = _NOT_AT_ALL
        self._lapsed = False  # its membership was, when it was last asked for
        self._config_problem: str | None = None

    @property
    def info(self) -> WorkerInfo:
        """What this worker tells of itself."""
        return self._reporting.info

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._draining.level > 0

    def stop(self, level: int = DRAIN) -> None:
        """Stop: DRAIN claims nothing more and lets jobs finish, NOW ends and hands them back, KILL does so at once.

        May be called from any thread or signal handler, again with a higher level.
        """
        self._draining.level = max(self._draining.level, level)
        self._wake.ring()

    def run(self, joined: Callable[[WorkerInfo], None] = lambda info: None) -> Summary:
        """Work until stopped, or until nothing is left where that was asked for.

        Args:
            joined: called once the worker is a member of the store.

        Raises:
            StoreMoved: the queue has moved to another store, before this began or while it was at work.
            StoreError: the store cannot be used from the start, or refuses at the end what is to be recorded.
        """
        store = self._app.store
        presence: Presence | None = None
        recovery = Recovery(self._app, self._stir, own=self.info.id)
        try:
            self._door.look(store)
            if (moved := self._door.left) is not None:
                raise moved
            presence = store.join(self.info)
            store.watch(self._stir)
            joined(self.info)
            while True:
                if self._draining.carry_on(self._attempts, len(self._unrecorded)):
                    self._attempts.take_back()
                    self._looked = _NEVER
                    self._reporting.changed(at_once=True)
                idle = self._advance(presence)
                now = self._clock.monotonic()
                if self._stirred or now - self._looked >= LOOK_SECONDS:
                    self._looked, self._stirred = now, False
                    if self._look_around(presence, recovery):
                        continue
                elif self._reporting.is_due:
                    self._report(presence)
                if self._is_over(recovery):
                    break
                self._rest(idle)
                if idle:
                    self._clock.wait(self._wake, self._pause())
            self.summary.forced = self._draining.forced
            self.summary.left = self._ask(lambda: self._count(State.PENDING, State.FAILED), 0)
            return self.summary
        finally:
            clean = not self._attempts and not self._unrecorded
            self._app.close_executor()
            if presence is not None:
                presence.close(clean=clean)
            self._wake.close()

    def _stir(self) -> None:
        """Something happened elsewhere: look around. Called from any thread."""
        self._stirred = True
        self._wake.ring()

    def _advance(self, presence: Presence) -> bool:
        """Record what ended, claim what fits, start it; True if there was nothing to do."""
        self._collect()
        if self._door.left is not None:
            self._unrecorded.discard()
        last_word = self._draining.level >= NOW and self._unrecorded  # not given away without one more try
        if self._trouble.resting and not last_word:
            return True
        request = self._request()
        limit, free, wanted = request.limit, request.free, request.wanted
        if not self._unrecorded and not limit and self._trouble.error is None:
            return True
        now = self._clock.now()
        try:
            claimed = self._app.store.claim(presence, wanted=wanted, limit=limit, now=now, ended=self._unrecorded.ends)
        except Exception as error:
            self._refused(error)
            return True
        recovered = self._trouble.over()
        recorded = self._unrecorded.recorded(claimed, now)
        for index, claim in enumerate(claimed.claims[:limit]):
            if index < free:
                self._app.tell("started", claim.job, time=now)
            self._attempts.start(claim, presence.jobs_fd)
        if len(claimed.claims) > free:
            self._attempts.flush()
        for claim in claimed.claims[limit:]:
            self._unrecorded.hand_back(claim, "the store gave more than was asked for")
        if request.overtakes:
            self._attempts.take_back()
        alone = any(runs_alone(claim.job) for claim in claimed.claims)
        self._exhausted = len(claimed.claims) < free and not alone
        self._due = None
        if self._exhausted:
            at_once: datetime | None = now
            self._due = self._ask(lambda: self._app.store.next_due(wanted, now=now), at_once)
        changed = bool(claimed.claims or recorded or recovered)
        if changed:
            self._reporting.changed()
        return not changed

    def _request(self) -> ClaimRequest:
        return ClaimRequest(
            self._attempts,
            queues=self._queues,
            handlers=self._handlers,
            may_claim=self._may_claim,
            peek=self._stirred,
        )

    @property
    def _may_claim(self) -> bool:
        closed = self._draining.level or self._trouble.error or self._door.notice
        if closed or self._lapsed or self._attempts.alone:
            return False
        return not (self._attempts and self._turns.stands_back)

    def _ask(self, ask: Callable[[], T], otherwise: T) -> T:
        """Ask the store; where it refuses, or its plugin fails, that is noted and `otherwise` the answer."""
        try:
            return ask()
        except Exception as error:
            self._refused(error)
            return otherwise

    def _refused(self, error: Exception) -> None:
        if isinstance(error, StoreMoved):  # the notice is newer than the latest look at it
            self._stir()
            return
        self._trouble.note(error)
        self._reporting.changed(at_once=True)

    def _collect(self) -> None:
        """Take note of what began and ended since the last time."""
        if self._attempts.progressed:
            self._reporting.changed()
        for claim, outcome, begun in self._attempts.news():
            if outcome is None:
                self._app.tell("started", claim.job)
                continue
            if outcome.kind not in (Kind.SUCCESS, Kind.RELEASED):
                self._refresh_settings()  # the backoff's are live
            self._unrecorded.add(claim, outcome, begun=begun)

    def _rest(self, idle: bool) -> None:
        now = self._clock.monotonic()
        if not idle or self._attempts:
            self._rests_at = now + REST_SECONDS
        elif now >= self._rests_at:
            self._rests_at = _NOT_AT_ALL
            self._ask(self._app.store.rest, None)

    def _look_around(self, presence: Presence, recovery: Recovery) -> bool:
        """What need not be done at every step; True if it may have given something to claim."""
        self._refresh_settings()
        self._heed_lapse(presence)
        return self._ask(lambda: self._look_at_store(presence, recovery), False)

    def _heed_lapse(self, presence: Presence) -> None:
        """End what runs where another worker may be about to start it: nobody has heard of this one for too long."""
        lapsed = presence.lapsed
        if lapsed and not self._lapsed:
            self._note("the store has not heard of this worker for too long; what it runs is ended and handed back")
        self._lapsed = lapsed
        if lapsed:
            self._attempts.hand_back(KILL, timedelta())

    def _look_at_store(self, presence: Presence, recovery: Recovery) -> bool:
        store = self._app.store
        if presence.renew(self.info):
            self._note("what tells others of this worker was gone; it was made anew")
        if self._door.look(store):
            self._attempts.take_back()
            self._reporting.changed(at_once=True)
        known = self._unrecorded.runs
        for job in self._attempts.heed(store.held(presence)):
            if (job.id, job.run) not in known:  # claimed by a call that took effect and failed all the same
                self._unrecorded.hand_back(Claim(job, self.info.id, self.info.host), "its claim was not acknowledged")
        if (level := presence.stop_asked) > self._draining.level:
            self.stop(level)
        found = False
        if not self._draining.level:
            closed = self._door.notice is not None
            self._turns.look(waits=not closed and bool(self._attempts) and self._waits_alone())
            found = recovery.poll() > 0
            for told in recovery.news():
                self._note(told)
            if not closed:
                self._retention.poll(store)
        if self._reporting.is_due or self._draining.level:
            self._report(presence)
        return found

    def _waits_alone(self) -> bool:
        """Whether a job is due that must run alone."""
        wanted, now = replace(self._request().wanted, alone=True), self._clock.now()
        due = self._app.store.next_due(wanted, now=now)
        return due is not None and due <= now

    def _is_over(self, recovery: Recovery) -> bool:
        if self._attempts:
            return False
        if self._unrecorded:
            if self._draining.level >= NOW and self._trouble.error is not None:
                raise self._trouble.error
            return False
        if self._draining.level:
            return True
        if (moved := self._door.left) is not None:
            raise moved
        if self._door.notice is not None:
            return False
        if self._until is not None and isinstance(self._trouble.error, StoreUnreadable):
            raise self._trouble.error  # nobody waits for it to be repaired
        if self._until is None or self._trouble.error is not None or not self._exhausted or recovery.under_way:
            return False
        if self._horizon.waits_for(self._due):
            return False
        if self._until == "idle":
            return True
        held_up = [job for held in recovery.held_up for job in held.jobs]
        stuck = sum(self._queues is None or job.queue in self._queues for job in held_up)
        if self._ask(lambda: self._count(State.PROCESSING), stuck + 1) > stuck:
            return False
        # Somebody's job may have become a retry between the claim and the count.
        wanted, now = self._request().wanted, self._clock.now()
        return self._ask(lambda: not self._horizon.waits_for(self._app.store.next_due(wanted, now=now)), False)

    def _count(self, *states: State) -> int:
        """How many jobs of this worker's queues are in one of these states."""
        counts = self._app.store.counts(now=self._clock.now())
        mine = (n for name, n in counts.queues.items() if self._queues is None or name in self._queues)
        return sum(queue[state] for queue in mine for state in states)

    def _pause(self) -> float:
        """Seconds until something must be looked at, if nothing rings before."""
        now = self._clock.monotonic()
        pauses: list[float] = [
            self._settings["poll-interval"].total_seconds(),
            self._trouble.pause(now),
            self._draining.pause(now),
            self._reporting.pause(now),
            self._rests_at - now,
        ]
        if self._due is not None and self._may_claim and self._attempts.free:
            pauses.append((self._due - self._clock.now()).total_seconds())
        return max(0.0, min(pauses))

    def _report(self, presence: Presence) -> None:
        waiting = f"waiting: {self._door.state}" if self._door.notice is not None else "running"
        state = "draining" if self._draining.level else waiting
        if self._trouble.error is not None:
            state = ("draining, " if self._draining.level else "") + f"store trouble: {self._trouble.error}"
        report = functools.partial(self._app.store.report, presence)
        self._attempts.progressed = False  # before it is looked at; until then, further progress rings no bell
        self._reporting.tell(report, state=state, running=self._attempts.told())

    def _refresh_settings(self) -> None:
        problem = self._settings.refresh()
        if problem is not None and problem != self._config_problem:
            self._note(f"{problem}; the last good values stay in force")
        self._config_problem = problem
