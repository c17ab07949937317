"""The attempts that a worker has under way: their slots, what they are stopped for, and how they ended."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobq.executor import Attempt, Kind, Outcome
from jobq.members import RunningJob
from jobq.output import Capture
from jobq.store import runs_alone
from jobq.strictjson import MAX_DEPTH, is_too_deep
from jobq.times import MAX_DURATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from jobq.clock import Clock
    from jobq.executor import Ahead, Executor, Running
    from jobq.job import Job
    from jobq.progress import Progress
    from jobq.settings import Settings
    from jobq.store import Claim

_AT_ONCE = timedelta(0)


class _UnderWay:
    """One attempt. What an executor is to call for it is a method here, from whatever thread.

    Args:
        news: where its beginning (a slot) and its end are put.
        ring: called when there is news.

    Attributes:
        slot: None while it was only sent ahead.
        running: what stops it, once there is something to stop.
        stopped: what it was first stopped for: `cancel`, `release` or `stale`.
        began: when it began, of one that was sent ahead.
        progress: what it last reported.
    """

    __slots__ = ("_attempts", "began", "claim", "level", "output", "progress", "running", "slot", "stopped")

    def __init__(self, attempts: Attempts, claim: Claim, slot: int | None, output: Capture) -> None:
        self._attempts, self.claim, self.slot, self.output = attempts, claim, slot, output
        self.running: Running | None = None
        self.stopped, self.level = "", 0
        self.began: datetime | None = None
        self.progress: Progress | None = None

    def progressed(self, progress: Progress) -> None:
        self.progress = progress
        self._attempts.note_progress()

    def started(self, slot: int) -> None:
        self._attempts.tell(self, slot)

    def ended(self, outcome: Outcome) -> None:
        self._attempts.tell(self, outcome)


class Attempts:
    """Starts attempts on free slots, or ahead of them, and answers with those that ended.

    Used by the worker's thread alone.

    Args:
        executor: runs them.
        home: the home directory.
        count: how many may run at once.
        settings: read afresh for each attempt.
        clock: the time.
        ring: called, from any thread, when there is news.
        note: hears of an executor that fails at what it must be able to do.

    Attributes:
        progressed: one has reported how far it is since this was last set to False; it rings only the first time.
    """

    def __init__(
        self,
        executor: Executor,
        home: Path,
        count: int,
        settings: Settings,
        *,
        clock: Clock,
        ring: Callable[[], None],
        note: Callable[[str], None],
    ) -> None:
        self._executor, self._home, self._settings = executor, home, settings
        self._clock, self._ring, self._note = clock, ring, note
        self._slots = set(range(count))
        self._holders: dict[int, _UnderWay] = {}
        self._under_way: dict[tuple[str, int], _UnderWay] = {}
        self._news: deque[tuple[_UnderWay, Outcome | int]] = deque()
        self.progressed = False

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def free(self) -> int:
        """How many more may start."""
        return len(self._slots)

    @property
    def ids(self) -> list[str]:
        """The ids of the jobs that run, the oldest attempt first."""
        return [item.claim.job.id for item in self._running]

    @property
    def _running(self) -> Iterator[_UnderWay]:
        return (item for item in self._under_way.values() if item.slot is not None)

    @property
    def alone(self) -> bool:
        """Whether one is under way that must have its worker to itself."""
        return any(runs_alone(item.claim.job) for item in self._holders.values())

    @property
    def lowest_ahead(self) -> int | None:
        """The lowest priority among those that were sent ahead and have not begun; None where there are none."""
        ahead = (item.claim.job.priority for item in self._under_way.values() if item.slot is None)
        return min(ahead, default=None)

    def ahead(self) -> Ahead | None:
        """What the executor would take ahead of free slots."""
        try:
            return self._executor.ahead()
        except Exception as error:
            self._note(f"the executor failed: {type(error).__name__}: {error}")
            return None

    def take_back(self) -> None:
        """Have what was sent ahead and has not begun handed back."""
        self._try(self._executor.take_back)

    def flush(self) -> None:
        """The last of a batch was started."""
        self._try(self._executor.flush)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._note(f"the executor failed: {type(error).__name__}: {error}")

    def start(self, claim: Claim, jobs_fd: int | None) -> None:
        """Start the attempt that `claim` is for, or send it ahead where no slot is free.

        What an executor raises is a failed attempt.
        """
        job = claim.job
        slot = self._slots.pop() if self._slots else None
        output = Capture(self._home, job.id, claim.run, self._settings["output-limit"])
        item = self._under_way[job.id, claim.run] = _UnderWay(self, claim, slot, output)
        attempt = Attempt(
            job=job,
            home=self._home,
            slot=slot,
            jobs_fd=jobs_fd,
            output=output,
            kill_grace=self._settings["kill-grace"],
            result_limit=self._settings["result-limit"],
            progress=item.progressed,
            text=claim.text,
        )
        try:
            if slot is None:
                item.running = self._executor.send_ahead(attempt, item.started, item.ended)
            else:
                self._holders[slot] = item
                item.running = self._executor.start(attempt, item.ended)
        except Exception as error:
            item.ended(Outcome(kind=Kind.FAILURE, reason=f"the executor failed: {type(error).__name__}: {error}"))

    def tell(self, item: _UnderWay, said: Outcome | int) -> None:
        """An attempt has begun, in this slot, or ended. Called from any thread."""
        if said.__class__ is int:
            item.began = self._clock.now()
        self._news.append((item, said))
        self._ring()

    def note_progress(self) -> None:
        """An attempt has come further. Called from any thread."""
        if not self.progressed:
            self.progressed = True
            self._ring()

    def news(self) -> Iterator[tuple[Claim, Outcome | None, bool]]:
        """What happened since the last call: of which attempt, how it ended (None: it began), whether it had begun.

        Only of those that were sent ahead is it told that they began. What was stopped to be handed back is, unless
        it had succeeded.
        """
        while self._news:
            item, said = self._news.popleft()
            key = item.claim.job.id, item.claim.run
            if self._under_way.get(key) is not item:  # its end was told before: the first word counts
                continue
            if isinstance(said, int):
                item.slot = said
                self._slots.discard(said)
                self._holders[said] = item
                yield item.claim, None, True
                continue
            del self._under_way[key]
            item.running = None  # which knows whom to tell: it would keep this alive until cycles are looked for
            if item.slot is not None and self._holders.get(item.slot) is item:
                del self._holders[item.slot]
                self._slots.add(item.slot)
            outcome = _checked(said)
            if item.stopped == "release" and outcome.kind not in (Kind.SUCCESS, Kind.RELEASED):
                outcome = Outcome(kind=Kind.RELEASED, reason="the worker was stopped", finished=outcome.finished)
            if item.progress is not None:
                outcome = replace(outcome, progress=item.progress)
            if item.output.error is not None:
                outcome = replace(outcome, output_error=item.output.error)
                self._note(f"not all output of job {item.claim.job.id} could be kept: {item.output.error}")
            yield item.claim, outcome, item.slot is not None

    def heed(self, held: Sequence[Job]) -> list[Job]:
        """Stop what is to be cancelled, and kill what the store no longer gives to this worker.

        Args:
            held: the jobs that the store says this worker holds.

        Returns:
            Those of them that are not under way here.
        """
        stored = {(job.id, job.run): job for job in held}
        for key, item in self._under_way.items():
            job = stored.pop(key, None)
            if job is None and item.stopped != "stale":
                item.stopped = ""
                self._stop(item, "stale", _AT_ONCE)
            elif job is not None and job.cancel_requested_at is not None and not item.stopped:
                self._stop(item, "cancel", self._settings["kill-grace"])
        return list(stored.values())

    def hand_back(self, level: int, grace: timedelta) -> None:
        """Stop all of them so that they can be handed back; once for each `level`."""
        if len(self._under_way) > len(self._holders):
            self.take_back()
        for item in self._under_way.values():
            if item.level < level:
                item.level = level
                self._stop(item, "release", grace)

    def _stop(self, item: _UnderWay, why: str, grace: timedelta) -> None:
        item.stopped = item.stopped or why
        try:
            if item.running is not None:
                item.running.stop(grace)
        except Exception as error:
            self._note(f"job {item.claim.job.id} cannot be stopped: {type(error).__name__}: {error}")

    def told(self) -> tuple[RunningJob, ...]:
        """What is under way, for whoever looks at the worker."""
        return tuple(
            RunningJob(
                job=item.claim.job.id,
                run=item.claim.run,
                started=item.began or item.claim.job.started_at or item.claim.job.updated_at,
                what=item.claim.job.what[:200],
                progress=None if item.progress is None else item.progress.record(),
            )
            for item in self._running
        )


def _checked(outcome: object) -> Outcome:
    """What an executor reported, if it is an outcome that can be recorded; else a failure that says what it was."""
    problem = ""
    if not isinstance(outcome, Outcome) or not isinstance(outcome.kind, Kind):
        problem = f"reported {outcome!r}"
    elif outcome.delay is not None and not timedelta() <= outcome.delay <= MAX_DURATION:
        problem = f"asked for a delay of {outcome.delay}"
    elif is_too_deep(outcome.result):
        problem = f"reported a result that is nested deeper than {MAX_DEPTH}"
    elif outcome.result is not None:
        try:
            json.dumps(outcome.result, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"reported a result that is no JSON ({error})"
    if not problem and isinstance(outcome, Outcome):
        return outcome
    return Outcome(kind=Kind.FAILURE, reason=f"the executor {problem}"[:500])
