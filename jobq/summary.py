"""What a worker did, when it is over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Summary:
    """Counts of how attempts ended.

    Attributes:
        completed, failed, dead, cancelled, snoozed, released: how many attempts ended so.
        discarded: runs whose outcome was refused, because somebody else had decided about the job.
        left: jobs that wait in its queues.
        forced: whether running jobs had to be ended for the stop.
    """

    completed: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    snoozed: int = 0
    released: int = 0
    discarded: int = 0
    left: int = 0
    forced: bool = False

    def count(self, how: str) -> None:
        """One more attempt ended so."""
        setattr(self, how, getattr(self, how) + 1)
