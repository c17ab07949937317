"""The backoff's interface, and the default formula.

The formula stands in the kernel because a backoff plugin that fails must not cost a job: it is what is used then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from jobq.errors import described
from jobq.times import MAX_DURATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Random
    from jobq.executor import Outcome
    from jobq.settings import Settings


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
        seconds = cap.total_seconds() if initial else 0.0
    if jitter:
        seconds = seconds / 2 + seconds / 2 * random.random()
    return timedelta(seconds=seconds)


def by_settings(settings: Settings, *, attempt: int, random: Random) -> timedelta:
    """The default formula with what the settings `backoff-…` say now."""
    return exponential(
        attempt=attempt,
        initial=settings["backoff-initial"],
        base=settings["backoff-base"],
        cap=settings["backoff-cap"],
        jitter=settings["backoff-jitter"],
        random=random,
    )


def guarded(
    backoff: Backoff, name: str, settings: Settings, random: Random, warn: Callable[[str], None]
) -> Callable[[int, Outcome], timedelta | None]:
    """Ask `backoff` for each wait; where it raises or answers nonsense, say so by `name` and use the default formula."""

    def delay(attempt: int, outcome: Outcome) -> timedelta | None:
        try:
            wait: object = backoff.delay(attempt=attempt, outcome=outcome, random=random)
            if wait is None or (isinstance(wait, timedelta) and timedelta() <= wait <= MAX_DURATION):
                return wait
            answer = repr(wait)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # one that exits must not take the worker along
            warn(f"backoff {name} failed: {described(error)}; the default formula is used instead")
        else:
            warn(f"backoff {name} answered {answer}; the default formula is used instead")
        return by_settings(settings, attempt=attempt, random=random)

    return delay
