"""The thread that listens to the warm children, and starts new ones; `serving` decides what follows from what it hears."""

from __future__ import annotations

import selectors
import signal
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from jobq.clock import Wake
from jobq.errors import JobqError
from jobq.executor import Kind, Outcome
from jobq_subprocess import outcomes
from jobq_subprocess.regions import Regions
from jobq_subprocess.roster import FOREVER
from jobq_subprocess.serving import Serving
from jobq_subprocess.supervision import NOW
from jobq_subprocess.warm import HandlerRun, WarmChild

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobq_subprocess.ahead import Means
    from jobq_subprocess.environment import Environment
    from jobq_subprocess.roster import Roster
    from jobq_subprocess.supervision import Surroundings
    from jobq_subprocess.threads import Threads

_PIPE, _ANSWERS, _REQUESTS, _DEATH, _BELL = range(5)
_LONGEST_WAIT = 86400.0  # seconds; epoll(7) takes its milliseconds as a C int, which ends after 24.8 days


class Listener:
    """Starts children and listens to them, all in a thread of its own.

    Attributes:
        serving: what becomes of attempts.

    Args:
        threads: where trees are ended.
        roster: who has what; shared with the thread that starts attempts.
        means: how long handlers take; noted here.
        home: the home directory.
        greeting: the first line to each child.
        most_jobs: after so many attempts a child is replaced.
    """

    def __init__(
        self,
        around: Surroundings,
        environment: Environment,
        threads: Threads,
        roster: Roster,
        means: Means,
        *,
        home: Path,
        greeting: bytes,
        most_jobs: int,
    ) -> None:
        self._around, self._environment = around, environment
        self._roster, self._home, self._greeting = roster, home, greeting
        self._regions = Regions(home)
        self._wake = Wake()
        try:
            self._selector = selectors.DefaultSelector()
        except OSError:
            self._wake.close()
            raise
        self._selector.register(self._wake, selectors.EVENT_READ, (_BELL, None))
        self._inbox: deque[Callable[[], None]] = deque()
        self.serving = Serving(
            around,
            threads,
            roster,
            means,
            self._regions,
            most_jobs=most_jobs,
            post=self._post,
            ignore=self._ignore,
        )
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="jobq-handlers", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no room for another thread
            self._selector.close()
            self._wake.close()
            raise

    def start_child(self, run: HandlerRun) -> None:
        """Have a child started for this attempt."""
        self._post(partial(self._new_child, run))

    def send_rest(self, child: WarmChild) -> None:
        """Have what a child's socket did not take sent when it does."""
        self._post(partial(self._send_rest, child))

    def stop(self, run: HandlerRun) -> None:
        """Have an attempt ended whose stop was asked for."""
        self._post(partial(self.serving.stop, run))

    def take_back(self) -> None:
        """Have everything that was sent ahead and has not begun handed back."""
        self._post(self.serving.take_all_back)

    def look_again(self) -> None:
        """Something is to be done earlier than the thread would look."""
        self._wake.ring()

    def close(self, seconds: float) -> None:
        """Kill what runs, dismiss the children; waits at most so long."""
        for run in tuple(self.serving.runs):
            run.stop(NOW)
        self._closing = True
        self._wake.ring()
        self._thread.join(seconds)

    def _post(self, call: Callable[[], None]) -> None:
        """Have the listening thread do something."""
        self._inbox.append(call)
        self._wake.ring()

    def _loop(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what is started here inherits the mask
        while not (self._closing and not self.serving.runs):
            try:
                self._step()
            except Exception as error:  # a fault of this package costs attempts, never the worker
                self._collapse(error)
        for child in tuple(self._roster.children):
            self.serving.bury(child)
        self._regions.close()
        self._selector.close()
        self._wake.close()

    def _step(self) -> None:
        heard: list[WarmChild] = []
        deaths: list[WarmChild] = []
        rung = False
        for key, _ in self._selector.select(self._until_next()):
            kind, child = key.data
            if kind == _PIPE:  # what it printed comes first, then the answers that say whose it was
                if not child.drain():
                    self._selector.unregister(child.pipe)
                    child.mute = True
                heard.append(child)
            elif kind == _ANSWERS:
                heard.append(child)
            elif kind == _REQUESTS:
                self._send_rest(child)
            elif kind == _DEATH:
                deaths.append(child)
            else:
                rung = True
        for child in heard:
            self.serving.hear(child)
        for child in deaths:
            self.serving.died(child)
        if rung:
            self._wake.clear()
            while self._inbox:
                self._inbox.popleft()()
        now = self._around.clock.monotonic()
        for run in self._roster.due(now):
            self.serving.end_now(run, timed_out=True)
        for child in self._roster.overdue(now):
            self.serving.take_back(child)
        self.serving.tell()

    def _collapse(self, error: Exception) -> None:
        """Go on after a fault with nothing that may have led to it: the same attempts would lead there for ever."""
        self._around.warn(outcomes.fault(error))
        self.serving.give_up(error)
        while self._inbox:
            try:
                self._inbox.popleft()()
            except Exception as another:
                self._around.warn(outcomes.fault(another))
        self.serving.end_waiting(error)
        self.serving.tell()

    def _until_next(self) -> float | None:
        """Seconds until something is to be done if nothing happens before."""
        looks_at = self._roster.look()
        if looks_at == FOREVER:
            return None
        return min(max(0.0, looks_at - self._around.clock.monotonic()), _LONGEST_WAIT)

    def _new_child(self, run: HandlerRun) -> None:
        if run.over:  # a fault has ended it
            return
        attempt = run.attempt
        if run.request.kill_at is not None:
            self.serving.end(run, Outcome(kind=Kind.RELEASED, reason="stopped before it was started"))
            return
        worker = attempt.job.worker or ""
        environment = self._environment.of_child(self._home, worker)
        inherited = () if attempt.jobs_fd is None else (attempt.jobs_fd,)
        region = self._regions.take()
        try:
            child = WarmChild(
                environment, inherited, self._regions.open(worker), region, partial(self._around.groups.start, worker)
            )
        except (OSError, JobqError) as error:  # of this machine or installation, not of the job
            self._regions.free(region)
            self.serving.end(run, outcomes.no_room(error))
            return
        child.memory_kills = self._around.memory.count()
        self._roster.add(child, run)
        child.listened = True
        register = self._selector.register
        register(child.pipe, selectors.EVENT_READ, (_PIPE, child))
        register(child.answers, selectors.EVENT_READ, (_ANSWERS, child))
        if child.pidfd >= 0:
            register(child.pidfd, selectors.EVENT_READ, (_DEATH, child))
        child.send(self._greeting)
        if not child.send(run.line):
            self._send_rest(child)

    def _send_rest(self, child: WarmChild) -> None:
        """Send what its socket takes; go on when that takes more."""
        if not child.listened:
            return
        waiting = child.writable in self._selector.get_map()
        done = self._roster.send_rest(child)
        if waiting and done:
            self._selector.unregister(child.writable)
        elif not (waiting or done):
            self._selector.register(child.writable, selectors.EVENT_WRITE, (_REQUESTS, child))

    def _ignore(self, child: WarmChild) -> None:
        if not child.listened:
            return
        self._roster.dismiss(child)
        registered = self._selector.get_map()
        for descriptor in (child.pipe, child.answers.fileno(), child.writable, child.pidfd):
            if descriptor != -1 and descriptor in registered:
                self._selector.unregister(descriptor)
