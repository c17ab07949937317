"""Deletes ended jobs that were kept long enough, together with their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import output
from jobq.job import State

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from jobq.settings import Settings
    from jobq.store import Store

BATCH = 1000
_KEPT = {State.COMPLETED: "keep-completed", State.CANCELLED: "keep-cancelled"}


def prune(store: Store, home: Path, states: frozenset[State], before: datetime) -> int:
    """Delete the jobs in these states that last changed before then, and their output; how many."""
    pruned = 0
    while ids := store.prune(states=states, before=before, limit=BATCH):
        for job_id in ids:
            output.remove(home, job_id)
        pruned += len(ids)
    return pruned


def prune_by_settings(store: Store, home: Path, settings: Settings, now: datetime) -> None:
    """Delete what the settings no longer keep."""
    for state, key in _KEPT.items():
        if settings[key] is not None:
            prune(store, home, frozenset({state}), now - settings[key])
