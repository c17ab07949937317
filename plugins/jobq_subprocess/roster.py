"""Which child has which attempts, and until when: what the thread that starts attempts and the one that listens share."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from jobq_subprocess.ahead import AHEAD_SECONDS, MOST_AHEAD, TAKEN_BACK_AFTER, Room

if TYPE_CHECKING:
    from jobq.clock import Clock
    from jobq_subprocess.ahead import Means
    from jobq_subprocess.warm import HandlerRun, WarmChild

FOREVER = float("inf")
START_SECONDS = 60.0
"""How long a child may take until it is ready: what its interpreter imports at every start may hang."""


def _to_be_taken_back(run: HandlerRun) -> float:
    """When an attempt that was sent ahead has waited too long; never for one that was not."""
    return FOREVER if run.sent is None else run.sent + TAKEN_BACK_AFTER


class Roster:
    """The children and what they have. Every method is atomic.

    Args:
        most_jobs: after so many attempts a child is given no more.

    Attributes:
        children: those that live and have not been given up; changed by the listening thread alone.
    """

    def __init__(self, clock: Clock, most_jobs: int) -> None:
        self._clock, self._most_jobs = clock, most_jobs
        self._lock = threading.Lock()
        self._idle: list[WarmChild] = []
        self._deadlines: dict[HandlerRun, float] = {}
        self._looks_at = FOREVER
        self.children: set[WarmChild] = set()

    def assign(self, run: HandlerRun) -> WarmChild | None:
        """An idle child, which has this attempt from now on; None where there is none."""
        with self._lock:
            if not self._idle:
                return None
            child = self._idle.pop()
            child.slot = run.attempt.slot or 0
            self._give(child, run)
            return child

    def add(self, child: WarmChild, run: HandlerRun) -> None:
        """A new child, started for this attempt; its time begins when the child is ready, for which it has its own."""
        with self._lock:
            self.children.add(child)
            self._deadlines[run] = self._clock.monotonic() + START_SECONDS
            child.run, run.child, child.slot = run, child, run.attempt.slot or 0

    def remove(self, child: WarmChild) -> bool:
        """Give a child up; False if it was already."""
        with self._lock:
            if child not in self.children:
                return False
            self.children.remove(child)
            return True

    def dismiss(self, child: WarmChild) -> None:
        """Give a child nothing more."""
        with self._lock:
            child.listened = False
            if child in self._idle:
                self._idle.remove(child)

    def begin(self, run: HandlerRun) -> None:
        """The time of an attempt begins."""
        with self._lock:
            self._begin(run)

    def rooms(self, means: Means) -> list[Room[WarmChild]]:
        """What each busy child may be sent ahead beside what it has: its work for `AHEAD_SECONDS` in all."""
        now = self._clock.monotonic()
        rooms = []
        with self._lock:
            for child in self.children:
                run = child.run
                if run is None or not child.takes_ahead or now - run.began > AHEAD_SECONDS:
                    continue
                planned = [run, *child.ahead]
                taken = [means.of(each.attempt.job.handler) for each in planned]
                seconds = AHEAD_SECONDS - sum(FOREVER if mean is None else mean for mean in taken)
                count = min(MOST_AHEAD + 1, self._most_jobs - child.jobs) - len(planned)
                rooms.append(Room(child, seconds, count))
        return rooms

    def line_up(self, child: WarmChild, run: HandlerRun) -> bool:
        """Put an attempt behind what a child has, or have it begin, if that is idle by now; False if it takes none any more.

        It is sent at once only where the child has nothing else to do; what comes after it waits for `send_rest`, since
        to wake a child costs more than to send it something. The child is still in the slot that it was in: the end of
        what it had before cannot have been acted on yet.
        """
        with self._lock:
            if child in self._idle:
                self._idle.remove(child)
                run.started_at = self._clock.now()
                self._give(child, run)
            elif child.takes_ahead:
                run.child, run.sent = child, self._clock.monotonic()
                child.ahead.append(run)
            else:
                return False
            child.put(run.line)
            if len(child.ahead) <= 1 and len(child.unsent) == 1:
                child.send_rest()
            return True

    def send_rest(self, child: WarmChild) -> bool:
        """Send what its socket did not take before; False if something is still left."""
        with self._lock:
            return child.send_rest()

    def next(self, child: WarmChild) -> HandlerRun | None:
        """The attempt it has is over: the one that it begins now, or None: it is idle."""
        with self._lock:
            if not child.ahead:
                child.run = None
                self._idle.append(child)
                return None
            run = child.ahead.popleft()
            child.run = run
            run.started_at = self._clock.now()
            self._begin(run)
            return run

    def take_back(self, child: WarmChild) -> list[HandlerRun]:
        """The attempts that a child was sent and has not taken; it will not get them any more.

        It takes one while others are taken from under its hands: it may have none, and one ahead that it has begun.
        """
        with self._lock:
            if not child.ahead:
                return []
            lines = child.take_back()
            taken = [run for run in child.ahead if run.line in lines]
            child.ahead = deque(run for run in child.ahead if run.line not in lines)
            run = child.run
            if run is not None and run.line in lines:  # handed to it just now
                taken.append(run)
                child.run = None
                if child.listened and not child.ahead:
                    self._idle.append(child)
            return taken

    def is_late(self, run: HandlerRun) -> bool:
        """Whether the listening thread would look too late at an attempt that was just handed over."""
        with self._lock:
            return min(self._deadlines.get(run, FOREVER), _to_be_taken_back(run)) < self._looks_at

    def look(self) -> float:
        """When something is to be done next (monotonic seconds), if nothing happens before."""
        with self._lock:
            waiting = (_to_be_taken_back(child.ahead[0]) for child in self.children if child.ahead)
            self._looks_at = min((*self._deadlines.values(), *waiting), default=FOREVER)
            return self._looks_at

    def overdue(self, now: float) -> list[WarmChild]:
        """The children with something sent ahead that has waited too long."""
        with self._lock:
            return [child for child in self.children if child.ahead and _to_be_taken_back(child.ahead[0]) <= now]

    def due(self, now: float) -> list[HandlerRun]:
        """The attempts whose time is over, each once."""
        if not self._deadlines:
            return []
        with self._lock:
            due = [run for run, deadline in self._deadlines.items() if deadline <= now]
            for run in due:
                del self._deadlines[run]
            return due

    def is_over(self, run: HandlerRun) -> None:
        """An attempt has no deadline any more."""
        if run in self._deadlines:
            with self._lock:
                self._deadlines.pop(run, None)

    def forget_deadlines(self) -> None:
        """No attempt has a deadline any more."""
        with self._lock:
            self._deadlines.clear()

    def _give(self, child: WarmChild, run: HandlerRun) -> None:
        child.run, run.child = run, child
        self._begin(run)

    def _begin(self, run: HandlerRun) -> None:
        run.began = self._clock.monotonic()
        timeout = run.attempt.job.timeout
        if timeout is not None:
            self._deadlines[run] = run.began + timeout.total_seconds()
        elif self._deadlines:
            self._deadlines.pop(run, None)
