"""Time and chance that do as they are told."""

from __future__ import annotations

import select
import threading
from datetime import datetime, timedelta

from jobq.clock import Clock, Wake
from jobq.times import floor_ms

START = datetime.fromisoformat("2026-07-11T20:57:58.316+00:00")
"""The instant at which a `FakeClock` begins."""


HELD_SECONDS = 30.0
"""How long, of real time, a held wait lasts at most: then nobody is there to let time go by."""


class FakeClock(Clock):
    """A clock that stands still but for `advance`, `step` and `wait`.

    Args:
        start: the wall clock at first (aware UTC); `monotonic` begins at 0.
        held: a `wait` does not let its time go by itself but lasts until `advance`, called by another thread, has.

    Attributes:
        waiting: how many threads are in a held `wait`.
    """

    def __init__(self, start: datetime = START, *, held: bool = False) -> None:
        self._wall = start
        self._monotonic = 0.0
        self._held = held
        self._lock = threading.Lock()
        self._waiters: set[Wake] = set()

    @property
    def waiting(self) -> int:
        return len(self._waiters)

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
        with self._lock:
            self._wall += timedelta(seconds=seconds)
            self._monotonic += seconds
            for waiter in self._waiters:
                waiter.ring()
        return self.now()

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back where negative, as a person or NTP does; `monotonic` stays."""
        self._wall += timedelta(seconds=seconds)

    def wait(self, wake: Wake, seconds: float | None) -> bool:
        """Return at once: True if `wake` rings already, else False with `seconds` gone by.

        A clock that is held returns when `wake` rings (True) or when `advance` has let the time go by (False).

        Raises:
            AssertionError: nothing rings and no end was given: the caller would wait for ever. Of a clock that is
                held: nobody has let the time go by within `HELD_SECONDS` of real time.
        """
        if wake.clear():
            return True
        if self._held:
            return self._wait_for_others(wake, seconds)
        if seconds is None:
            raise AssertionError("would wait for ever: nothing rings and there is no end to the wait")
        self.advance(max(0.0, seconds))
        return False

    def _wait_for_others(self, wake: Wake, seconds: float | None) -> bool:
        end = None if seconds is None else self._monotonic + seconds
        with Wake() as moved:
            poll = select.poll()
            for bell in (wake, moved):
                poll.register(bell.fileno(), select.POLLIN)
            with self._lock:
                self._waiters.add(moved)
            try:
                while end is None or self._monotonic < end:
                    if not poll.poll(HELD_SECONDS * 1000):
                        raise AssertionError(f"nothing rang, and nobody let time go by, for {HELD_SECONDS:g} s")
                    moved.clear()
                    if wake.clear():
                        return True
                return False
            finally:
                with self._lock:
                    self._waiters.discard(moved)


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
