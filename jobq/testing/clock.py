"""Time and chance that do as they are told."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobq.clock import Clock, Wake
from jobq.times import floor_ms

START = datetime.fromisoformat("2026-07-11T20:57:58.316+00:00")
"""The instant at which a `FakeClock` begins."""


class FakeClock(Clock):
    """A clock that stands still but for `advance`, `step` and `wait`.

    Args:
        start: the wall clock at first (aware UTC); `monotonic` begins at 0.
    """

    def __init__(self, start: datetime = START) -> None:
        self._wall = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return floor_ms(self._wall)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> datetime:
        """Let this many seconds go by on both clocks; the wall clock afterwards.

        Raises:
            ValueError: it is negative; time goes forward (see `step`).
        """
        if seconds < 0:
            raise ValueError(f"time goes forward, not by {seconds} s")
        self._wall += timedelta(seconds=seconds)
        self._monotonic += seconds
        return self.now()

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back where negative, as a person or NTP does; `monotonic` stays."""
        self._wall += timedelta(seconds=seconds)

    def wait(self, wake: Wake, seconds: float | None) -> bool:
        """Return at once: True if `wake` rings already, else False with `seconds` gone by.

        Raises:
            AssertionError: nothing rings and no end was given: the caller would wait for ever.
        """
        if wake.clear():
            return True
        if seconds is None:
            raise AssertionError("would wait for ever: nothing rings and there is no end to the wait")
        self.advance(max(0.0, seconds))
        return False


class FixedRandom:
    """Draws the given numbers in turn, the last one again and again.

    Args:
        numbers: in [0, 1); 0.5 where none is given.

    Raises:
        ValueError: one of them is out of that range.
    """

    def __init__(self, *numbers: float) -> None:
        if not all(0 <= number < 1 for number in numbers):
            raise ValueError(f"{numbers} are not all in [0, 1)")
        self._numbers = list(numbers) or [0.5]

    def random(self) -> float:
        """The next number."""
        return self._numbers.pop(0) if len(self._numbers) > 1 else self._numbers[0]
