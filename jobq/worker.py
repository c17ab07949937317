"""The worker: claims jobs, has them run, records what became of them, and looks after those of dead workers.

One thread does all of it and owns the store's handle. Executors report from threads of their own through a queue and
a bell. The loop is: record what ended and claim what fits (one transaction), start it, look around, wait.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from jobq import __version__, lifecycle, output, processes
from jobq.clock import Wake
from jobq.errors import StoreError
from jobq.events import Event, EventKind
from jobq.executor import Attempt, Kind, Outcome
from jobq.job import State, new_id
from jobq.output import Capture
from jobq.store import ALONE_LOSSES, Ended, RunningJob, Wanted, WorkerInfo
from jobq.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from jobq.app import App
    from jobq.executor import Running
    from jobq.job import Job
    from jobq.recovery import HeldUp
    from jobq.store import Claim, Claimed, Presence

DRAIN, NOW, KILL = 1, 2, 3
SOON = timedelta(hours=24)
LOOK_SECONDS = 0.25
REPORT_SECONDS = 1.0
DRAIN_NOTE_SECONDS = 10.0
PRUNE_SECONDS = 600.0
FIRST_PAUSE, LAST_PAUSE = 0.1, 30.0
_EVENTS = {
    State.COMPLETED: EventKind.COMPLETED,
    State.FAILED: EventKind.FAILED,
    State.DEAD: EventKind.DEAD,
    State.CANCELLED: EventKind.CANCELLED,
    State.PENDING: EventKind.RELEASED,
}


@dataclass(slots=True)
class Summary:
    """What a worker did, when it is over.

    Attributes:
        completed, failed, dead, cancelled, released: how many attempts ended so.
        discarded: runs whose outcome was refused, because somebody else had decided about the job.
        left: jobs that wait in its queues.
        forced: whether running jobs had to be ended for the stop.
    """

    completed: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    released: int = 0
    discarded: int = 0
    left: int = 0
    forced: bool = False


@dataclass(slots=True)
class _Running:
    """One attempt under way. `stopped` says what it was stopped for: `cancel`, `release` or `stale`."""

    claim: Claim
    slot: int
    running: Running | None = None
    stopped: str = ""
    level: int = 0


@dataclass(slots=True)
class _Trouble:
    """The store refuses: since when, what it says, and when it is asked again."""

    error: StoreError
    pause: float
    again: float = field(default=0.0)


class Worker:
    """Runs jobs until it is told to stop, or until nothing is left; made by `App.worker`."""

    def __init__(
        self,
        app: App,
        *,
        count: int,
        queues: tuple[str, ...] | None,
        until: str | None,
        name: str | None,
        delay: Callable[[int, Outcome], timedelta | None],
        finished: Callable[[Job], None],
        note: Callable[[str], None],
    ) -> None:
        self._app = app
        self._clock = app.clock
        self._settings = app.settings
        self._count = count
        self._until = until
        self._delay = delay
        self._finished = finished
        self._note = note
        self._handlers = frozenset(app.handlers)
        self._queues = queues
        worker_id = new_id()
        self._info = WorkerInfo(
            id=worker_id,
            name=name or worker_id[:8],
            host=socket.gethostname(),
            boot_id=processes.boot_id(),
            pid=os.getpid(),
            start_time=_start_time(),
            started=self._clock.now(),
            version=__version__,
            queues=queues,
            handlers=tuple(sorted(self._handlers)),
            count=count,
        )
        self._wake = Wake()
        self._running: dict[tuple[str, int], _Running] = {}
        self._slots = set(range(count))
        self._reports: deque[tuple[tuple[str, int], Outcome]] = deque()
        self._unrecorded: list[Ended] = []
        self._trouble: _Trouble | None = None
        self._stop_level = 0
        self._draining_since: float | None = None
        self._noted = 0.0
        self._due: datetime | None = None
        self._exhausted = False  # the latest claim was given less than it asked for
        self._looked = self._reported = self._pruned = float("-inf")
        self._config_problem: str | None = None
        self.summary = Summary()

    @property
    def info(self) -> WorkerInfo:
        """What this worker tells of itself."""
        return self._info

    def stop(self, level: int = DRAIN) -> None:
        """Stop: DRAIN claims nothing more and lets jobs finish, NOW ends and hands them back, KILL does so at once.

        May be called from any thread or signal handler, again with a higher level.
        """
        self._stop_level = max(self._stop_level, level)
        self._wake.ring()

    def run(self, joined: Callable[[WorkerInfo], None] = lambda info: None) -> Summary:
        """Work until stopped, or until nothing is left where that was asked for.

        Args:
            joined: called once the worker is a member of the store.

        Raises:
            StoreError: the store cannot be used from the start, or refuses at the end what is to be recorded.
        """
        store = self._app.store
        presence = store.join(self._info)
        recovery = self._app.recovery(self._wake.ring)
        try:
            store.watch(self._wake.ring)
            joined(self._info)
            while True:
                self._enforce_stop()
                idle = self._advance(presence)
                now = self._clock.monotonic()
                if idle or now - self._looked >= LOOK_SECONDS:
                    self._looked = now
                    if self._look_around(presence, recovery.poll):
                        continue
                if self._is_over(recovery.held_up):
                    break
                if idle:
                    self._clock.wait(self._wake, self._pause())
            self._count_left()
            return self.summary
        finally:
            self._app.executor.close()
            presence.close()
            self._wake.close()

    def _advance(self, presence: Presence) -> bool:
        """Record what ended, claim what fits, start it; True if there was nothing to do."""
        ended = self._collect()
        self._unrecorded += ended
        if self._trouble is not None and self._clock.monotonic() < self._trouble.again:
            return not ended
        limit, wanted = self._wanted()
        if not self._unrecorded and not limit:
            return True
        now = self._clock.now()
        try:
            claimed = self._app.store.claim(presence, wanted=wanted, limit=limit, now=now, ended=self._unrecorded)
            self._exhausted = len(claimed.claims) < limit and not self._alone(claimed.claims)
            self._due = self._app.store.next_due(wanted, now=now) if self._exhausted else None
        except StoreError as error:
            self._complain(error)
            return True
        self._recovered()
        recorded, self._unrecorded = self._unrecorded, []
        self._tell(recorded, claimed, now)
        for claim in claimed.claims:
            self._start(claim, presence)
        return not claimed.claims and not recorded

    def _wanted(self) -> tuple[int, Wanted]:
        """How many jobs may be claimed now, and which."""
        limit = len(self._slots)
        if self._stop_level or self._trouble is not None:
            limit = 0
        elif self._alone([running.claim for running in self._running.values()]):
            limit = 0
        losses = ALONE_LOSSES - 1 if self._running else None
        return limit, Wanted(queues=self._queues, handlers=self._handlers, max_losses=losses)

    @staticmethod
    def _alone(claims: Iterable[Claim]) -> bool:
        return any(claim.job.losses >= ALONE_LOSSES for claim in claims)

    def _start(self, claim: Claim, presence: Presence) -> None:
        key = claim.job.id, claim.run
        running = self._running[key] = _Running(claim, self._slots.pop())
        self._event(EventKind.STARTED, claim.job, claim.run, claim.job.started_at)
        settings = self._settings
        attempt = Attempt(
            job=claim.job,
            home=self._app.home.path,
            slot=running.slot,
            jobs_fd=presence.jobs_fd,
            output=Capture(self._app.home.path, claim.job.id, claim.run, settings["output-limit"]),
            kill_grace=settings["kill-grace"],
            result_limit=settings["result-limit"],
        )

        def ended(outcome: Outcome) -> None:
            self._reports.append((key, outcome))
            self._wake.ring()

        try:
            running.running = self._app.executor.start(attempt, ended)
        except Exception as error:  # an executor's fault is a failed attempt, never the worker's end
            reason = f"executor failed: {type(error).__name__}: {error}"
            ended(Outcome(kind=Kind.FAILURE, reason=reason))

    def _collect(self) -> list[Ended]:
        """What executors reported since the last time, as changes to record."""
        ended = []
        while self._reports:
            key, outcome = self._reports.popleft()
            running = self._running.pop(key)
            self._slots.add(running.slot)
            if running.stopped == "release" and outcome.kind is not Kind.SUCCESS:
                outcome = Outcome(kind=Kind.RELEASED, reason="the worker was stopped")
            now = self._clock.now()
            if outcome.kind not in (Kind.SUCCESS, Kind.RELEASED):
                self._refresh_settings()
            ended.append(Ended(running.claim, lifecycle.after(running.claim, outcome, now=now, delay=self._delay)))
        return ended

    def _tell(self, recorded: Sequence[Ended], claimed: Claimed, now: datetime) -> None:
        """Count and announce what was recorded."""
        refused = {(claim.job.id, claim.run) for claim in claimed.refused}
        cancelled = {(claim.job.id, claim.run) for claim in claimed.cancelled}
        for ended in recorded:
            claim, change = ended.claim, ended.change
            key = claim.job.id, claim.run
            if key in refused:
                self.summary.discarded += 1
                self._event(EventKind.DISCARDED, claim.job, claim.run, now)
                continue
            if key in cancelled:
                change = lifecycle.settled(claim.job.changed(lifecycle.ask(now), now=now), change)
            job = claim.job.changed(change, now=now)
            kind = _EVENTS[job.state]
            setattr(self.summary, kind.value, getattr(self.summary, kind.value) + 1)
            self._event(kind, job, claim.run, now)
            self._finished(job)

    def _look_around(self, presence: Presence, recover: Callable[[], int]) -> bool:
        """What need not be done at every step; True if it may have given something to claim."""
        self._refresh_settings()
        found = False
        try:
            if self._running:
                self._heed(self._app.store.held(presence))
            if not self._stop_level:
                found = recover() > 0
            self._report(presence)
            self._prune()
        except StoreError as error:
            self._complain(error)
        return found

    def _heed(self, held: Sequence[Job]) -> None:
        """Stop what was cancelled, and what is no longer this worker's."""
        stored = {(job.id, job.run): job for job in held}
        for key, running in self._running.items():
            job = stored.get(key)
            if job is None:
                self._end(running, "stale", timedelta(0))
            elif job.cancel_requested_at is not None and not running.stopped:
                self._end(running, "cancel", self._settings["kill-grace"])

    def _enforce_stop(self) -> None:
        """Carry a stop on, as far as it was asked for."""
        level = self._stop_level
        if not level:
            return
        now = self._clock.monotonic()
        if self._draining_since is None:
            self._draining_since = self._noted = now
            self._reported = float("-inf")
            self._looked = float("-inf")
        grace = self._settings["stop-grace"]
        if level == DRAIN and grace is not None and now - self._draining_since >= grace.total_seconds():
            self.stop(NOW)
            level = NOW
        if level >= NOW:
            kill_grace = self._settings["kill-grace"] if level == NOW else timedelta(0)
            for running in self._running.values():
                if running.level < level:
                    running.level = level
                    self.summary.forced = True
                    self._end(running, running.stopped or "release", kill_grace)
        if self._running and now - self._noted >= DRAIN_NOTE_SECONDS:
            self._noted = now
            waiting = ", ".join(running.claim.job.id for running in list(self._running.values())[:5])
            self._note(f"waiting for {len(self._running)} running jobs ({waiting})")

    def _end(self, running: _Running, why: str, grace: timedelta) -> None:
        running.stopped = why
        if running.running is not None:
            running.running.stop(grace)

    def _is_over(self, held_up: Sequence[HeldUp]) -> bool:
        if self._running or self._reports:
            return False
        if self._unrecorded:
            if self._stop_level >= NOW and self._trouble is not None:
                raise self._trouble.error
            return False
        if self._stop_level:
            return True
        if self._until is None or self._trouble is not None or not self._exhausted:
            return False
        now = self._clock.now()
        if self._due is not None and self._due <= now + (SOON if self._until == "empty" else timedelta(0)):
            return False
        return self._until == "idle" or self._elsewhere(held_up) == 0

    def _elsewhere(self, held_up: Sequence[HeldUp]) -> int:
        """How many jobs of this worker's queues other, living workers run."""
        counts = self._app.store.counts(now=self._clock.now())
        mine = [n for name, n in counts.queues.items() if self._queues is None or name in self._queues]
        stuck = sum(len(held.jobs) for held in held_up)
        return sum(queue[State.PROCESSING] for queue in mine) - stuck

    def _count_left(self) -> None:
        try:
            counts = self._app.store.counts(now=self._clock.now())
        except StoreError:
            return
        self.summary.left = sum(
            queue[State.PENDING] + queue[State.FAILED]
            for name, queue in counts.queues.items()
            if self._queues is None or name in self._queues
        )

    def _pause(self) -> float:
        """Seconds until something must be looked at, if nothing rings before."""
        pause: float = self._settings["poll-interval"].total_seconds()
        now = self._clock.monotonic()
        if self._due is not None and self._slots:
            pause = min(pause, (self._due - self._clock.now()).total_seconds())
        if self._trouble is not None:
            pause = min(pause, self._trouble.again - now)
        if self._draining_since is not None:
            pause = min(pause, self._noted + DRAIN_NOTE_SECONDS - now)
            grace = self._settings["stop-grace"]
            if grace is not None and self._stop_level == DRAIN:
                pause = min(pause, self._draining_since + grace.total_seconds() - now)
        return max(0.0, pause)

    def _report(self, presence: Presence) -> None:
        now = self._clock.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        state = "running"
        if self._trouble is not None:
            state = f"store trouble: {self._trouble.error}"
        elif self._stop_level:
            state = "draining"
        running = tuple(
            RunningJob(
                job=item.claim.job.id,
                run=item.claim.run,
                started=item.claim.job.started_at or self._clock.now(),
                what=item.claim.job.what[:200],
            )
            for item in self._running.values()
        )
        if state != self._info.state or running != self._info.running:
            self._reported = now
            self._info = replace(self._info, state=state, running=running)
            self._app.store.report(presence, self._info)

    def _prune(self) -> None:
        """Delete what was kept long enough, now and then."""
        now = self._clock.monotonic()
        if now - self._pruned < PRUNE_SECONDS or self._stop_level:
            return
        self._pruned = now
        for state, keep in ((State.COMPLETED, "keep-completed"), (State.CANCELLED, "keep-cancelled")):
            before = self._clock.now() - self._settings[keep]
            for job_id in self._app.store.prune(states=frozenset({state}), before=before, limit=1000):
                output.remove(self._app.home.path, job_id)

    def _refresh_settings(self) -> None:
        problem = self._settings.refresh()
        if problem is not None and problem != self._config_problem:
            self._note(f"{problem}; the last good values stay in force")
        self._config_problem = problem

    def _complain(self, error: StoreError) -> None:
        pause = FIRST_PAUSE if self._trouble is None else min(LAST_PAUSE, self._trouble.pause * 2)
        if self._trouble is None:
            self._note(f"store trouble: {error}; claiming nothing, trying again")
        self._trouble = _Trouble(error, pause, self._clock.monotonic() + pause)
        self._reported = float("-inf")

    def _recovered(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            self._reported = float("-inf")
            self._note("the store works again")

    def _event(self, kind: EventKind, job: Job, run: int, time: datetime | None) -> None:
        if self._app.notifications:
            self._app.notifications.send(Event(kind, job, run, time or self._clock.now()))


def _start_time() -> int:
    me = processes.process(os.getpid()) if processes.visible() else None
    return me.start_time if me is not None else 0
