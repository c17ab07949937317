"""The processes that this one has adopted as child subreaper: whether there are any, and reaping them.

Children that other parts of this process have started look the same to the kernel. Those are never touched: one is
reaped only if it is known to be of an attempt (by its session, or because it was seen alive in an attempt's tree), or
if it has led a session of its own and lain dead for `UNCLAIMED` seconds without anybody asking for it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from jobq import processes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.processes import Process

UNCLAIMED = 5.0
_FEW = 1024  # of so many it is not asked whether they still are


class Orphans:
    """What this process has adopted. Used from several threads.

    Attributes:
        adopting: whether it is a child subreaper and the system lists its children.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        # Orphans come to the first thread, and what this package starts is started in others
        self._list = f"/proc/self/task/{self._pid}/children"
        self.adopting = os.path.exists(self._list) and processes.is_subreaper()
        self._session = os.getsid(0)
        self._sessions: set[int] = set()
        self._known: set[tuple[int, int]] = set()
        self._full = _FEW
        self._dead_since: dict[tuple[int, int], float] = {}
        self._lock = threading.Lock()

    def enter(self, session: int) -> None:
        """An attempt's session has begun."""
        self._sessions.add(session)

    def leave(self, session: int) -> None:
        """An attempt's session is over, and nothing is left of it."""
        self._sessions.discard(session)

    def remember(self, members: Iterable[Process]) -> None:
        """Living processes of attempts, which may become orphans and die."""
        if self.adopting:
            with self._lock:
                self._known.update(member.identity for member in members)

    def none(self) -> bool:
        """Whether it is certain that this process has adopted nobody who lives (and has no child of others)."""
        try:
            if not self.pids():
                return True
            self.reap()
            return not self.pids()
        except OSError:
            return False

    def reap(self) -> None:
        """Reap adopted processes of attempts that have died, or leave it for later where they cannot be seen."""
        if not self.adopting:
            return
        with self._lock:
            try:
                pids = self.pids()
            except OSError:
                return
            self._forget_all_but(pids)
            for pid in pids:
                found = processes.process(pid)
                if found is not None and found.dead and found.parent == self._pid and self._is_ours(found):
                    try:
                        os.waitpid(pid, os.WNOHANG)
                    except ChildProcessError:
                        continue

    def _forget_all_but(self, pids: list[int]) -> None:
        """Forget the dead: of those that lay here who is gone, of those that were seen alive who lives no more."""
        if not pids:
            self._known.clear()
        elif len(self._known) >= self._full:
            self._known = {known for known in self._known if _is_there(known)}
            self._full = max(_FEW, 2 * len(self._known))
        if self._dead_since:
            lying = set(pids)
            self._dead_since = {known: since for known, since in self._dead_since.items() if known[0] in lying}

    def _is_ours(self, dead: Process) -> bool:
        if dead.session in self._sessions or dead.identity in self._known:
            return True
        if dead.session == self._session:
            return False
        now = time.monotonic()
        return now - self._dead_since.setdefault(dead.identity, now) >= UNCLAIMED

    def pids(self) -> list[int]:
        """The children of the first thread: what was adopted, and what others have started there.

        Raises:
            OSError: they cannot be looked at.
        """
        if not self.adopting:
            return []
        with open(self._list, "rb") as file:
            return [int(pid) for pid in file.read().split()]


def _is_there(identity: tuple[int, int]) -> bool:
    found = processes.process(identity[0])
    return found is not None and found.identity == identity
