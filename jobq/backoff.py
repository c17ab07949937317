"""The backoff's interface, and the default formula.

The formula stands in the kernel because a backoff plugin that fails must not cost a job: it is what is used then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobq.clock import Random
    from jobq.executor import Outcome


class Backoff(ABC):
    """Chooses the wait between a failed attempt and the next one."""

    @abstractmethod
    def delay(self, *, attempt: int, outcome: Outcome, random: Random) -> timedelta | None:
        """The wait after failure number `attempt` (from 1), not negative; None gives up: the job becomes dead.

        A pure function of its arguments and the settings. It is not asked when the attempts are used up.
        """


def exponential(
    *, attempt: int, initial: timedelta, base: float, cap: timedelta, jitter: bool, random: Random
) -> timedelta:
    """`min(cap, initial * base ** (attempt - 1))`; with jitter half of that and a random part of the other half.

    "Equal jitter" of Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. The number of the
    attempt may be of any size: the result is at most the cap, never an overflow.
    """
    try:
        seconds = min(cap.total_seconds(), initial.total_seconds() * base ** (attempt - 1))
    except OverflowError:
        seconds = cap.total_seconds()
    if jitter:
        seconds = seconds / 2 + seconds / 2 * random.random()
    return timedelta(seconds=seconds)
