"""What is closed before this process forks, and opened again when it is used.

In a child, SQLite would believe that it holds the locks that its parent holds: it would not ask the system for them, and
others could take away what the child still reads, or the log that it still writes to.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What must not be open while this process forks."""

    def before_fork(self) -> None:
        """Close everything, and let nobody open it again before `after_fork`."""

    def after_fork(self) -> None:
        """Go on, as parent or as child."""


def close_for_forks(opened: Forked) -> None:
    """Have it closed before each fork, for as long as it is used at all."""
    _opened.add(opened)


_opened: weakref.WeakSet[Forked] = weakref.WeakSet()
_forking: list[Forked] = []


def _before() -> None:
    _forking.extend(_opened)
    for each in _forking:
        each.before_fork()


def _after() -> None:
    while _forking:
        _forking.pop().after_fork()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
