"""How the queues stand: read from the store, as gauges."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from jobq.job import WAITING, State
from jobq.store import Query
from jobq_opentelemetry import names
from jobq_opentelemetry.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.metrics import CallbackOptions, Meter

    from jobq.queue import Queue

LOOKED_AT = 1000
"""The most waiting jobs of a queue that are looked at for the oldest, in the order in which they will be claimed."""

SHARE = 20
"""A reading that took so long serves for so many times as long: reading never takes more of the time than 1/SHARE."""

SHORTEST = 1.0
"""Seconds that any reading serves: the gauges of one collection show the same moment."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the queues stood.

    Attributes:
        jobs: their number by queue and state.
        oldest: for each queue that is not paused, the seconds for which the oldest of its due jobs has waited.
    """

    jobs: Mapping[tuple[str, State], int]
    oldest: Mapping[str, float]


class Depth:
    """Reads how the queues stand, not oftener than it should.

    Args:
        opened: gives the queue to read from; what it gives is left again at once.
        now: the time.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Queue]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._opened, self._now = opened, now
        self._labels = Labels()
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._until = 0.0
        self._closed = False

    def read(self) -> Reading:
        """How the queues stand, or stood when they were last read.

        Raises:
            JobqError: the store cannot be used.
        """
        with self._lock:
            began = time.monotonic()
            if self._reading is None or began >= self._until:
                with self._opened() as queue:
                    self._reading = self._read(queue)
                ended = time.monotonic()
                self._until = ended + max(SHORTEST, (ended - began) * SHARE)
            return self._reading

    def observe(self, meter: Meter) -> None:
        """Make gauges of it."""
        meter.create_observable_gauge(
            names.JOBS, [self._jobs], unit="{job}", description="Jobs in the store, by queue and state."
        )
        meter.create_observable_gauge(
            names.OLDEST,
            [self._oldest],
            unit="s",
            description="For how long the oldest job that could be claimed has waited; 0 where none does.",
        )

    def close(self) -> None:
        """Let the gauges show nothing from now on: in a process that ends no store can be opened any more."""
        self._closed = True

    def _jobs(self, options: CallbackOptions) -> Iterable[Observation]:
        if not self._closed:
            for (queue, state), number in self.read().jobs.items():
                yield Observation(number, {names.DESTINATION: queue, names.STATE: state.value})

    def _oldest(self, options: CallbackOptions) -> Iterable[Observation]:
        if not self._closed:
            for queue, seconds in self.read().oldest.items():
                yield Observation(seconds, {names.DESTINATION: queue})

    def _read(self, queue: Queue) -> Reading:
        counts = queue.counts()
        jobs: Counter[tuple[str, State]] = Counter()
        oldest: dict[str, float] = {}
        for name, states in counts.queues.items():
            label = self._labels.of(name)
            for state, number in states.items():
                jobs[label, state] += number
            if name not in counts.paused and label != names.OTHER:
                waiting = any(states[state] for state in WAITING)
                oldest[label] = self._oldest_wait(queue, name) if waiting else 0.0
        return Reading(jobs, oldest)

    def _oldest_wait(self, queue: Queue, name: str) -> float:
        """Seconds; jobs of one priority are found in the order of their times, so the first of each would do."""
        now = self._now()
        found = queue.find(Query(states=WAITING, queue=name, limit=LOOKED_AT))
        first = min((job.run_at for job in found), default=now)
        return max(0.0, (now - first).total_seconds())
