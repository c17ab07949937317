"""How fast a job may print, and what that costs: through one worker, beside the same bytes through `cat`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import queues
from measuring import figure, in_turn, row, seconds

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Bench, Row

MB, GB = 10**6, 10**9
LIMIT = 10 << 20  # bytes; the default of output-limit
SIZE = GB
COMMANDS = {"zeros": "head -c {} /dev/zero", "yes": "yes | head -c {}"}


@dataclass(frozen=True)
class Measured:
    """What one job's output took.

    Attributes:
        seconds: from its start to its end, by its record.
        memory: the worker's peak, in bytes.
        disk: what is on disk in the end, in bytes.
    """

    seconds: float
    memory: int
    disk: int


def rows(bench: Bench) -> Iterator[Row]:
    """MB a second of either kind, then memory and disk at their worst."""
    size = bench.size(SIZE, SIZE // 10)
    rounds = bench.rounds(3)
    worst: list[Measured] = []
    for name, form in COMMANDS.items():
        command = form.format(size)

        def ours(command: str = command) -> float:
            worst.append(through_worker(bench, command))
            return size / MB / worst[-1].seconds

        taken = in_turn({"jobq": ours, "cat": lambda command=command: size / MB / through_cat(command)}, rounds)
        yield row(
            f"output.{name}",
            f"a command that prints {size / GB:g} GB of {name}",
            taken["jobq"],
            unit="MB/s",
            better="higher",
            floor="the same | cat",
            beside=taken["cat"],
            target=figure(200),
            settings={"bytes": size, "rounds": rounds, "output-limit": LIMIT},
        )
    settings = {"bytes": size, "output-limit": LIMIT}
    memory = [one.memory / MB for one in worst]
    common = {"better": "lower", "of": max, "settings": settings}
    yield row("output.memory", "peak of the worker meanwhile", memory, unit="MB", target=figure(100), **common)
    disk = [(one.disk - LIMIT) / (1 << 20) for one in worst]
    yield row("output.disk", "on disk beyond output-limit", disk, unit="MiB", target=figure(1), **common)


def through_cat(command: str) -> float:
    """Seconds that the bytes take through a pipe to somebody who does nothing with them."""
    return seconds(subprocess.run, ["/bin/sh", "-c", f"({command}) | cat > /dev/null"], check=True)


def through_worker(bench: Bench, command: str) -> Measured:
    """What a job that prints so much takes in a worker of its own."""
    home = queues.new_home(bench.new("output"), **{"output-limit": str(LIMIT)})
    with queues.Worker(home) as worker, Queue.open(home=home) as queue:
        (job,) = queue.wait([queue.enqueue(command=command).id], timeout=300)
        memory = peak(worker.pid)
    assert job.state == "completed"
    assert job.started_at is not None
    assert job.finished_at is not None
    files = [path.stat() for path in (home / "output").rglob("*") if path.is_file()]
    disk = sum(facts.st_blocks * 512 for facts in files)
    return Measured((job.finished_at - job.started_at).total_seconds(), memory, disk)


def peak(pid: int) -> int:
    """The most memory that a process ever held, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not tell VmHWM")
