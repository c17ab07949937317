"""Watches one process and its tree until nothing of it is left: output, timeout, stop, leftovers.

Straight-line code in a thread of its own: one poll on the output pipe, the leader's end and a bell.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobq.executor import Running
from jobq_subprocess.tree import Ladder, Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Clock, Wake
    from jobq.output import Capture
    from jobq_subprocess.orphans import Orphans

PIPE_GRACE = 2.0
"""Seconds over `kill_grace` that a process which cannot be found may hold the pipe after the leader's end."""

_READ = 1 << 16
_WIDE_READ = 1 << 18
_PIPE_SIZE = 1 << 20
_TICK = 5.0  # seconds between two looks for orphans to reap
_LONG = 1e6
_BLIND_TICK = 0.02


class Stop(Running):
    """A request to end, handed from any thread to the one that watches over the attempt."""

    def __init__(self, clock: Clock) -> None:
        self.kill_at: float | None = None
        self._clock = clock
        self._wake: Wake | None = None

    def stop(self, grace: timedelta) -> None:
        kill_at = self._clock.monotonic() + grace.total_seconds()
        if self.kill_at is None or kill_at < self.kill_at:
            self.kill_at = kill_at
        if self._wake is not None:
            self._wake.ring()

    def watch(self, wake: Wake | None) -> None:
        """Ring `wake` at each request from now on. One that came before is seen in `kill_at`."""
        self._wake = wake


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What everything that is started has in common."""

    clock: Clock
    orphans: Orphans
    warn: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: its status as subprocess has it; `finished` where others were left over after that."""

    status: int
    timed_out: bool
    finished: datetime | None


class Supervision:
    """One process with a session of its own, whose stdout is a pipe, and what came of it.

    Args:
        process: the leader. It is reaped, and its pipe closed, at the end of `run`.
        tree: all its processes.
        stop: where a request to end arrives.
        output: where the output goes; None for nowhere.
        deadline: when it has taken too long (monotonic seconds).
        kill_grace: seconds between TERM and KILL, for a timeout and for leftovers.
    """

    def __init__(
        self,
        around: Surroundings,
        process: subprocess.Popen[bytes],
        tree: Tree,
        stop: Stop,
        *,
        output: Capture | None,
        deadline: float | None,
        kill_grace: float,
    ) -> None:
        self._around, self._process, self._tree, self._stop = around, process, tree, stop
        self._output, self._deadline, self._kill_grace = output, deadline, kill_grace
        assert process.stdout is not None
        self._pipe = process.stdout.fileno()
        self._pipe_open = True
        self._read_size = _READ
        self._ladder: Ladder | None = None
        self._timed_out = False
        self._leader_ended: float | None = None
        self._finished: datetime | None = None

    def run(self, wake: Wake) -> Ending:
        """Return when the leader has ended, nothing is left of its tree, and the pipe is empty."""
        pidfd = _open_pidfd(self._process.pid)
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.register(wake.fileno(), select.POLLIN)
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
        self._stop.watch(wake)
        try:
            while (pause := self._advance()) is not None:
                for descriptor, _ in poll.poll(pause * 1000) or ((-1, 0),):
                    if descriptor == self._pipe:
                        if not self._read():
                            poll.unregister(self._pipe)
                    elif descriptor == pidfd:
                        poll.unregister(pidfd)
                        self._leader_has_ended()
                    elif descriptor == wake.fileno():
                        wake.clear()
                    elif pidfd < 0 and self._leader_ended is None and self._process.poll() is not None:
                        self._leader_has_ended()
                    else:
                        self._tree.reap()
            return Ending(self._process.wait(), self._timed_out, self._finished)
        finally:
            self._stop.watch(None)
            if pidfd >= 0:
                os.close(pidfd)
            self._process.stdout.close()  # type: ignore[union-attr]  # it is a pipe, see __init__

    def _advance(self) -> float | None:
        """Do what is due now; the most seconds to wait for the next event, or None when all is over."""
        now = self._around.clock.monotonic()
        stop_at = self._stop.kill_at
        if stop_at is not None:
            self._climb(stop_at)
        elif self._deadline is not None and now >= self._deadline and self._leader_ended is None:
            self._timed_out = self._ladder is None or self._timed_out
            self._climb(now + self._kill_grace)
        pause = None
        if self._ladder is not None:
            pause = self._ladder.step()
            ...
        return pause
