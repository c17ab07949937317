"""Ending a warm child, or what a handler left behind in one: takes time, and so a thread of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.executor import Kind, Outcome
from jobq_subprocess import outcomes
from jobq_subprocess.command import abandon, pipe_of
from jobq_subprocess.environment import markers
from jobq_subprocess.roster import START_SECONDS
from jobq_subprocess.supervision import Stop, Supervision
from jobq_subprocess.tree import Ladder, Tree

if TYPE_CHECKING:
    from datetime import datetime

    from jobq.clock import Wake
    from jobq.job import Job
    from jobq_subprocess.protocol import Answer
    from jobq_subprocess.supervision import Ending, Surroundings
    from jobq_subprocess.warm import HandlerRun, WarmChild

DISMISSED_FOR = 2.0
"""Seconds that a child without a job has to end by itself."""


class Burial:
    """Ends a child, with all its processes, and says what that makes of the attempts it has.

    A child with an attempt is one that died, was told to stop, or took too long; one without has served its time.

    Attributes:
        outcomes: of its attempts, after `run`; None for one that was sent ahead and has not begun.

    Args:
        timed_out: its attempt took too long.
        answer: what was heard of its attempt already.
        fault: why what it has said may be lost; None: nothing is.
    """

    def __init__(
        self,
        around: Surroundings,
        child: WarmChild,
        *,
        timed_out: bool,
        answer: Answer | None = None,
        fault: Exception | None = None,
    ) -> None:
        self.outcomes: list[tuple[HandlerRun, Outcome | None]] = []
        self._around, self._child, self._run, self._timed_out = around, child, child.run, timed_out
        self._answer, self._fault = answer, fault
        self._runs = (*(() if child.run is None else (child.run,)), *child.ahead)
        self._tree = Tree(
            child.process.pid,
            () if child.run is None else markers(child.run.attempt),
            around.orphans,
            pipe=pipe_of(child.process),
            group=child.group,
        )

    def run(self, wake: Wake) -> None:
        """Return when nothing is left of the child."""
        self._child.dismiss()
        outcome = Outcome(kind=Kind.FAILURE, reason="its outcome is not known")
        try:
            ending = self._supervision().run(wake)
            if self._run is not None:
                outcome = self._told(self._run, ending)
        except Exception as error:
            abandon(self._child.process, self._tree, self._around, wake)
            if self._run is not None:
                outcome = self._told_of_fault(self._run, error)
        finally:
            for run in self._runs:
                begun = replace(outcome, started=run.started_at) if self._has_begun(run) else None
                self.outcomes.append((run, begun))
            self._child.close()
            if self._child.group is not None:
                self._around.groups.release(self._child.group)

    def _has_begun(self, run: HandlerRun) -> bool:
        """Whether an attempt counts: its handler was called, or it is the first of its child, which it may have killed.

        A child that has served before may have died while it was idle, just before it was handed this one.
        """
        if self._child.has_begun(run):
            return True
        return run.started is None and not self._child.jobs and run is self._run

    def _supervision(self) -> Supervision:
        around, run, now = self._around, self._run, self._around.clock.monotonic()
        stop, deadline, grace = Stop(around.clock), now + DISMISSED_FOR, DISMISSED_FOR
        if run is not None:
            stop, deadline, grace = run.request, now, run.attempt.kill_grace.total_seconds()
            if not self._timed_out:
                stop.stop(run.attempt.kill_grace)
        return Supervision(
            around,
            self._child.process,
            self._tree,
            stop,
            output=None if run is None else run.attempt.output,
            deadline=deadline,
            kill_grace=grace,
        )

    def _told(self, run: HandlerRun, ending: Ending) -> Outcome:
        job, tail = run.attempt.job, run.attempt.output.tail()
        if ending.timed_out and self._answer is None:
            return self._timeout(job, tail=tail, finished=ending.finished)
        answer = self._heard()
        if answer is not None:
            return answer.outcome(tail)
        if self._fault is not None:
            return outcomes.of_fault(self._fault, tail=tail, finished=ending.finished)
        if not ending.begun:
            return outcomes.UNBEGUN
        kills = self._around.memory.count() - self._child.memory_kills
        return outcomes.of_status(ending.status, command=False, tail=tail, finished=ending.finished, memory_kills=kills)

    def _told_of_fault(self, run: HandlerRun, error: Exception) -> Outcome:
        """As `_told`, where the end could not be watched."""
        tail = run.attempt.output.tail()
        if self._timed_out:
            return self._timeout(run.attempt.job, tail=tail, finished=None)
        answer = self._heard()
        return outcomes.of_fault(error) if answer is None else answer.outcome(tail)

    def _timeout(self, job: Job, *, tail: str, finished: datetime | None) -> Outcome:
        if self._child.ready:
            return outcomes.of_timeout(job, tail=tail, finished=finished)
        reason = f"the handler's process was not ready within {START_SECONDS:g} s"
        return Outcome(kind=Kind.FAILURE, reason=reason, tail=tail, finished=finished)

    def _heard(self) -> Answer | None:
        """What the child said of its attempt."""
        return self._answer or self._child.last_answer()


def end_leftovers(around: Surroundings, child: WarmChild, run: HandlerRun, wake: Wake) -> None:
    """End what a handler has started and left behind; its child lives on, or is `unclean` if that has failed."""
    child.unclean = True
    clock = around.clock
    pid = child.process.pid
    tree = Tree(
        pid, markers(run.attempt), around.orphans, pipe=pipe_of(child.process), spared=(pid,), group=child.group
    )
    kill_at = clock.monotonic() + run.attempt.kill_grace.total_seconds()
    ladder = Ladder(tree, kill_at, monotonic=clock.monotonic, warn=around.warn)
    run.request.watch(wake)
    while (pause := ladder.step()) is not None:
        clock.wait(wake, pause)
        if run.request.kill_at is not None:
            ladder.kill_at = min(ladder.kill_at, run.request.kill_at)
    run.request.watch(None)
    child.unclean = False
