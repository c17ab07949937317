"""An executor that starts nothing: attempts end as a script says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.executor import Attempt, Executor, Kind, Outcome, Recovered, Running

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from jobq.job import Job
    from jobq.members import WorkerInfo

SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)
TERMINATED = Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM")
KILLED = Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL")


class ScriptedRunning(Running):
    """An attempt that runs until it is told how it ended.

    Attributes:
        attempt: what it runs.
        graces: the grace of each `stop` so far.
    """

    def __init__(self, executor: ScriptedExecutor, attempt: Attempt, ended: Callable[[Outcome], None]) -> None:
        self.attempt = attempt
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
        self._ended(outcome)

    def stop(self, grace: timedelta) -> None:
        self.graces.append(grace)
        if self._executor.stopped is not None:
            self.end(self._executor.stopped)


class ScriptedExecutor(Executor):
    """Ends each attempt as `script` says, at once and within `start`; None from it leaves the attempt running.

    Args:
        script: what becomes of a job: an outcome; a function of the attempt that answers with one (and may write
            output, or try what else a job might); or None: it runs until `running[id].end(…)` or a stop.
        stopped: how a running attempt ends when it is stopped; None: it takes no notice.

    Attributes:
        started: every attempt, in order.
        running: the attempts under way, by job id.
        recovered: the workers that `recover` was asked for.
        recovery: what it answers with.
        closed: whether `close` was called.
    """

    def __init__(
        self,
        script: Callable[[Job], Outcome | Callable[[Attempt], Outcome] | None] = lambda _job: SUCCESS,
        *,
        stopped: Outcome | None = TERMINATED,
    ) -> None:
        self.script = script
        self.stopped = stopped
        self.started: list[Attempt] = []
        self.running: dict[str, ScriptedRunning] = {}
        self.recovered: list[WorkerInfo] = []
        self.recovery = Recovered(clean=True)
        self.closed = False

    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> ScriptedRunning:
        running = ScriptedRunning(self, attempt, ended)
        self.started.append(attempt)
        self.running[attempt.job.id] = running
        scripted = self.script(attempt.job)
        if scripted is not None:
            running.end(scripted(attempt) if callable(scripted) else scripted)
        return running

    def recover(self, worker: WorkerInfo) -> Recovered:
        self.recovered.append(worker)
        return self.recovery

    def close(self) -> None:
        self.closed = True
        for running in list(self.running.values()):
            running.end(KILLED)
