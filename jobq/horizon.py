"""How far ahead a worker looks that is to end when nothing is left, and what it says of the wait."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobq.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Clock

SOON = timedelta(hours=24)
SHORT = timedelta(minutes=1)
"""A wait of which nothing is said."""


class Horizon:
    """Which due times keep a worker that is to end when nothing is left.

    Args:
        until: `empty`: those within 24 hours; else only those that have come.
        note: hears once of each moment that is waited for, where it is more than a minute away.
    """

    def __init__(self, until: str | None, clock: Clock, note: Callable[[str], None]) -> None:
        self._reach = SOON if until == "empty" else timedelta(0)
        self._clock, self._note = clock, note
        self._told: datetime | None = None

    def waits_for(self, due: datetime | None) -> bool:
        """Whether the worker stays for what is due then; None stands for nothing."""
        if due is None:
            return False
        wait = due - self._clock.now()
        if wait > self._reach:
            return False
        if wait > SHORT and due != self._told:
            self._told = due
            moment = due.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            self._note(f"waiting for the next job that is due: at {moment}, in {format_duration(wait)}")
        return True
