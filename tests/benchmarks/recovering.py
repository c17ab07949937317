"""From the death of a worker in mid-job to the job's next run in another one."""

from __future__ import annotations

import os
import select
import signal
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import queues
from measuring import environ, figure, row, until

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from measuring import Bench, Row

DEATHS = 20


def rows(bench: Bench) -> Iterator[Row]:
    """SIGKILL of the worker that has the job, beside hearing of a process's death at all."""
    home = queues.new_home(bench.new("recovering"))
    stamps = home.parent / "stamps"
    ours, floor = [], []
    workers = [queues.Worker(home)]
    try:
        with Queue.open(home=home) as queue:
            for number in range(bench.size(DEATHS, 3)):
                ours.append(one(queue, home, stamps, number, workers))
                floor.append(death())
    finally:
        for worker in workers:
            worker.kill()
    for label, of in (("median", statistics.median), ("worst", max)):
        yield row(
            f"recovering.{label}",
            f"SIGKILL of a worker to the next run of its handler, {label} of {len(ours)}",
            ours,
            unit="ms",
            better="lower",
            floor="a pidfd that tells of a death",
            beside=floor,
            target=figure(500),
            settings={"workers": 2, "deaths": len(ours), "durability": "full"},
            of=of,
        )


def one(queue: Queue, home: Path, stamps: Path, number: int, workers: list[queues.Worker]) -> float:
    """Milliseconds of one recovery; the worker that is alone gets the job and dies, the other one stays.

    Args:
        workers: the one that is there; in the end the other one.
    """
    job = queue.enqueue(handler="stay", payload={"file": str(stamps), "number": number})
    until(lambda: number in queues.read_stamps(stamps), every=0.005)
    workers.append(queues.Worker(home))
    killed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    workers[0].kill()
    (done,) = queue.wait([job.id], timeout=60)
    assert (done.state, done.run) == ("completed", 2)
    del workers[0]
    return (queues.read_stamps(stamps)[number][1] - killed) / 1e6


def death() -> float:
    """Milliseconds from SIGKILL of a process to its pidfd's telling."""
    with subprocess.Popen([sys.executable, "-c", "input()"], env=environ(), stdin=subprocess.PIPE) as process:
        told = os.pidfd_open(process.pid)
        try:
            start = time.perf_counter()
            process.send_signal(signal.SIGKILL)
            select.select([told], [], [])
            return 1000 * (time.perf_counter() - start)
        finally:
            os.close(told)
