"""What a command costs as a whole process, beside the imports that nobody can do without.

Run by hand: `python tests/benchmarks/startup.py [ROUNDS]`. The two of a pair run in turn, so that a machine that
slows down slows both; the ratio is the median over the pairs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = (
    ("jobq --version", ["--version"], "import click"),
    ("jobq enqueue", ["--quiet", "enqueue", '{"command": "true"}'], "import click, pluggy, filelock"),
    ("jobq status", ["--quiet", "status"], "import click, pluggy, filelock"),
)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    jobq = Path(sys.executable).with_name("jobq")
    with tempfile.TemporaryDirectory(prefix="jobq-bench-") as directory:
        environ = {**os.environ, "JOBQ_HOME": f"{directory}/home"}
        enqueue = [str(jobq), "--quiet", "enqueue", '{"command": "true"}']
        seconds(enqueue, environ)
        time.sleep(2.1)  # the cache is not made while a directory that it depends on changed just now
        seconds(enqueue, environ)
        print(f"{'command':20} {'ms':>8}   {'beside':34} {'ms':>8} {'ratio':>7}")
        for name, arguments, imports in PAIRS:
            ours, floor = [], []
            for _ in range(rounds):
                ours.append(seconds([str(jobq), *arguments], environ))
                floor.append(seconds([sys.executable, "-c", imports], environ))
            ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
            a, b = statistics.median(ours) * 1000, statistics.median(floor) * 1000
            print(f"{name:20} {a:8.1f}   {imports:34} {b:8.1f} {ratio:7.2f}")


def seconds(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
