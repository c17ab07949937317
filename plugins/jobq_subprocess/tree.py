"""The processes of one attempt: finding all of them, and ending them in two steps.

A process belongs to an attempt if it is in its cgroup, is of its leader's session, carries the attempt's marker in its
environment, writes to its output pipe (looked for among adopted processes only), or descends from one that does. Where
there are no cgroups, what leaves the session, is let go of, clears its environment and closes its output is not found.
The leader is not reaped before its tree is gone, so that its session's number belongs to nobody else meanwhile.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from jobq import processes
from jobq_subprocess.outcomes import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobq.processes import Process
    from jobq_subprocess.cgroup import Group
    from jobq_subprocess.orphans import Orphans

STUCK = 10.0
"""Seconds after KILL from which processes that are still there are told of, and those of other users left alone."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1


class Tree:
    """The processes of one attempt.

    Args:
        leader: the pid of its first process, which leads a session of its own and is not reaped.
        markers: the `NAME=value`s that all of them were started with.
        pipe: the inode number of the pipe that they print to.
        orphans: those that this process has adopted.
        spared: pids that belong to the tree and are not ended with it.
        group: the cgroup that they are in, or None.
    """

    def __init__(
        self,
        leader: int,
        markers: tuple[bytes, ...],
        orphans: Orphans,
        *,
        pipe: int,
        spared: Collection[int] = (),
        group: Group | None = None,
    ) -> None:
        self.leader = leader
        self._markers = markers
        self._pipe = pipe
        self._orphans = orphans
        self._spared = frozenset(spared)
        self._group = group
        self._known: set[tuple[int, int]] = set()  # one that is about to die has no environment any more

    def left(self) -> bool:
        """Whether anything may live of it, asked after the leader's end; costs next to nothing where nothing does."""
        try:
            if self.is_inhabited:
                return True
            if self._orphans.adopting and self._orphans.none():
                return False
            return bool(self.members())
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return True

    @property
    def is_inhabited(self) -> bool:
        """Whether anybody but the spared lives in its cgroup, where it has one. There, none slips through by forking.

        Raises:
            OSError: this machine has no room to look.
        """
        return self._group is not None and bool(self._group.pids().difference(self._spared))

    def members(self) -> list[Process]:
        """Every living process of it, the leader first, but for the spared.

        Raises:
            OSError: they cannot be looked for.
        """
        if not processes.visible():
            return []
        inside = {} if self._group is None else {found.pid: found for found in self._group.members()}
        everyone = {found.pid: found for found in processes.all_processes()} | inside
        children: dict[int, list[int]] = {}
        for found in everyone.values():
            children.setdefault(found.parent, []).append(found.pid)
        line = _line(os.getpid(), everyone)
        adopted = self._orphans.pids()
        orphans = {*adopted, *_descendants(*adopted, children=children)}
        if self._orphans.adopting:
            # The parent of one that is seen may be gone already, and so the line to this process be broken
            lost = [found.pid for found in everyone.values() if found.parent and found.parent not in everyone]
            suspects = {*lost, *_descendants(line[0], *lost, children=children)}
        else:
            suspects = set(everyone)
        since = everyone[self.leader].start_time if self.leader in everyone else 0
        certain = [
            found.pid
            for found in everyone.values()
            if found.pid in inside
            or self.leader in (found.session, found.pid)
            or found.identity in self._known
            or (found.pid in suspects and found.start_time >= since and not found.dead and self._is_marked(found.pid))
            or (found.pid in orphans and not found.dead and processes.writes_to(found.pid, self._pipe))
        ]
        members = {*certain, *_descendants(*certain, children=children)}.difference(self._spared, line)
        living = [everyone[pid] for pid in sorted(members) if not everyone[pid].dead]
        living.sort(key=self._is_follower)
        self._known.update(member.identity for member in living)
        self._orphans.remember(living)
        return living

    def kill(self) -> None:
        """Kill at one stroke what can be: those of its cgroup, unless some of them are spared."""
        if self._group is not None and not self._spared:
            self._group.kill()

    def _is_marked(self, pid: int) -> bool:
        return bool(self._markers) and processes.carries(pid, *self._markers)

    def _is_follower(self, found: Process) -> bool:
        return found.pid != self.leader

    def reap(self) -> None:
        """Reap what has died of it and was adopted by this process."""
        self._orphans.reap()


class Ladder:
    """TERM to every process of a tree, KILL to those that are there at `kill_at` (monotonic seconds)."""

    def __init__(
        self, tree: Tree, kill_at: float, *, monotonic: Callable[[], float], warn: Callable[[str], None]
    ) -> None:
        self.kill_at = kill_at
        self._tree = tree
        self._monotonic = monotonic
        self._warn = warn
        self._told: set[tuple[int, int]] = set()
        self._foreign: set[tuple[int, int]] = set()
        self._pause = _FIRST_PAUSE
        self._stuck = False

    def step(self) -> float | None:
        """Signal what has to be signalled now; seconds until the next step is due, or None: nothing is left."""
        try:
            # Asked twice: of a process that came while others were looked at, the first look may see nothing
            members = self._tree.members() or self._tree.members()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return self._until_next(self._monotonic())
        self._tree.reap()
        now = self._monotonic()
        stuck = now > self.kill_at + STUCK
        if stuck:
            members = self._give_up(members)
        if not members and (stuck or not self._tree.is_inhabited):
            return None
        if now >= self.kill_at:
            self._tree.kill()
        for member in members:
            if now >= self.kill_at:
                self._send(member, signal.SIGKILL)
            elif member.identity not in self._told and self._send(member, signal.SIGTERM):
                self._told.add(member.identity)
                self._send(member, signal.SIGCONT)  # a stopped process hears TERM only when it goes on
        return self._until_next(now)

    def _until_next(self, now: float) -> float:
        pause = self._pause
        self._pause = min(pause * 1.5, _LONGEST_PAUSE)
        return min(pause, self.kill_at - now) if now < self.kill_at else pause

    def _send(self, member: Process, number: signal.Signals) -> bool:
        """False where it has not arrived and is worth another try."""
        try:
            return processes.send(member, number)
        except PermissionError:
            self._foreign.add(member.identity)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return False
        return True

    def _give_up(self, members: list[Process]) -> list[Process]:
        if not self._stuck:
            self._stuck = True
            pids = ", ".join(str(member.pid) for member in members)
            if pids:
                self._warn(f"processes of a job do not end after KILL (pid {pids})")
        return [member for member in members if member.identity not in self._foreign]


def _line(pid: int, everyone: dict[int, Process]) -> list[int]:
    """`pid` and the pids of its ancestors."""
    line: list[int] = []
    while pid in everyone and pid not in line:
        line.append(pid)
        pid = everyone[pid].parent
    return line


def _descendants(*roots: int, children: dict[int, list[int]]) -> list[int]:
    """The pids below `roots`."""
    below: list[int] = []
    pending = list(roots)
    seen = set(roots)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in seen:
                seen.add(child)
                below.append(child)
                pending.append(child)
    return below
