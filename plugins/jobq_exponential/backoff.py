"""The backoff: jobq's own formula with the settings in force when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.backoff import Backoff, by_settings

if TYPE_CHECKING:
    from datetime import timedelta

    from jobq.clock import Random
    from jobq.executor import Outcome
    from jobq.settings import Settings


class ExponentialBackoff(Backoff):
    """`min(backoff-cap, backoff-initial * backoff-base ** (attempt - 1))`, by `backoff-jitter` half of it random."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def delay(self, *, attempt: int, outcome: Outcome, random: Random) -> timedelta:
        return by_settings(self._settings, attempt=attempt, random=random)
