"""How a worker comes to its end: it drains, then its jobs are ended, as far as it was told to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.attempts import Attempts
    from jobq.clock import Clock
    from jobq.settings import Settings

DRAIN, NOW, KILL = 1, 2, 3
NOTE_SECONDS = 10.0


class Draining:
    """What was asked for, and how far it has come.

    Args:
        note: hears at once and then every 10 s what is waited for.

    Attributes:
        level: 0, or the highest of DRAIN, NOW and KILL that was asked for; set from any thread or signal handler.
        forced: running jobs had to be ended.
    """

    def __init__(self, clock: Clock, settings: Settings, note: Callable[[str], None]) -> None:
        self._clock, self._settings, self._note = clock, settings, note
        self._since: float | None = None
        self._noted = 0.0
        self._carried_out = 0
        self.level = 0
        self.forced = False

    def carry_on(self, attempts: Attempts, unrecorded: int) -> bool:
        """Do what is to be done now; True if the stop has just begun.

        Args:
            attempts: those under way.
            unrecorded: how many outcomes the store has not taken yet.
        """
        if not self.level:
            return False
        now = self._clock.monotonic()
        begun = self._since is None
        if self._since is None:
            self._since = self._noted = now
        grace = self._settings["stop-grace"]
        if self.level == DRAIN and grace is not None and now >= self._since + grace.total_seconds():
            self.level = NOW
        if self.level >= NOW and attempts:
            self.forced = True
            attempts.hand_back(self.level, self._settings["kill-grace"] if self.level == NOW else timedelta(0))
        if self.level > self._carried_out or now - self._noted >= NOTE_SECONDS:
            self._noted, self._carried_out = now, self.level
            self._tell(attempts, unrecorded)
        return begun

    def pause(self, now: float) -> float:
        """Seconds until `carry_on` has something to do again; without end before a stop."""
        if self._since is None:
            return float("inf")
        until = self._noted + NOTE_SECONDS
        grace = self._settings["stop-grace"]
        if grace is not None and self.level == DRAIN:
            until = min(until, self._since + grace.total_seconds())
        return until - now

    def _tell(self, attempts: Attempts, unrecorded: int) -> None:
        ids = attempts.ids
        jobs = f"{len(ids)} running job{'s' if len(ids) > 1 else ''} ({', '.join(ids[:5])})"
        if ids and self.level == DRAIN:
            self._note(f"stopping: finishing {jobs}; Ctrl-C again, or `jobq worker stop --now`, ends them")
        elif ids and self.level == NOW:
            self._note(f"stopping: ending {jobs}, to be handed back; a third Ctrl-C kills them")
        elif ids:
            self._note(f"stopping: killing {jobs}, to be handed back")
        elif unrecorded:
            self._note(f"stopping: waiting for the store to take {unrecorded} outcomes")
