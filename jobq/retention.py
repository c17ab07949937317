"""Deletes ended jobs that were kept long enough, together with their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import output
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from jobq.clock import Clock
    from jobq.settings import Settings
    from jobq.store import Store

BATCH = 1000
LOOK_SECONDS = 600.0
_KEPT = {State.COMPLETED: "keep-completed", State.CANCELLED: "keep-cancelled"}


def prune(store: Store, home: Path, states: frozenset[State], before: datetime) -> int:
    """Delete the jobs in these states that last changed before then, and their output; how many."""
    return _deleted(store.prune, home, states, before)


def _deleted(delete: Callable[..., list[str]], home: Path, states: frozenset[State], before: datetime) -> int:
    pruned = 0
    while ids := delete(states=states, before=before, limit=BATCH):
        for job_id in ids:
            output.remove(home, job_id)
        pruned += len(ids)
    return pruned


class Retention:
    """Deletes, now and then, what the settings no longer keep.

    Args:
        clock: the wall clock says what is old, the monotonic one when to look again.
    """

    def __init__(self, home: Path, settings: Settings, clock: Clock) -> None:
        self._home, self._settings, self._clock = home, settings, clock
        self._looked = float("-inf")

    def poll(self, store: Store) -> None:
        """Delete it, if it was not looked for within the last `LOOK_SECONDS`."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for state, key in _KEPT.items():
            if self._settings[key] is not None:
                _deleted(store.expire, self._home, frozenset({state}), self._clock.now() - self._settings[key])
