"""Watches one process and its tree until nothing of it is left: output, timeout, stop, leftovers.

Straight-line code in a thread of its own: one poll on the output pipe, the leader's end and a bell.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING

from jobq import processes
from jobq.executor import Running
from jobq_subprocess.cgroup import leave
from jobq_subprocess.groups import Groups
from jobq_subprocess.memory import MemoryKills
from jobq_subprocess.progress import PAUSE, LowNumbers
from jobq_subprocess.tree import Ladder, Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Clock, Wake
    from jobq.output import Capture
    from jobq_subprocess.orphans import Orphans
    from jobq_subprocess.progress import Reports

NOW = timedelta()

PIPE_GRACE = 2.0
"""Seconds over `kill_grace` that a process which cannot be found may hold the pipe after the leader's end."""

_READ = 1 << 16
_WIDE_READ = 1 << 18
_PIPE_SIZE = 1 << 20
_TICK = 5.0  # seconds between two looks for orphans to reap
_BLIND_TICK = 0.02  # and between two looks whether the leader has ended, where the system does not tell
_LONG = 1e6


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
    groups: Groups = field(init=False)
    low_numbers: LowNumbers = field(default_factory=LowNumbers)
    memory: MemoryKills = field(default_factory=MemoryKills)

    def __post_init__(self) -> None:
        if self.orphans.adopting:  # it is a worker's, and no part of the job that has started that
            leave()
        object.__setattr__(self, "groups", Groups(moves=self.orphans.adopting))

    def close(self) -> None:
        """Free what it holds, when nothing runs any more."""
        self.groups.close()
        self.low_numbers.close()
        self.memory.close()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended.

    Attributes:
        status: as subprocess has it.
        timed_out: whether its time had run out.
        finished: when (aware UTC).
        begun: False where a signal ended it before it was what it was to be: until then it is of the worker's own
            session, and the terminal's Ctrl-C reaches it.
    """

    status: int
    timed_out: bool
    finished: datetime | None
    begun: bool = True


class Supervision:
    """One process with a session of its own, whose stdout is a pipe, and what came of it.

    Args:
        process: the leader. It is reaped, and its pipe closed, at the end of `run`.
        tree: all its processes.
        stop: where a request to end arrives.
        output: where the output goes; None for nowhere.
        reports: where its progress comes from; closed at the end of `run`.
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
        reports: Reports | None = None,
        deadline: float | None,
        kill_grace: float,
    ) -> None:
        self._around, self._process, self._tree, self._stop = around, process, tree, stop
        self._output, self._deadline, self._kill_grace = output, deadline, kill_grace
        self._reports = reports
        self._stdout = _pipe_of(process)
        self._pipe = self._stdout.fileno()
        self._pipe_open = True
        self._poll = select.poll()
        self._reports_at: float | None = None
        self._read_size = _READ
        self._ladder: Ladder | None = None
        self._timed_out = False
        self._leader_ended: float | None = None
        self._finished: datetime | None = None
        self._begun = True

    def run(self, wake: Wake) -> Ending:
        """Return when the leader has ended, nothing is left of its tree, and the pipe is empty."""
        pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else -1
        reported = -1 if self._reports is None else self._reports.descriptor
        poll = self._poll
        for descriptor in (self._pipe, wake.fileno(), pidfd, reported):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        longest = _BLIND_TICK if pidfd < 0 else _TICK if self._around.orphans.adopting else _LONG
        self._stop.watch(wake)
        self._around.orphans.enter(self._process.pid)
        try:
            while (pause := self._advance()) is not None:
                events = poll.poll(min(pause, longest, self._until_reports()) * 1000)
                for descriptor, _ in events:
                    if descriptor == self._pipe:
                        if not self._read():
                            poll.unregister(descriptor)
                    elif descriptor == reported:
                        poll.unregister(descriptor)
                        self._read_reports()
                    elif descriptor == pidfd:
                        poll.unregister(descriptor)
                        os.close(pidfd)  # what looks for leftovers may need it
                        pidfd = -1
                        self._leader_has_ended()
                    else:
                        wake.clear()
                if pidfd < 0 and self._leader_ended is None and self._process.poll() is not None:
                    self._leader_has_ended()
                if not events:
                    self._tree.reap()
            if self._ladder is not None:
                self._tree.reap()
            return Ending(self._process.wait(), self._timed_out, self._finished, self._begun)
        finally:
            self._around.orphans.leave(self._process.pid)
            self._stop.watch(None)
            self._stdout.close()
            if self._reports is not None:
                self._reports.finish()
            if pidfd >= 0:
                os.close(pidfd)

    def _read_reports(self) -> None:
        if self._reports is not None and self._reports.read():
            self._reports_at = self._around.clock.monotonic() + PAUSE

    def _until_reports(self) -> float:
        """Seconds until it is time to listen to progress again, which is done then."""
        if self._reports is None or self._reports_at is None:
            return _LONG
        pause = self._reports_at - self._around.clock.monotonic()
        if pause > 0:
            return pause
        self._reports_at = None
        self._poll.register(self._reports.descriptor, select.POLLIN)
        return _LONG

    def _advance(self) -> float | None:
        """Do what is due now; the most seconds to wait for the next event, or None when all is over."""
        now = self._around.clock.monotonic()
        stop_at = self._stop.kill_at
        if stop_at is not None:
            self._climb(stop_at)
        if self._ladder is None and self._deadline is not None and self._leader_ended is None:
            if now < self._deadline:
                return self._deadline - now
            self._timed_out = True
            self._climb(now + self._kill_grace)
        pause = None if self._ladder is None else self._ladder.step()
        if pause is not None:
            return pause
        if self._leader_ended is None:
            return _LONG
        if not self._pipe_open:
            return None
        give_up = self._leader_ended + self._kill_grace + PIPE_GRACE
        if stop_at is not None:
            give_up = min(give_up, stop_at + PIPE_GRACE)
        return give_up - now if now < give_up else None

    def _climb(self, kill_at: float) -> None:
        """Begin to end everything, or bring the end nearer."""
        if self._ladder is None:
            around = self._around
            self._ladder = Ladder(self._tree, kill_at, monotonic=around.clock.monotonic, warn=around.warn)
        else:
            self._ladder.kill_at = min(self._ladder.kill_at, kill_at)

    def _leader_has_ended(self) -> None:
        clock = self._around.clock
        self._leader_ended = clock.monotonic()
        self._finished = clock.now()
        self._begun = not _died_early(self._process.pid)
        if self._ladder is None and self._tree.left():
            self._climb(self._leader_ended + self._kill_grace)

    def _read(self) -> bool:
        """Take what the pipe has; False at its end."""
        data = os.read(self._pipe, self._read_size)
        if not data:
            self._pipe_open = False
            return False
        if self._output is not None:
            self._output.write(data)
        if len(data) == _READ:
            self._read_size = widen(self._pipe)
        return True


def _pipe_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise ValueError("the process has no pipe")
    return process.stdout


def _died_early(pid: int) -> bool:
    """Whether a child that has ended, and is not reaped, was killed before it led a session of its own."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # reaped already, where there is no other way to hear of its end
        return False
    if ended is None or ended.si_code == os.CLD_EXITED:
        return False
    found = processes.process(pid)
    return found is not None and found.session != pid


def widen(pipe: int) -> int:
    """Enlarge a pipe through which much flows; the number of bytes to read from it at once."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    except (OSError, AttributeError):  # the user's limit for pipes, or a system that has none
        return _READ
    return _WIDE_READ
