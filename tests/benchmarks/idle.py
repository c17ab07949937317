"""What a worker costs that has nothing to do: CPU, and memory when it is fresh and when it has done very much."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import queues
from measuring import environ, figure, row, until

from jobq import Queue
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from measuring import Bench, Row

WATCHED = 20.0
JOBS = 100_000
LEFT = (State.PENDING, State.PROCESSING, State.FAILED)
BARE = "python, waiting for its stdin"


def rows(bench: Bench) -> Iterator[Row]:
    """One worker from its start to after very many jobs, beside an interpreter that waits as well."""
    home = queues.new_home(bench.new("idle"))
    jobs, watched = bench.size(JOBS, JOBS // 50), WATCHED / bench.size(1, 10)
    with Waiting() as bare, queues.Worker(home, count=2) as worker, Queue.open(home=home) as queue:

        def megabytes(name: str, what: str, pid: int, bound: float) -> Row:
            beside = {"floor": BARE, "beside": [proportional(bare.pid)], "target": figure(bound)}
            settings = {"count": 2, "jobs before": done}
            return row(name, what, [proportional(pid)], unit="MB", better="lower", settings=settings, **beside)

        done = 0
        until(lambda: resting(worker.pid), within=60, every=0.1)
        yield megabytes("idle.memory", "PSS of a worker that has run nothing", worker.pid, 22)
        done = 2
        finish(queue, done)
        until(lambda: resting(worker.pid), within=60, every=0.1)
        before = used(worker.pid)
        time.sleep(watched)
        yield row(
            "idle.cpu",
            f"CPU of an idle worker and its children in {watched:g} s",
            [used(worker.pid) - before],
            unit="s",
            better="lower",
            target=figure(0.02),
            settings={"count": 2, "children": len(children(worker.pid))},
        )
        done = jobs
        finish(queue, done)
        until(lambda: resting(worker.pid), within=60, every=0.1)
        yield megabytes("idle.memory.after", f"PSS of a worker after {done:,} handlers", worker.pid, 45)
        child = max(children(worker.pid), key=proportional)
        yield megabytes("idle.memory.child", f"PSS of a warm child after {done:,} handlers", child, 10)


def finish(queue: Queue, count: int) -> None:
    """Enqueue so many handlers, and see them done."""
    queue.enqueue_many([{"handler": "nothing"}] * count)
    until(lambda: not any(queue.counts().states[state] for state in LEFT), within=300, every=0.1)


class Waiting:
    """A Python process that does nothing.

    Attributes:
        pid: of it.
    """

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"]
        self._process = subprocess.Popen(command, env=environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.pid = self._process.pid
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()


def proportional(pid: int) -> float:
    """PSS, in MB: what is shared counts in equal parts for all that share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("this system does not tell Pss")


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text(encoding="ascii").split()]


def used(pid: int) -> float:
    """Seconds of CPU that the threads which a process has now, and its children's, have used, to the nanosecond."""
    own = sum(
        int(path.read_text(encoding="ascii").split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )
    return own / 1e9 + sum(used(child) for child in children(pid))


def resting(pid: int) -> bool:
    """Whether a process used hardly any CPU in the last second: what follows a start or many jobs is over."""
    before = used(pid)
    time.sleep(1)
    return used(pid) - before < 0.005
