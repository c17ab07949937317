"""A cgroup for each running attempt of a worker, where the system lets it make them; elsewhere attempts go without.

    jobq-WORKERID/worker    the worker itself, and for a moment what it has just started
    jobq-WORKERID/N         an attempt, with all that it starts

A process is moved to its group just after its start. What it forks before that, and what that forks, stays with the
worker, where nobody else is: it is found there and moved as well, whatever it has made of itself. One is started at a
time, so that it is known whose it is. In a process that is no worker, which is not to be moved, those are found as far
as they still descend from their leader.

A directory serves one attempt after the other: moving a process to a new one costs eight times as much. The worker
holds the directory that they stand in locked, so that others can tell what a dead one has left.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import threading
from typing import TYPE_CHECKING

from jobq import processes
from jobq_subprocess import cgroupfs
from jobq_subprocess.cgroup import PREFIX, WORKER, Group, is_workers, leave, outside
from jobq_subprocess.outcomes import NO_ROOM

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

_TRIES = 10


class Groups:
    """The cgroups of a worker's attempts. Used from several threads.

    Args:
        moves: whether this process may be moved to a cgroup of its own.
    """

    def __init__(self, *, moves: bool = False) -> None:
        self._moves = moves
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        self._usable = True
        self._directory: str | None = None
        self._descriptor = -1
        self._own: Group | None = None
        self._numbers = itertools.count(1)
        self._free: list[Group] = []

    def start(
        self, worker_id: str, start: Callable[[], subprocess.Popen[bytes]]
    ) -> tuple[subprocess.Popen[bytes], Group | None]:
        """Start a process; with the group that it, and everything it ever forks, is in; None where that cannot be.

        Args:
            worker_id: of this worker.
            start: starts it, as the leader of a session.

        Raises:
            Exception: what `start` raises.
        """
        with self._starting:
            group = self._taken(worker_id)
            try:
                process = start()
            except BaseException:
                if group is not None:
                    self.release(group)
                raise
            return process, None if group is None else self._filled(group, worker_id, process.pid)

    def release(self, group: Group) -> None:
        """An attempt is over: its group is there for the next one, unless something lives in it or has changed it."""
        if not group.is_clean:
            group.remove()
            return
        with self._lock:
            self._free.append(group)

    def close(self) -> None:
        """Move this process back, and remove what is empty. From now on attempts go without."""
        self._usable = False
        if self._own is not None:
            leave()
        self._forget()

    def _taken(self, worker_id: str) -> Group | None:
        for _ in range(_TRIES):
            try:
                return self._take(worker_id)
            except FileNotFoundError:  # somebody has cleaned up, or swept between the making and the holding
                self._forget()
            except OSError as error:
                self._gave_up(error)
                return None
        return None

    def _filled(self, group: Group, worker_id: str, leader: int) -> Group | None:
        """The group with the leader, or another one that is, where somebody has removed that."""
        filled: Group | None = group
        for _ in range(_TRIES):
            if filled is None:
                return None
            try:
                filled.add(leader)
                self._gather(filled, leader)
            except FileNotFoundError:
                self._forget()
                filled = self._taken(worker_id)
            except OSError as error:
                self._gave_up(error)
                filled.remove()
                return None
            else:
                return filled
        return None

    def _gave_up(self, error: OSError) -> None:
        self._usable = self._usable and error.errno in NO_ROOM

    def _gather(self, group: Group, leader: int) -> None:
        """Move what the leader had forked before it was moved; what is forked after that is in the group by itself."""
        seen = {leader}
        while strays := self._strays(seen):
            for pid in strays:
                seen.add(pid)
                with contextlib.suppress(OSError):  # of another user by now
                    group.add(pid)

    def _strays(self, seen: set[int]) -> list[int]:
        if self._own is None:
            return [pid for parent in seen for pid in _children(parent) if pid not in seen]
        return [pid for pid in self._own.pids().difference(seen, (os.getpid(),)) if _has_left_session(pid)]

    def _take(self, worker_id: str) -> Group | None:
        with self._lock:
            if not self._usable:
                return None
            if self._free:
                return self._free.pop()
            if self._directory is None:
                parent = cgroupfs.own()
                if parent is None:
                    self._usable = False
                    return None
                self._make(outside(parent), worker_id)
            group = Group(f"{self._directory}/{next(self._numbers)}")
            os.mkdir(group.path)
            return group

    def _make(self, parent: str, worker_id: str) -> None:
        sweep(parent)
        directory = os.path.join(parent, PREFIX + worker_id)
        self._descriptor = _make_held(directory)
        self._directory = directory
        if self._moves:
            own = Group(f"{directory}/{WORKER}")
            os.mkdir(own.path)
            own.add(os.getpid())
            self._own = own

    def _forget(self) -> None:
        with self._lock:
            for group in (*self._free, *(() if self._own is None else (self._own,))):
                group.remove()
            self._free.clear()
            self._own = None
            if self._directory is not None:
                with contextlib.suppress(OSError):
                    os.rmdir(self._directory)
                os.close(self._descriptor)
                self._directory = None


def sweep(parent: str) -> None:
    """Remove the empty directories of dead workers below the cgroup directory `parent`."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if is_workers(name):
                with contextlib.suppress(OSError):
                    _remove_unless_held(os.path.join(parent, name))


def _remove_unless_held(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Group(directory).remove()
    finally:
        os.close(descriptor)


def _make_held(directory: str) -> int:
    """Make a directory, or take the one that stands there, and lock it; the descriptor that does."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # another worker that sweeps has it for a moment at most
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended, or the system does not tell
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _has_left_session(pid: int) -> bool:
    """Whether a process is of another session than this one: what others start here is not, or is on its own."""
    found = processes.process(pid)
    return found is not None and not found.dead and found.session != os.getsid(0)
