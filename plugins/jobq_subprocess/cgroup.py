"""A cgroup (v2) and everything in it: nothing that a job starts leaves it, and all of it is killed at one stroke.

Those of a worker and its attempts stand in a directory `jobq-WORKERID` below the cgroup that the worker was started in
(`jobq_subprocess.groups` makes them); what a dead worker has left is found by that name.
"""

from __future__ import annotations

import contextlib
import os
import re
from functools import partial
from typing import TYPE_CHECKING

from jobq import processes
from jobq_subprocess import cgroupfs
from jobq_subprocess.outcomes import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Collection

    from jobq.processes import Process

PREFIX = "jobq-"
"""The name of a worker's directory is this and the worker's id."""
WORKER = "worker"
"""The name of the one below it that the worker itself is in."""
_NAME = re.compile(PREFIX + "[a-z2-7]{16}")
_BELOW = re.compile(rf"/{_NAME.pattern}(?=/|$).*")

END_WAIT = 2.0
"""Seconds that `recover` waits for what it has killed."""


class Group:
    """A cgroup that exists, and what stands below it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def add(self, pid: int) -> None:
        """Move a process into it; one that has ended is passed over.

        Raises:
            OSError: it cannot be moved.
        """
        with contextlib.suppress(ProcessLookupError):
            _write(self.path, "cgroup.procs", b"%d" % pid)

    def pids(self) -> set[int]:
        """Who lives in it, as far as this process can see them.

        Raises:
            OSError: this machine has no room to look.
        """
        found: set[int] = set()
        for directory in self._directories():
            try:
                found.update(map(int, _read(directory, "cgroup.procs").split()))
            except OSError as error:
                _unless_short(error)
        found.discard(0)  # what stands for all that live in another namespace
        return found

    def members(self, spared: Collection[int] = ()) -> list[Process]:
        """Its living processes but for the spared. Each was in it after it was looked at: its identity is no stranger's.

        Raises:
            OSError: this machine has no room to look.
        """
        seen = [processes.process(pid) for pid in self.pids().difference(spared)]
        still = self.pids() if seen else ()
        return [found for found in seen if found is not None and not found.dead and found.pid in still]

    def kill(self) -> None:
        """Kill everything in it at once, where the system can (Linux 5.14)."""
        with contextlib.suppress(OSError):
            _write(self.path, "cgroup.kill", b"1")

    @property
    def is_clean(self) -> bool:
        """Whether it is as it was made: nobody is in it, nothing stands below it, and it stops nobody."""
        try:
            events = _read(self.path, "cgroup.events").splitlines()
            return b"populated 0" in events and b"frozen 1" not in events and not self._is_parent
        except OSError:
            return False

    def remove(self) -> None:
        """Remove it and what stands below it, as far as nobody is there."""
        with contextlib.suppress(OSError):
            for directory in reversed(self._directories()):
                os.rmdir(directory)

    @property
    def _is_parent(self) -> bool:
        return os.stat(self.path).st_nlink > 2

    def _directories(self) -> list[str]:
        """Its own directory and those below, each after the one it is in."""
        try:
            if not self._is_parent:
                return [self.path]
        except OSError as error:
            _unless_short(error)
            return []
        return [directory for directory, _, _ in os.walk(self.path, onerror=_unless_short)]


def leave() -> None:
    """Move this process out of all that a worker has made, so that it does not end with that; it may have to stay."""
    with contextlib.suppress(OSError):
        directory = cgroupfs.own() or ""
        if (above := outside(directory)) != directory:
            _write(above, "cgroup.procs", b"0")


def outside(directory: str) -> str:
    """Where a cgroup's directory would be if no worker had made any."""
    return _BELOW.sub("", directory)


def is_workers(name: str) -> bool:
    """Whether a directory of this name is one that a worker has made."""
    return _NAME.fullmatch(name) is not None


def recover(worker_id: str) -> list[int]:
    """Kill what a dead worker's attempts have left in its cgroups, and remove those.

    This process and its ancestors are spared. May be called again, also by several at once.

    Returns:
        The pids of what has not ended within `END_WAIT` seconds.

    Raises:
        OSError: this machine has no room to look.
    """
    spared = processes.ancestors(os.getpid())
    left: list[int] = []
    for directory in _find(PREFIX + worker_id):
        group = Group(directory)
        if spared.isdisjoint(group.pids()):
            group.kill()
        alive = processes.kill_all(partial(group.members, spared), seconds=END_WAIT)
        left += [found.pid for found in alive]
        group.remove()
    return left


def _find(name: str) -> list[str]:
    """Every directory of this name in the unified hierarchy."""
    return [
        os.path.join(directory, name)
        for point in cgroupfs.points()
        for directory, below, _ in os.walk(point, onerror=_unless_short)
        if name in below
    ]


def _read(directory: str, name: str) -> bytes:
    descriptor = os.open(f"{directory}/{name}", os.O_RDONLY)
    try:
        pieces = []
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _write(directory: str, name: str, value: bytes) -> None:
    descriptor = os.open(f"{directory}/{name}", os.O_WRONLY)
    try:
        os.write(descriptor, value)
    finally:
        os.close(descriptor)


def _unless_short(error: OSError) -> None:
    """Raise `error` where it tells of this machine and not of the cgroup: out of descriptors or memory."""
    if error.errno in NO_ROOM:
        raise error
