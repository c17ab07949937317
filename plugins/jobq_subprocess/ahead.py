"""Which jobs may be sent ahead to a child, and how many: as many as it finishes within `AHEAD_SECONDS`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.job import Job

AHEAD_SECONDS = 0.005
MOST_AHEAD = 32
TAKEN_BACK_AFTER = 0.05
"""Seconds after which a job that was sent ahead and has not begun is given back for others to run."""
LARGEST_PAYLOAD = 32 << 10
"""Bytes of JSON."""
SHORTEST_TIMEOUT = timedelta(seconds=1)

_WEIGHT = 1 / 8
C = TypeVar("C")


class Means:
    """How long each handler takes on the average: a mean in which each new run counts for an eighth."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def note(self, handler: str, seconds: float) -> None:
        """A run of this handler took so long."""
        mean = self._seconds.get(handler)
        self._seconds[handler] = seconds if mean is None else mean + (seconds - mean) * _WEIGHT

    def of(self, handler: str | None) -> float | None:
        """The mean of a handler, in seconds; None for one of which no run has ended yet."""
        return None if handler is None else self._seconds.get(handler)


@dataclass(slots=True)
class Room(Generic[C]):
    """What a child may still be sent: so many seconds of work, in so many jobs at most."""

    child: C
    seconds: float
    count: int


class Places(Generic[C]):
    """Fills the room that children have, one child after the other.

    Jobs that come one upon the other find their child awake; waking one costs as much as a short handler.

    Args:
        means: how long handlers take.
        rooms: of each child that something may be sent ahead to.
    """

    def __init__(self, means: Means, rooms: Iterable[Room[C]]) -> None:
        self._means = means
        self._rooms = [room for room in rooms if room.seconds > 0 and room.count > 0]
        self._taken: dict[str, C] = {}

    @property
    def most(self) -> int:
        """How many jobs there is room for, if they take no time."""
        return sum(room.count for room in self._rooms)

    def take(self, job: Job) -> bool:
        """Whether this job may be sent ahead; if so, it has a place from now on."""
        mean = self._means.of(job.handler)
        if mean is None or not self._rooms or not _is_fit(job):
            return False
        for room in self._rooms:
            if room.seconds >= mean:
                break
        else:
            return False
        room.seconds -= mean
        room.count -= 1
        if not room.count:
            self._rooms.remove(room)
        self._taken[job.id] = room.child
        return True

    def of(self, job: Job) -> C | None:
        """Where the job has its place; None where it has none."""
        return self._taken.get(job.id)


def _is_fit(job: Job) -> bool:
    if job.losses or (job.timeout is not None and job.timeout < SHORTEST_TIMEOUT):
        return False
    return not job.payload or len(json.dumps(job.payload, separators=(",", ":"))) <= LARGEST_PAYLOAD
