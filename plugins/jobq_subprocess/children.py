"""The warm children: started on demand, fed by the thread that starts attempts, listened to by one of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.executor import Ahead, Kind, Outcome
from jobq_subprocess.ahead import Means, Places
from jobq_subprocess.listening import Listener
from jobq_subprocess.protocol import greeting, request
from jobq_subprocess.roster import Roster
from jobq_subprocess.serving import TAKEN_BACK
from jobq_subprocess.warm import KEEPS_MESSAGES_APART, HandlerRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jobq.executor import Attempt
    from jobq_subprocess.environment import Environment
    from jobq_subprocess.supervision import Surroundings
    from jobq_subprocess.threads import Threads
    from jobq_subprocess.warm import WarmChild


class Children:
    """Runs attempts of handlers.

    Args:
        threads: where trees are ended.
        home: the home directory.
        targets: what is imported for each handler's name.
        path: directories that handlers may be imported from.
        most_jobs: after so many attempts a child is replaced, so that what handlers leak does not grow without bound.
        memory: a child that holds more bytes after an attempt is replaced; None for no such limit.
        asked: what `-p` said.
        wrapped: whether plugins do something around attempts.
    """

    def __init__(
        self,
        around: Surroundings,
        environment: Environment,
        threads: Threads,
        *,
        home: Path,
        targets: Mapping[str, str],
        path: Sequence[str],
        most_jobs: int,
        memory: int | None,
        asked: Sequence[str],
        wrapped: bool,
    ) -> None:
        self._around, self._targets = around, targets
        self._means = Means()
        self._places: Places[WarmChild] = Places(self._means, ())
        self._unflushed: dict[WarmChild, HandlerRun] = {}
        self._roster = Roster(around.clock, most_jobs)
        self._listener = Listener(
            around,
            environment,
            threads,
            self._roster,
            self._means,
            home=home,
            greeting=greeting(targets, path, memory, asked=asked, wrapped=wrapped),
            most_jobs=most_jobs,
        )

    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> HandlerRun:
        """Hand the attempt to a child."""
        run = HandlerRun(attempt, ended, self._around.clock, self._listener.stop)
        if attempt.job.handler not in self._targets:
            attempt.output.close()
            ended(Outcome(kind=Kind.CANNOT_START, reason=f"no such handler: {attempt.job.handler}"))
            return run
        run.line = request(attempt, attempt.slot or 0, run.key)
        self._listener.serving.expect(run)
        child = self._roster.assign(run)
        if child is None:
            self._listener.start_child(run)
            return run
        child.memory_kills = self._around.memory.count()
        if not child.send(run.line):
            self._listener.send_rest(child)
        elif attempt.job.timeout is not None and self._roster.is_late(run):
            self._listener.look_again()
        return run

    def ahead(self) -> Ahead | None:
        """What may be sent ahead now."""
        if not KEEPS_MESSAGES_APART:
            return None
        self._places = Places(self._means, self._roster.rooms(self._means))
        most = self._places.most
        return Ahead(most, self._places.take) if most else None

    def send_ahead(
        self, attempt: Attempt, started: Callable[[int], None], ended: Callable[[Outcome], None]
    ) -> HandlerRun:
        """Send the attempt to the child that has a place for it."""
        run = HandlerRun(attempt, ended, self._around.clock, self._listener.stop, started)
        child = self._places.of(attempt.job)
        if child is not None:
            run.line = request(attempt, child.slot, run.key)
            self._listener.serving.expect(run)
            if self._roster.line_up(child, run):
                if run.started_at is not None:
                    started(child.slot)
                self._unflushed.setdefault(child, run)
                return run
            self._listener.serving.forget(run)
        ended(TAKEN_BACK)
        return run

    def flush(self) -> None:
        """Send what waits for the end of a batch."""
        unflushed, self._unflushed = self._unflushed, {}
        for child, run in unflushed.items():
            if not self._roster.send_rest(child):
                self._listener.send_rest(child)
            elif self._roster.is_late(run):
                self._listener.look_again()

    def take_back(self) -> None:
        """Have everything that was sent ahead and has not begun handed back."""
        self._listener.take_back()

    def close(self, seconds: float) -> None:
        """Kill what runs, dismiss the children; waits at most so long."""
        self._listener.close(seconds)
