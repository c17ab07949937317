"""A backoff that never grows: after every failure the same wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from jobq import Backoff, Option

if TYPE_CHECKING:
    from jobq import Outcome, Settings
    from jobq.clock import Random

WAIT = Option(
    name="fixed.wait",
    kind="duration",
    default=timedelta(seconds=10),
    live=True,
    help="The wait after every failure, with backoff = fixed.",
)


class Fixed(Backoff):
    """Answers with the setting `fixed.wait`, as it is at each failure."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def delay(self, *, attempt: int, outcome: Outcome, random: Random) -> timedelta:
        wait: timedelta = self._settings[WAIT.name]
        return wait
