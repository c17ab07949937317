"""What a worker does while its store refuses: it keeps what it knows, claims nothing, and asks again ever less often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Clock

FIRST_PAUSE, LAST_PAUSE = 0.1, 30.0


class StoreTrouble:
    """Whether the store refuses, since which error, and when it is asked again.

    Args:
        note: hears when it begins and when it is over.

    Attributes:
        error: the latest; None while the store works.
    """

    def __init__(self, clock: Clock, note: Callable[[str], None]) -> None:
        self._clock, self._note = clock, note
        self._pause = self._again = 0.0
        self.error: StoreError | None = None

    @property
    def resting(self) -> bool:
        """Whether it is too early to ask again."""
        return self.error is not None and self._clock.monotonic() < self._again

    def note(self, error: Exception) -> None:
        """The store has refused, or its plugin has failed; what fails while it rests puts nothing off."""
        told = error if isinstance(error, StoreError) else StoreUnavailable(f"{type(error).__name__}: {error}")
        resting, began = self.resting, self.error is None
        self.error = told
        if resting:
            return
        self._pause = FIRST_PAUSE if began else min(LAST_PAUSE, self._pause * 2)
        self._again = self._clock.monotonic() + self._pause
        if began:
            self._note(f"store trouble: {told}; claiming nothing, trying again")

    def over(self) -> bool:
        """The store has taken something; True if it had refused before."""
        if self.error is None:
            return False
        self.error = None
        self._note("the store works again")
        return True

    def pause(self, now: float) -> float:
        """Seconds until it is to be asked again; without end while it works."""
        return float("inf") if self.error is None else self._again - now
