"""Homes of jobq, the handlers and workers in them, and what the jobs' own records tell afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import environ, until

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

JOBQ = Path(sys.executable).with_name("jobq")
HANDLERS = '''\
"""What the jobs of the benchmarks do."""

import os
import time


def nothing(job, context):
    """Return at once."""


def burn(job, context):
    """Take as many microseconds of CPU as the payload says."""
    end = time.thread_time_ns() + 1000 * job.payload
    while time.thread_time_ns() < end:
        pass


def stamp(job, context):
    """Append the moment, nanoseconds of the monotonic clock, to the file that the payload names."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    file = os.open(job.payload["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, b"%d %d\\n" % (job.payload["number"], now))
    os.close(file)


def stay(job, context):
    """As `stamp`; the first run then stays until it is killed, at most a minute."""
    stamp(job, context)
    if job.run == 1:
        time.sleep(60)
'''
NAMES = ("nothing", "burn", "stamp", "stay")


def new_home(directory: Path, **settings: str) -> Path:
    """A home in an empty directory of its own, with the handlers of the benchmarks; settings as config.toml has them."""
    home = directory / "home"
    home.mkdir(mode=0o700)
    (directory / "bench_handlers.py").write_text(HANDLERS, encoding="utf-8")
    lines = ['handlers-path = ["."]', *(f'{name} = "{value}"' for name, value in settings.items()), "[handlers]"]
    lines += [f'{name} = "bench_handlers:{name}"' for name in NAMES]
    (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return home


def command(home: Path, *words: str) -> list[str]:
    """The installed command line on this home."""
    return [str(JOBQ), "--home", str(home), "--quiet", *words]


def spec(number: int) -> dict[str, Any]:
    """A job whose line in the store has about 300 bytes."""
    return {
        "command": f"convert in-{number:07}.png out.png",
        "cwd": "/home/me/in",
        "env": {"PATH": "/usr/bin:/bin"},
    }


def specs(count: int, start: int = 0) -> list[dict[str, Any]]:
    """So many of them."""
    return [spec(number) for number in range(start, start + count)]


def fill(home: Path, count: int) -> None:
    """Enqueue so many jobs without a sync for each batch."""
    with Queue.open(home=home, durability="normal") as queue:
        for start in range(0, count, 50_000):
            queue.enqueue_many(specs(min(50_000, count - start), start))


class Worker:
    """A worker in a process of its own; as a context manager it is there from the start and gone at the end.

    Attributes:
        pid: of the worker.

    Raises:
        TimeoutError: it did not get going.
    """

    def __init__(self, home: Path, *, count: int = 1) -> None:
        self._started = subprocess.Popen(
            command(home, "worker", "start", "-n", str(count)), env=environ(), stdout=subprocess.DEVNULL
        )
        self.pid = self._started.pid
        try:
            with Queue.open(home=home) as queue:
                until(lambda: self.pid in [info.pid for info in queue.workers()], every=0.01)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._started.poll() is None:
            self._started.terminate()
        try:
            self._started.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """KILL it, and reap it."""
        self._started.kill()
        self._started.wait()


def run_all(home: Path, jobs: Sequence[dict[str, Any]], *, count: int) -> float:
    """Seconds from the first start of one of these jobs to the last end, by the jobs' own records.

    Args:
        home: one without other jobs.
        jobs: what to enqueue; all of it is there before the worker starts.
        count: how many at once.
    """
    with Queue.open(home=home, durability="normal") as queue:
        queue.enqueue_many(jobs)
    subprocess.run(command(home, "worker", "start", "--until-empty", "-n", str(count)), env=environ(), check=True)
    with Queue.open(home=home) as queue:
        done = list(queue.find())
    assert len(done) == len(jobs)
    assert all(job.state == "completed" for job in done)
    first = min(job.history[0].started for job in done if job.history[0].started is not None)
    return (max(job.history[0].finished for job in done) - first).total_seconds()


def read_stamps(file: Path) -> dict[int, list[int]]:
    """What `stamp` and `stay` have written so far: the moments (ns) of each number, in order."""
    try:
        lines: Iterable[str] = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    stamps: dict[int, list[int]] = {}
    for line in lines:
        number, moment = map(int, line.split())
        stamps.setdefault(number, []).append(moment)
    return stamps
