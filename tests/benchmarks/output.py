"""How fast a job may print, and what that costs: through one real worker, beside the same bytes through `cat`.

Run by hand: `python tests/benchmarks/output.py [--small]`. Prints a table; ratios are of the same run. To keep:
200 MB/s, less than 100 MB of memory, no more on disk than `output-limit` and 1 MiB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MB, GB = 10**6, 10**9
LIMIT = 10 << 20  # the default of output-limit
ROUNDS = 3


@dataclass(frozen=True)
class Measured:
    """What one job's output took: seconds, the worker's peak of memory and what is on disk in the end (bytes)."""

    seconds: float
    memory: int
    disk: int


def main() -> None:
    small = "--small" in sys.argv[1:]
    size, most = (GB // 2, GB) if small else (2 * GB, 10 * GB)
    print(f"{'what':44} {'MB/s':>8} {'ratio':>7} {'memory':>8} {'disk':>10}")
    for name, line in {"zeros": "head -c {} /dev/zero", "yes": "yes | head -c {}"}.items():
        command = line.format(size)
        floors, ours = [], []
        for _ in range(ROUNDS):
            floors.append(through_cat(command))
            ours.append(through_worker(command))
        floor = size / MB / median(floors)
        told(f"{size / GB:g} GB of {name} | cat", floor)
        rate = size / MB / median([one.seconds for one in ours])
        told(f"{size / GB:g} GB of {name}, jobq", rate, rate / floor, ours[-1])
    one = through_worker(f"yes | head -c {most}")
    told(f"{most / GB:g} GB of yes, jobq", most / MB / one.seconds, None, one)
    print(f"output-limit {LIMIT / MB:.2f} MB; on disk {(one.disk - LIMIT) / (1 << 20):+.3f} MiB against it")


def told(what: str, rate: float, ratio: float | None = None, one: Measured | None = None) -> None:
    """Print one line of the table."""
    beside = "" if ratio is None else f"{ratio:.2f}"
    cost = "" if one is None else f" {one.memory / MB:5.0f} MB {one.disk / MB:7.2f} MB"
    print(f"{what:44} {rate:8.0f} {beside:>7}{cost}", flush=True)


def through_cat(command: str) -> float:
    """Seconds that the bytes take through a pipe to somebody who does nothing with them."""
    start = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", f"({command}) | cat > /dev/null"], check=True)
    return time.perf_counter() - start


def through_worker(command: str) -> Measured:
    """What a job that prints so much takes in a worker of its own."""
    from jobq import Queue

    with tempfile.TemporaryDirectory(prefix="jobq-bench-") as directory:
        home = Path(directory) / "home"
        jobq = [sys.executable, "-m", "jobq", "--home", str(home), "--quiet"]
        with Queue.open(home=home) as queue:
            job = queue.enqueue(command=command)
        environ = {**os.environ, "PYTHONSAFEPATH": "1", "JOBQ_OUTPUT_LIMIT": str(LIMIT)}
        worker = subprocess.Popen([*jobq, "worker", "start"], env=environ, stdout=subprocess.DEVNULL)
        try:
            with Queue.open(home=home) as queue:
                (job,) = queue.wait([job.id])
            memory = peak(worker.pid)
        finally:
            worker.terminate()
            worker.wait()
        assert job.state == "completed"
        assert job.started_at is not None
        assert job.finished_at is not None
        files = [path.stat() for path in (home / "output").rglob("*") if path.is_file()]
        disk = sum(facts.st_blocks * 512 for facts in files)
        return Measured((job.finished_at - job.started_at).total_seconds(), memory, disk)


def peak(pid: int) -> int:
    """The most memory that a process ever held, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not tell VmHWM")


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
