"""What is closed before this process forks, and opened again when it is used.

In a child, SQLite would believe that it holds the locks that its parent holds: it would not ask the system for them, and
others could take away what the child still reads, or the log that it still writes to.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """What must not be open while this process forks."""

    def before_fork(self) -> None:
        """Close everything, and let nobody open it again before `after_fork`; raises nothing."""

    def after_fork(self) -> None:
        """Go on, as parent or as child."""


def close_for_forks(opened: Forked) -> None:
    """Have it closed before each fork, for as long as it is used at all."""
    with _forks:
        _opened.add(opened)


_forks = threading.RLock()
"""Had by the thread that forks, from before until after: two that closed the same things in different orders would wait
for one another."""
_opened: weakref.WeakSet[Forked] = weakref.WeakSet()
_closed: list[list[Forked]] = []
"""For the fork under way what was closed; another list where a signal's handler forks in the middle of it."""


def _before() -> None:
    _forks.acquire()
    closed: list[Forked] = []
    _closed.append(closed)
    for each in list(_opened):
        each.before_fork()
        closed.append(each)


def _after() -> None:
    closed = _closed.pop()
    while closed:
        closed.pop().after_fork()
    _forks.release()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
