"""A cgroup for each running attempt of a worker, where the system lets it make them; elsewhere attempts go without.

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
from jobq_subprocess.cgroup import PREFIX, Group
from jobq_subprocess.outcomes import NO_ROOM

if TYPE_CHECKING:
    from jobq_subprocess.orphans import Orphans

_TRIES = 10


class Groups:
    """The cgroups of a worker's attempts. Used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usable = True
        self._directory: str | None = None
        self._descriptor = -1
        self._numbers = itertools.count(1)
        self._free: list[Group] = []

    def hold(self, worker_id: str, leader: int, markers: tuple[bytes, ...], orphans: Orphans) -> Group | None:
        """A group with a process that was started just now and all that it has forked; None where that cannot be.

        Args:
            worker_id: of this worker.
            leader: the process: a child of this one that is not reaped meanwhile.
            markers: what tells its descendants from others that this process has adopted.
            orphans: what it has adopted.
        """
        for _ in range(_TRIES):
            group = None
            try:
                group = self._take(worker_id)
                if group is None:
                    return None
                group.add(leader)
            except FileNotFoundError:  # somebody has cleaned up, or swept between the making and the holding
                self._forget()
            except OSError as error:
                self._usable = self._usable and error.errno in NO_ROOM
                if group is not None:
                    group.remove()
                return None
            else:
                _gather(group, leader, markers, orphans)
                return group
        return None

    def release(self, group: Group) -> None:
        """An attempt is over: its group is there for the next one, unless something lives in it or has changed it."""
        if not group.is_clean:
            group.remove()
            return
        with self._lock:
            self._free.append(group)

    def close(self) -> None:
        """Remove what is empty. From now on attempts go without."""
        self._usable = False
        self._forget()

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
                sweep(parent)
                self._descriptor = _make_held(os.path.join(parent, PREFIX + worker_id))
                self._directory = os.path.join(parent, PREFIX + worker_id)
            group = Group(f"{self._directory}/{next(self._numbers)}")
            os.mkdir(group.path)
            return group

    def _forget(self) -> None:
        with self._lock:
            for group in self._free:
                group.remove()
            self._free.clear()
            if self._directory is not None:
                with contextlib.suppress(OSError):
                    os.rmdir(self._directory)
                os.close(self._descriptor)
                self._directory = None


def sweep(parent: str) -> None:
    """Remove the empty directories of dead workers below the cgroup directory `parent`."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
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


def _gather(group: Group, leader: int, markers: tuple[bytes, ...], orphans: Orphans) -> None:
    """Move what the leader had forked before it was moved; what is forked after that is in the group by itself."""
    seen = {leader}
    pending = [leader]
    while pending:
        found = _children(pending.pop())
        if not pending:
            found += _adopted(leader, markers, orphans)
        for pid in found:
            if pid not in seen:
                seen.add(pid)
                with contextlib.suppress(OSError):
                    group.add(pid)
                    pending.append(pid)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended, or the system does not tell
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _adopted(leader: int, markers: tuple[bytes, ...], orphans: Orphans) -> list[int]:
    """Marked processes that were let go of since the leader was started: their numbers are higher than its own."""
    with contextlib.suppress(OSError):
        return [pid for pid in orphans.pids() if pid > leader and processes.carries(pid, *markers)]
    return []
