"""The thread that listens to the warm children: answers, output, timeouts, deaths, and new children.

What takes time here, ending a tree, is given to a thread of its own, and the child with it.
"""

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
from jobq_subprocess.burial import Burial, end_leftovers
from jobq_subprocess.protocol import PROGRESS, READY, Answer, progress
from jobq_subprocess.regions import Regions
from jobq_subprocess.roster import FOREVER
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

TAKEN_BACK = Outcome(kind=Kind.RELEASED, reason="handed back before it began")


class Listener:
    """Starts children, listens to them and ends them, all in a thread of its own.

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
        self._around, self._environment, self._threads = around, environment, threads
        self._roster, self._means = roster, means
        self._home, self._greeting, self._most_jobs = home, greeting, most_jobs
        self._regions = Regions(home)
        self._wake = Wake()
        try:
            self._selector = selectors.DefaultSelector()
        except OSError:
            self._wake.close()
            raise
        self._selector.register(self._wake, selectors.EVENT_READ, (_BELL, None))
        self._inbox: deque[Callable[[], None]] = deque()
        self._told: list[tuple[HandlerRun, Outcome | None]] = []
        self._runs: set[HandlerRun] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="jobq-handlers", daemon=True)
        self._thread.start()

    def expect(self, run: HandlerRun) -> None:
        """An attempt is about to be handed to a child: its end will be told."""
        self._runs.add(run)

    def forget(self, run: HandlerRun) -> None:
        """It was not handed to any."""
        self._runs.remove(run)

    def start_child(self, run: HandlerRun) -> None:
        """Have a child started for this attempt."""
        self._post(partial(self._new_child, run))

    def send_rest(self, child: WarmChild) -> None:
        """Have what a child's socket did not take sent when it does."""
        self._post(partial(self._send_rest, child))

    def stop(self, run: HandlerRun) -> None:
        """Have an attempt ended whose stop was asked for."""
        self._post(partial(self._stop, run))

    def take_back(self) -> None:
        """Have everything that was sent ahead and has not begun handed back."""
        self._post(self._take_all_back)

    def look_again(self) -> None:
        """Something is to be done earlier than the thread would look."""
        self._wake.ring()

    def close(self, seconds: float) -> None:
        """Kill what runs, dismiss the children; waits at most so long."""
        for run in tuple(self._runs):
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
        while not (self._closing and not self._runs):
            try:
                self._step()
            except Exception as error:  # a fault of this package costs attempts, never the worker
                self._collapse(error)
        for child in tuple(self._roster.children):
            self._bury(child)
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
            self._hear(child)
        for child in deaths:
            self._died(child)
        if rung:
            self._wake.clear()
            while self._inbox:
                self._inbox.popleft()()
        now = self._around.clock.monotonic()
        for run in self._roster.due(now):
            self._end_now(run, timed_out=True)
        for child in self._roster.overdue(now):
            self._take_back(child)
        self._tell()

    def _tell(self) -> None:
        told, self._told = self._told, []
        for run, outcome in told:
            if outcome is not None:
                self._runs.discard(run)
                run.ended(outcome)
            elif run.started is not None and run.child is not None:
                run.started(run.child.slot)

    def _collapse(self, error: Exception) -> None:
        """Kill all children, and their attempts with them, since what they have said may be lost.

        Nothing that may have led here is kept: the same fault again would find the attempts still there, for ever.
        """
        self._around.warn(outcomes.fault(error))
        self._roster.forget_deadlines()
        for child in tuple(self._roster.children):
            if child.run is None or not child.run.ending:
                self._bury(child, fault=error)
        for run in tuple(self._runs):
            run.request.stop(NOW)
        while self._inbox:
            try:
                self._inbox.popleft()()
            except Exception as another:
                self._around.warn(outcomes.fault(another))
        for run in tuple(self._runs):
            if run.child is None:
                self._end(run, outcomes.of_fault(error))
        self._tell()

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
            self._end(run, Outcome(kind=Kind.RELEASED, reason="stopped before it was started"))
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
            self._end(run, outcomes.no_room(error))
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

    def _hear(self, child: WarmChild) -> None:
        """Take in what it says."""
        if not child.listened:
            return
        lines, more = child.hear()
        self._take_in(child, lines)
        child.attribute()
        if not more and child.listened:
            self._died(child)

    def _take_in(self, child: WarmChild, lines: list[bytes]) -> None:
        for line, following in zip(lines, (*lines[1:], b""), strict=False):
            run = child.run
            if line == READY:
                child.ready = True
                if run is not None:
                    self._roster.begin(run)
            elif run is None or run.ending:
                continue
            elif not line.startswith(PROGRESS):
                self._answered(child, run, Answer(line))
            elif not following.startswith(PROGRESS) and (told := progress(line)) is not None:  # the last of many
                run.attempt.progress(told)

    def _answered(self, child: WarmChild, run: HandlerRun, answer: Answer) -> None:
        self._roster.is_over(run)
        if answer.waits:
            child.drain()
            child.attribute()
        if answer.left:
            run.ending = True
            done = partial(self._done, child, run, answer)
            self._threads.hand(partial(end_leftovers, self._around, child, run), partial(self._post, done))
        else:
            self._done(child, run, answer)

    def _done(self, child: WarmChild, run: HandlerRun, answer: Answer) -> None:
        """An attempt is over, and its child may have the next one."""
        if run.ending:  # it has taken a while; more may have been printed
            child.drain()
            child.attribute()
        if child.unclean:
            self._bury(child, answer=answer)
            return
        self._means.note(run.attempt.job.handler or "", answer.seconds)
        child.jobs += 1
        worn = child.mute or answer.retire or child.jobs >= self._most_jobs or not child.listened
        if worn:
            self._take_back(child)
        if worn and not child.ahead:
            child.run = None
            self._bury(child)
        else:
            self._go_on(child)
            if answer.waits:
                child.go_on()
        self._end(run, answer.outcome(run.attempt.output.tail() if answer.waits else "", run.started_at))

    def _go_on(self, child: WarmChild) -> None:
        """Its next attempt begins, or it has none."""
        run = self._roster.next(child)
        if run is None:
            return
        self._told.append((run, None))
        if run.request.kill_at is not None:  # it was asked to stop when it had been taken already
            self._post(partial(self._stop, run))

    def _take_all_back(self) -> None:
        for child in self._roster.children:
            self._take_back(child)

    def _take_back(self, child: WarmChild) -> None:
        taken = self._roster.take_back(child)
        if child.run is None and child.ahead:
            self._go_on(child)
        for run in taken:
            self._end(run, TAKEN_BACK)

    def _died(self, child: WarmChild) -> None:
        """A child is gone, or has closed its sockets and is as good as gone."""
        self._settle(child)
        if not child.listened:
            return
        run = child.run
        if run is not None and run.ending:  # its leftovers are being ended; `_done` sees to the child
            self._ignore(child)
        else:
            self._bury(child)

    def _stop(self, run: HandlerRun) -> None:
        if run.child is not None and not run.over:
            self._end_now(run)

    def _end_now(self, run: HandlerRun, *, timed_out: bool = False) -> None:
        """End an attempt before its time; one that was sent ahead is taken back, if it still can be."""
        child = run.child
        if child is None or run.ending:
            return
        self._settle(child)
        if child.run is run and not run.ending:
            self._bury(child, timed_out=timed_out)

    def _settle(self, child: WarmChild) -> None:
        """See to it that nothing more begins in a child, and hear what has ended: then what it runs is known."""
        self._take_back(child)
        if child.listened:
            self._take_in(child, child.hear()[0])

    def _bury(
        self,
        child: WarmChild,
        *,
        timed_out: bool = False,
        answer: Answer | None = None,
        fault: Exception | None = None,
    ) -> None:
        """End a child, and the attempt it has with it; the rest as `Burial` takes it."""
        if not self._roster.remove(child):
            return
        self._ignore(child)
        self._take_back(child)
        if child.run is not None:
            child.run.ending = True
        burial = Burial(self._around, child, timed_out=timed_out, answer=answer, fault=fault)
        self._threads.hand(burial.run, partial(self._post, partial(self._buried, child, burial)))

    def _buried(self, child: WarmChild, burial: Burial) -> None:
        self._regions.free(child.region)
        for run, outcome in burial.outcomes:
            self._end(run, TAKEN_BACK if outcome is None else outcome)

    def _ignore(self, child: WarmChild) -> None:
        if not child.listened:
            return
        self._roster.dismiss(child)
        registered = self._selector.get_map()
        for descriptor in (child.pipe, child.answers.fileno(), child.writable, child.pidfd):
            if descriptor != -1 and descriptor in registered:
                self._selector.unregister(descriptor)

    def _end(self, run: HandlerRun, outcome: Outcome) -> None:
        """Note the end of an attempt, to be told when everything else of this step is done. It ends once."""
        if run.over:
            return
        run.over = True
        run.attempt.output.close()
        self._roster.is_over(run)
        self._told.append((run, outcome))
