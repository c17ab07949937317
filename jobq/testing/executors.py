"""An executor that starts nothing: attempts end as a script says."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from jobq.executor import Ahead, Attempt, Executor, Kind, Outcome, Recovered, Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.job import Job
    from jobq.members import WorkerInfo

SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)
TERMINATED = Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM")
KILLED = Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL")
TAKEN_BACK = Outcome(kind=Kind.RELEASED, reason="handed back before it began")


class ScriptedRunning(Running):
    """An attempt that runs until it is told how it ended.

    Attributes:
        attempt: what it runs.
        graces: the grace of each `stop` so far.
        slot: the one it runs in; None while it was only sent ahead.
    """

    def __init__(self, executor: ScriptedExecutor, attempt: Attempt, ended: Callable[[Outcome], None]) -> None:
        self.attempt = attempt
        self.slot = attempt.slot
        self.graces: list[timedelta] = []
        self._executor = executor
        self._ended = ended
        self._over = False

    def end(self, outcome: Outcome = SUCCESS) -> None:
        """Let the attempt be over; what comes after the first time changes nothing."""
        if self._over:
            return
        self._over = True
        self._executor.running.pop(self.attempt.job.id, None)
        self.attempt.output.close()
        if self.slot is not None:
            self._executor.begin_next(self.slot)
        self._ended(outcome)

    def stop(self, grace: timedelta) -> None:
        self.graces.append(grace)
        if self.slot is None:
            self._executor.ahead_of_slots.pop(self.attempt.job.id, None)
            self.end(TAKEN_BACK)
        elif self._executor.stopped is not None:
            self.end(self._executor.stopped)


class ScriptedExecutor(Executor):
    """Ends each attempt as `script` says, at once and within `start`; None from it leaves the attempt running.

    Args:
        script: what becomes of a job: an outcome; a function of the attempt that answers with one (and may write
            output, or try what else a job might); or None: it runs until `running[id].end(…)` or a stop.
        stopped: how a running attempt ends when it is stopped; None: it takes no notice.
        most_ahead: how many jobs it takes ahead of free slots: handlers without losses.

    Attributes:
        started: every attempt, in order.
        running: the attempts under way, by job id.
        ahead_of_slots: those that were sent ahead and have not begun, by job id, in order.
        recovered: the workers that `recover` was asked for.
        recovery: what it answers with.
        closed: whether `close` was called.
    """

    def __init__(
        self,
        script: Callable[[Job], Outcome | Callable[[Attempt], Outcome] | None] = lambda _job: SUCCESS,
        *,
        stopped: Outcome | None = TERMINATED,
        most_ahead: int = 0,
    ) -> None:
        self.script = script
        self.stopped = stopped
        self.most_ahead = most_ahead
        self.ahead_of_slots: dict[str, tuple[ScriptedRunning, Callable[[int], None]]] = {}
        self.started: list[Attempt] = []
        self.running: dict[str, ScriptedRunning] = {}
        self.recovered: list[WorkerInfo] = []
        self.recovery = Recovered(clean=True)
        self.closed = False
        self._flushed = True

    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> ScriptedRunning:
        running = ScriptedRunning(self, attempt, ended)
        self._run(running)
        return running

    def ahead(self) -> Ahead | None:
        room = self.most_ahead - len(self.ahead_of_slots)
        if room <= 0 or not self.running:
            return None
        return Ahead(room, lambda job: job.handler is not None and not job.losses)

    def send_ahead(
        self, attempt: Attempt, started: Callable[[int], None], ended: Callable[[Outcome], None]
    ) -> ScriptedRunning:
        running = ScriptedRunning(self, attempt, ended)
        self.ahead_of_slots[attempt.job.id] = running, started
        self._flushed = False
        return running

    def flush(self) -> None:
        self._flushed = True

    def take_back(self) -> None:
        for running, _ in list(self.ahead_of_slots.values()):
            running.stop(timedelta())

    def begin_next(self, slot: int) -> None:
        """Begin, in this slot, the first of those that were sent ahead, if there is one and the batch was flushed."""
        if self.ahead_of_slots and self._flushed:
            running, started = self.ahead_of_slots.pop(next(iter(self.ahead_of_slots)))
            running.slot = slot
            started(slot)
            self._run(running)

    def _run(self, running: ScriptedRunning) -> None:
        attempt = running.attempt
        self.started.append(attempt)
        self.running[attempt.job.id] = running
        scripted = self.script(attempt.job)
        if scripted is not None:
            running.end(scripted(attempt) if callable(scripted) else scripted)

    def recover(self, worker: WorkerInfo) -> Recovered:
        self.recovered.append(worker)
        return self.recovery

    def close(self) -> None:
        self.closed = True
        self.take_back()
        for running in list(self.running.values()):
            running.end(KILLED)
