"""Jobs a second through one real worker, at full durability, beside what the machine can do.

Run by hand: `python tests/benchmarks/throughput.py`. Prints a table; ratios are of the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = 1_000
HANDLERS = 10_000
ROUNDS = 3
MODULE = "def nothing(job, context):\n    return None\n"


def main() -> None:
    print(f"{'what':44} {'jobs/s':>10} {'ratio':>7}")
    floors, ours = [], []
    for _ in range(ROUNDS):
        floors.append(COMMANDS / xargs())
        ours.append(COMMANDS / run([{"command": "true"}] * COMMANDS, count=2))
    floor, own = median(floors), median(ours)
    print(f"{f'xargs -P2, {COMMANDS} x sh -c true':44} {floor:10.0f}")
    print(f"{f'jobq, {COMMANDS} x true, --count 2':44} {own:10.0f} {own / floor:7.2f}")
    handlers = median([HANDLERS / run([{"handler": "nothing"}] * HANDLERS, count=16) for _ in range(ROUNDS)])
    print(f"{f'jobq, {HANDLERS} handler jobs, --count 16':44} {handlers:10.0f}")


def xargs() -> float:
    """Seconds that xargs takes for as many shells, two at once."""
    numbers = "\n".join(map(str, range(COMMANDS)))
    start = time.perf_counter()
    subprocess.run(["xargs", "-P2", "-I{}", "sh", "-c", "true"], input=numbers, text=True, check=True)
    return time.perf_counter() - start


def run(specs: list[dict[str, object]], *, count: int) -> float:
    """Seconds from the first start of one of these jobs to the last end, as the jobs' own records have it."""
    from jobq import Queue

    with tempfile.TemporaryDirectory(prefix="jobq-bench-") as directory:
        home = Path(directory) / "home"
        home.mkdir(mode=0o700)
        (Path(directory) / "bench_handlers.py").write_text(MODULE)
        (home / "config.toml").write_text('handlers-path = ["."]\n[handlers]\nnothing = "bench_handlers:nothing"\n')
        with Queue.open(home=home) as queue:
            queue.enqueue_many(specs)
        command = [sys.executable, "-m", "jobq", "--home", str(home), "--quiet", "worker", "start", "--until-empty"]
        subprocess.run([*command, "-n", str(count)], check=True, env={**os.environ, "PYTHONSAFEPATH": "1"})
        with Queue.open(home=home) as queue:
            jobs = list(queue.find())
        assert len(jobs) == len(specs)
        assert all(job.state == "completed" for job in jobs)
        starts = [job.history[0].started for job in jobs]
        ends = [job.history[0].finished for job in jobs]
        return (max(ends) - min(start for start in starts if start is not None)).total_seconds()


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
