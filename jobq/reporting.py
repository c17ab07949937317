"""What a worker tells others of itself: only what is new, and at most once a second."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Clock
    from jobq.members import RunningJob, WorkerInfo

REPORT_SECONDS = 1.0
_NEVER = float("-inf")


class Reporting:
    """Keeps what is told, and when.

    Args:
        info: what is told at the start.
        note: hears of a report that fails, once in a row.

    Attributes:
        info: what others know.
    """

    def __init__(self, info: WorkerInfo, clock: Clock, note: Callable[[str], None]) -> None:
        self.info = info
        self._clock, self._note = clock, note
        self._news = False
        self._reported = _NEVER
        self._mute = False  # the latest report failed

    def changed(self, *, at_once: bool = False) -> None:
        """There is something to be told; `at_once`: it does not wait for its second."""
        self._news = True
        if at_once:
            self._reported = _NEVER

    @property
    def is_due(self) -> bool:
        """Whether there is something to be told now."""
        return self._news and self._clock.monotonic() - self._reported >= REPORT_SECONDS

    def pause(self, now: float) -> float:
        """Seconds until something is to be told; without end where nothing is."""
        return self._reported + REPORT_SECONDS - now if self._news else float("inf")

    def tell(self, report: Callable[[WorkerInfo], None], *, state: str, running: tuple[RunningJob, ...]) -> None:
        """Tell it with `report`. Where that fails others know less, and the work goes on."""
        now = self._clock.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported, self._news = now, False
        told = replace(self.info, state=state, running=running)
        if told == self.info:
            return
        try:
            report(told)
        except Exception as error:
            self._news = True
            if not self._mute:
                self._note(f"what this worker does cannot be told to others: {error}")
            self._mute = True
        else:
            self.info, self._mute = told, False
