"""From the call that enqueues to the first line of the handler, in an idle worker that waits for its bell."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

import queues
from measuring import figure, percentile, row, until

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from measuring import Bench, Row

PAUSE = 0.02
SAMPLES, TURNS = 300, 3
IDLE = 2.0
IDLE_SAMPLES = 20
FLOOR = "a pipe that wakes another process"
MEDIAN = ("p50", partial(percentile, share=0.5), figure(1.0))
FIGURES = {
    "pickup": (MEDIAN, ("p99", partial(percentile, share=0.99), figure(3.0))),
    "pickup.idle": (MEDIAN, ("worst", max, figure(3.0))),
}


def rows(bench: Bench) -> Iterator[Row]:
    """With short pauses in between, and after longer ones; a pipe's wake-up likewise, in turn."""
    home = queues.new_home(bench.new("pickup"))
    stamps = home.parent / "stamps"
    with Echo() as echo, queues.Worker(home), Queue.open(home=home) as queue:
        picked = Pickup(queue, stamps)
        picked.sample(3, PAUSE)  # the child is started, and what is imported late is imported
        ours, floor = [], []
        per_turn = bench.size(SAMPLES, 30) // TURNS
        for _ in range(TURNS):
            ours += picked.sample(per_turn, PAUSE)
            floor += [echo.sample(PAUSE) for _ in range(per_turn)]
        yield from told("pickup", "enqueue to a handler's first line", ours, floor, PAUSE)
        ours, floor = [], []
        for _ in range(bench.size(IDLE_SAMPLES, 2)):
            floor.append(echo.sample(IDLE / 2))
            ours += picked.sample(1, IDLE / 2)
        yield from told("pickup.idle", "the same after 2 s of idling", ours, floor, IDLE)


def told(name: str, what: str, ours: list[float], floor: list[float], pause: float) -> Iterator[Row]:
    """The rows of one set of samples."""
    settings = {"samples": len(ours), "pause": f"{pause} s", "durability": "full"}
    common = {"unit": "ms", "better": "lower", "floor": FLOOR, "beside": floor, "settings": settings}
    for label, of, target in FIGURES[name]:
        yield row(f"{name}.{label}", f"{what}, {label}", ours, of=of, target=target, **common)


class Pickup:
    """Enqueues into a queue that a worker of another process serves.

    Args:
        stamps: the file in which the handlers leave when they began.
    """

    def __init__(self, queue: Queue, stamps: Path) -> None:
        self._queue, self._stamps = queue, stamps
        self._number = 0

    def sample(self, count: int, pause: float) -> list[float]:
        """Milliseconds from each call to its handler's first line; a pause before each."""
        asked = {}
        for _ in range(count):
            time.sleep(pause)
            self._number += 1
            payload = {"file": str(self._stamps), "number": self._number}
            asked[self._number] = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            self._queue.enqueue(handler="stamp", payload=payload)
        begun = until(lambda: (found := queues.read_stamps(self._stamps)).keys() >= asked.keys() and found)
        return [(begun[number][0] - moment) / 1e6 for number, moment in asked.items()]


class Echo:
    """A child that waits for a byte of a pipe and answers with the moment at which it had it."""

    def __enter__(self) -> Self:
        (here, its_answers), (its_requests, there) = os.pipe(), os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(there)
                while os.read(its_requests, 1):
                    os.write(its_answers, b"%20d" % time.clock_gettime_ns(time.CLOCK_MONOTONIC))
            finally:
                os._exit(0)
        os.close(its_answers)
        os.close(its_requests)
        self._here, self._there = here, there
        return self

    def sample(self, pause: float) -> float:
        """Milliseconds from here to there, after a pause."""
        time.sleep(pause)
        asked = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.write(self._there, b"!")
        return (int(os.read(self._here, 20)) - asked) / 1e6

    def __exit__(self, *error: object) -> None:
        os.close(self._there)
        os.close(self._here)
        os.waitpid(self._child, 0)
