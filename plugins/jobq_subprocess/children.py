"""The warm children: started on demand, fed by whoever starts an attempt, listened to by one thread.

An attempt is handed to an idle child by the thread that starts it; everything else (new children, answers, output,
timeouts, deaths) happens in the listening thread. What takes time there, ending a tree, is given to a thread of its
own, and the child with it.
"""

from __future__ import annotations

import selectors
import signal
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from jobq.clock import Wake
from jobq.executor import Kind, Outcome
from jobq_subprocess import outcomes
from jobq_subprocess.burial import Burial, end_leftovers
from jobq_subprocess.protocol import NOTHING, READY, Answer, greeting, request
from jobq_subprocess.supervision import NOW
from jobq_subprocess.warm import HandlerRun, WarmChild

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jobq.executor import Attempt
    from jobq_subprocess.environment import Environment
    from jobq_subprocess.supervision import Surroundings
    from jobq_subprocess.threads import Threads

JOBS_PER_CHILD = 1000
"""After so many a child is replaced, so that what handlers leak does not grow without bound."""

_PIPE, _SOCKET, _DEATH, _BELL = range(4)
_FOREVER = float("inf")
_LONGEST_WAIT = 86400.0  # seconds; epoll(7) takes its milliseconds as a C int, which ends after 24.8 days


class Children:
    """Runs attempts of handlers.

    Args:
        threads: where trees are ended.
        home: the home directory.
        targets: what is imported for each handler's name.
        path: directories that handlers may be imported from.
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
    ) -> None:
        self._around, self._environment, self._threads, self._home = around, environment, threads, home
        self._targets = targets
        self._greeting = greeting(targets, path)
        self._selector = selectors.DefaultSelector()
        self._wake = Wake()
        self._selector.register(self._wake, selectors.EVENT_READ, (_BELL, None))
        self._inbox: deque[Callable[[], None]] = deque()
        self._over: list[tuple[HandlerRun, Outcome]] = []
        self._runs: set[HandlerRun] = set()
        self._children: set[WarmChild] = set()
        self._closing = False
        self._lock = threading.Lock()  # for the three below
        self._idle: list[WarmChild] = []
        self._deadlines: dict[HandlerRun, float] = {}
        self._looks_at = _FOREVER
        self._thread = threading.Thread(target=self._loop, name="jobq-handlers", daemon=True)
        self._thread.start()

    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> HandlerRun:
        """Hand the attempt to a child."""
        run = HandlerRun(attempt, ended, self._around.clock, self._asked)
        if attempt.job.handler not in self._targets:
            attempt.output.close()
            ended(Outcome(kind=Kind.CANNOT_START, reason=f"no such handler: {attempt.job.handler}"))
            return run
        self._runs.add(run)
        line = request(attempt)
        early = False
        with self._lock:
            child = self._idle.pop() if self._idle else None
            if child is not None:
                child.run, run.child = run, child
                early = self._set_deadline(run)
        if child is None:
            self._post(partial(self._new_child, run, line))
        elif not child.send(line):
            self._post(partial(self._send_rest, child))
        elif early:
            self._wake.ring()
        return run

    def close(self, seconds: float) -> None:
        """Kill what runs, dismiss the children; waits at most so long."""
        for run in tuple(self._runs):
            run.stop(NOW)
        self._closing = True
        self._wake.ring()
        self._thread.join(seconds)

    def _set_deadline(self, run: HandlerRun) -> bool:
        """Start the time of an attempt; True if the listening thread would look too late. The lock is held."""
        timeout = run.attempt.job.timeout
        if timeout is None:
            return False
        deadline = self._around.clock.monotonic() + timeout.total_seconds()
        self._deadlines[run] = deadline
        return deadline < self._looks_at

    def _post(self, call: Callable[[], None]) -> None:
        """Have the listening thread do something."""
        self._inbox.append(call)
        self._wake.ring()

    def _asked(self, run: HandlerRun) -> None:
        self._post(partial(self._stop, run))

    # Everything below happens in the listening thread

    def _loop(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what is started here inherits the mask
        while not (self._closing and not self._runs):
            try:
                self._step()
            except Exception as error:  # a fault of this package costs attempts, never the worker
                self._collapse(error)
        for child in tuple(self._children):
            self._bury(child)
        self._selector.close()
        self._wake.close()

    def _step(self) -> None:
        sockets: list[tuple[WarmChild, int]] = []
        deaths: list[WarmChild] = []
        rung = False
        for key, mask in self._selector.select(self._until_deadline()):
            kind, child = key.data
            if kind == _PIPE:  # first: what was printed before an answer became readable before it
                if not child.drain():
                    self._selector.unregister(child.pipe)
                    child.mute = True
            elif kind == _SOCKET:
                sockets.append((child, mask))
            elif kind == _DEATH:
                deaths.append(child)
            else:
                rung = True
        for child, mask in sockets:
            self._hear(child, mask)
        for child in deaths:
            self._died(child)
        if rung:
            self._wake.clear()
            while self._inbox:
                self._inbox.popleft()()
        if self._deadlines:
            self._enforce_deadlines()
        self._tell()

    def _tell(self) -> None:
        over, self._over = self._over, []
        for run, outcome in over:
            self._runs.discard(run)
            run.ended(outcome)

    def _collapse(self, error: Exception) -> None:
        """Kill all children, and their attempts with them, since what they have said may be lost.

        Nothing that may have led here is kept: the same fault again would find the attempts still there, for ever.
        """
        told = _fault(error)
        self._around.warn(told)
        with self._lock:
            self._deadlines.clear()
        for child in tuple(self._children):
            if child.run is None or not child.run.ending:
                self._bury(child)
        for run in tuple(self._runs):
            run.request.stop(NOW)
        while self._inbox:
            try:
                self._inbox.popleft()()
            except Exception as another:
                self._around.warn(_fault(another))
        for run in tuple(self._runs):
            if run.child is None:
                self._end(run, Outcome(kind=Kind.FAILURE, reason=told))
        self._tell()

    def _until_deadline(self) -> float | None:
        with self._lock:
            self._looks_at = min(self._deadlines.values(), default=_FOREVER)
        if self._looks_at == _FOREVER:
            return None
        return min(max(0.0, self._looks_at - self._around.clock.monotonic()), _LONGEST_WAIT)

    def _enforce_deadlines(self) -> None:
        now = self._around.clock.monotonic()
        with self._lock:
            due = [run for run, deadline in self._deadlines.items() if deadline <= now]
            for run in due:
                del self._deadlines[run]
        for run in due:
            if run.child is not None and not run.ending:
                self._bury(run.child, timed_out=True)

    def _new_child(self, run: HandlerRun, line: bytes) -> None:
        if run not in self._runs:  # a fault has ended it
            return
        attempt = run.attempt
        if run.request.kill_at is not None:
            self._end(run, Outcome(kind=Kind.RELEASED, reason="stopped before it was started"))
            return
        environment = self._environment.of_child(self._home, attempt.job.worker or "")
        try:
            child = WarmChild(environment, () if attempt.jobs_fd is None else (attempt.jobs_fd,))
        except OSError as error:  # of this machine or installation, not of the job
            self._end(run, outcomes.no_room(error))
            return
        child.run, run.child = run, child
        self._children.add(child)
        child.listened = True
        register = self._selector.register
        register(child.pipe, selectors.EVENT_READ, (_PIPE, child))
        register(child.socket, selectors.EVENT_READ, (_SOCKET, child))
        if child.pidfd >= 0:
            register(child.pidfd, selectors.EVENT_READ, (_DEATH, child))
        if not child.send(self._greeting + line):
            self._send_rest(child)

    def _send_rest(self, child: WarmChild) -> None:
        """Go on sending when the socket takes more."""
        if child.listened:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(child.socket, both, (_SOCKET, child))

    def _hear(self, child: WarmChild, mask: int) -> None:
        if not child.listened:
            return
        if mask & selectors.EVENT_WRITE and child.send(child.unsent):
            self._selector.modify(child.socket, selectors.EVENT_READ, (_SOCKET, child))
        lines, more = child.hear()
        for line in lines:
            run = child.run
            if line == READY:
                if run is not None:
                    with self._lock:
                        self._set_deadline(run)
            elif run is not None and not run.ending:
                self._answered(child, run, line)
        if not more and child.listened:
            self._died(child)

    def _answered(self, child: WarmChild, run: HandlerRun, line: bytes) -> None:
        answer = None if line == NOTHING else Answer(line)
        if self._deadlines:
            with self._lock:
                self._deadlines.pop(run, None)
        if answer is not None and answer.left:
            run.ending = True
            self._give_away(partial(end_leftovers, self._around, child, run), partial(self._done, child, run, answer))
        else:
            self._done(child, run, answer)

    def _done(self, child: WarmChild, run: HandlerRun, answer: Answer | None) -> None:
        """An attempt is over, and its child may have the next one."""
        if run.ending:  # it has taken a while; more may have been printed
            child.drain()
        if child.unclean:
            self._bury(child, answer=answer)
            return
        output = run.attempt.output
        tail = output.tail()
        self._end(run, Outcome(kind=Kind.SUCCESS, tail=tail) if answer is None else answer.outcome(tail))
        child.run = None
        child.jobs += 1
        worn = child.mute or child.jobs >= JOBS_PER_CHILD or (answer is not None and answer.retire)
        if worn or not child.listened:
            self._bury(child)
        else:
            with self._lock:
                self._idle.append(child)

    def _died(self, child: WarmChild) -> None:
        """A child is gone, or has closed its socket and is as good as gone."""
        if not child.listened:
            return
        run = child.run
        if run is not None and run.ending:  # its leftovers are being ended; `_done` sees to the child
            self._ignore(child)
        else:
            self._bury(child)

    def _stop(self, run: HandlerRun) -> None:
        if run.child is not None and run.child.run is run and not run.ending:
            self._bury(run.child)

    def _bury(self, child: WarmChild, *, timed_out: bool = False, answer: Answer | None = None) -> None:
        """End a child, and the attempt it has with it, of which `answer` was heard already."""
        self._ignore(child)
        self._children.discard(child)
        run = child.run
        if run is not None:
            run.ending = True
        burial = Burial(self._around, child, timed_out=timed_out, answer=answer)
        self._give_away(burial.run, partial(self._buried, run, burial))

    def _buried(self, run: HandlerRun | None, burial: Burial) -> None:
        if run is not None:
            self._end(run, burial.outcome)

    def _ignore(self, child: WarmChild) -> None:
        if not child.listened:
            return
        child.listened = False
        with self._lock:
            if child in self._idle:
                self._idle.remove(child)
        registered = self._selector.get_map()
        for descriptor in (child.pipe, child.socket, child.pidfd):
            if descriptor != -1 and descriptor in registered:
                self._selector.unregister(descriptor)

    def _end(self, run: HandlerRun, outcome: Outcome) -> None:
        """Note the end of an attempt, to be told when everything else of this step is done. It ends once."""
        if any(run is other for other, _ in self._over):
            return
        run.attempt.output.close()
        with self._lock:
            self._deadlines.pop(run, None)
        self._over.append((run, outcome))

    def _give_away(self, work: Callable[[Wake], None], then: Callable[[], None]) -> None:
        """Do something that takes time in a thread of its own, then go on here."""

        def try_it(wake: Wake) -> None:
            try:
                work(wake)
            except Exception as error:  # the thread lives on, and so does what waits for it
                self._around.warn(_fault(error))

        def run(wake: Wake) -> None:
            try:
                try_it(wake)
            finally:
                self._threads.free()
                self._post(then)

        try:
            self._threads.run(run)
        except (RuntimeError, OSError):  # no room for a thread: late is better than never
            try_it(self._wake)
            self._post(then)


def _fault(error: Exception) -> str:
    return f"executor failed: {type(error).__name__}: {error}"
