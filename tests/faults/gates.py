"""Jobs that run until a test lets them go, and what others do meanwhile, who must leave them alone."""

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from jobq.app import App
from jobq.clock import Clock
from jobq.queue import Queue

from .scene import PROGRAMS, Scene, eventually, scene_in
from .stepping import Clocks

HANDLER = "gated"

LONG_ENOUGH = 60.0
"""Seconds that anything may take on a machine that is busy."""


def offer_handler(scene: Scene) -> None:
    """Make programs/gated.py a handler in this home."""
    with (scene.jobq.home / "config.toml").open("a") as file:
        file.write(f'{HANDLER} = "{HANDLER}:run"\n')  # the table of handlers is the last one there


@contextlib.contextmanager
def client(scene: Scene, clock: Clock | None = None) -> Iterator[Queue]:
    """What a program in this process sees of the scene's jobs."""
    environ = scene.jobq.environ
    with Queue(App(home=str(scene.jobq.home), environ=environ, clock=clock)) as queue:
        yield queue


class Gate:
    """A locked file that jobs wait for, each in its process; they write their history before and behind it."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._history, self.path = scene.history.directory, scene.jobq.directory / f"gate-{name}"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def command(self, **fields: Any) -> dict[str, Any]:
        """The fields of a command that waits."""
        words = ["sh", PROGRAMS / "gated", PROGRAMS / "job", self.path, self._history]
        return {"command": list(map(str, words)), **fields}

    def handler(self, *, burns: bool = False, **fields: Any) -> dict[str, Any]:
        """The fields of a handler that waits (see programs/gated.py)."""
        payload = {"history": str(self._history), "gate": str(self.path), "burns": burns}
        return {"handler": HANDLER, "payload": payload, **fields}

    def open(self) -> None:
        """Let them go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def add(queue: Queue, *specs: dict[str, Any]) -> list[str]:
    """Enqueue jobs; their ids."""
    return [job.id for job in queue.enqueue_many(specs)]


def begun(scene: Scene, ids: Collection[str]) -> None:
    """Wait until these jobs run."""
    eventually(lambda: all(scene.history.lines(job_id) for job_id in ids), LONG_ENOUGH)


def named(queue: Queue, process: "subprocess.Popen[bytes]") -> str:
    """The id of a worker, once it has joined."""
    return eventually(lambda: [info.id for info in queue.workers() if info.pid == process.pid], LONG_ENOUGH)[0]


def hold(scene: Scene, *processes: "subprocess.Popen[bytes]") -> None:
    """Stop processes, none of them in the middle of a change of the store, where all others would wait for it."""
    for process in processes:
        _stop(process)
        while _holds_lock(scene, process):
            process.send_signal(signal.SIGCONT)
            eventually(lambda: not _holds_lock(scene, process))  # noqa: B023 - asked at once
            _stop(process)


def go_on(*processes: "subprocess.Popen[bytes]") -> None:
    for process in processes:
        process.send_signal(signal.SIGCONT)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: _stands_still(process.pid))


def _stands_still(pid: int) -> bool:
    """Whether each thread of a process is stopped, or the process gone."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended just now
        return False
    return all(stat.rpartition(") ")[2][0] in "TZX" for stat in stats)


def _holds_lock(scene: Scene, process: "subprocess.Popen[bytes]") -> bool:
    """Whether a process holds the lock that writers of the store take turns with."""
    inode = str((scene.jobq.home / "queue" / "queue.lock").stat().st_ino)
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(row[1] == "FLOCK" and row[4] == str(process.pid) and row[5].endswith(f":{inode}") for row in rows)


class Bench:
    """Two workers: a victim, which claims what is to be left alone, and another one that works beside it."""

    def __init__(self, scene: Scene, queue: Queue, clocks: Clocks) -> None:
        self.scene, self.queue, self.clocks = scene, queue, clocks
        self._kept: dict[str, tuple[str, str]] = {}
        self._others: list[str] = []
        self.other = scene.start_worker("-n", "2")
        named(queue, self.other)
        self.start_victim()

    def start_victim(self) -> None:
        self.victim = self.scene.start_worker("-n", "8")
        self.id = named(self.queue, self.victim)

    def give(self, *specs: dict[str, Any]) -> list[str]:
        """Have the victim run these, to be left alone; their ids."""
        hold(self.scene, self.other)
        ids = add(self.queue, *specs)
        begun(self.scene, ids)
        go_on(self.other)
        self._kept |= dict.fromkeys(ids, ("completed", self.id))
        return ids

    def cancel(self, job_id: str) -> None:
        """Ask for the end of one that was given to the victim."""
        self.queue.cancel(job_id)
        self._kept[job_id] = ("cancelled", self.id)

    def work_beside(self) -> None:
        """Have everybody look for the dead, and jobs done by others than the victim."""
        assert self.queue.recover() == ()
        ids = add(self.queue, *({"command": self.scene.command("quick")} for _ in range(2)))
        self.queue.wait(ids, timeout=LONG_ENOUGH)
        assert self.queue.recover() == ()
        self._others += ids

    def are_running(self, ids: Collection[str]) -> bool:
        """Whether the victim has these, as far as the store knows."""
        jobs = self.queue.get_many(ids).values()
        return {(job.state, job.run, job.worker) for job in jobs} == {("processing", 1, self.id)}

    def finish(self) -> int:
        """Stop those who work, let everything come to its end, and look what became of it; how many jobs there were."""
        for worker in (self.victim, self.other):
            assert self.scene.jobq.stop(worker) == 0, self.scene.errors()
        jobs = {job["id"]: job for job in self.scene.drain()}
        for job_id, ended in self._kept.items():
            job = jobs[job_id]
            assert [(run["outcome"], run["worker"]) for run in job["history"]] == [ended], job
            assert (job["run"], job["losses"], job["attempts"]) == (1, 0, 0), job
        for job_id in self._others:
            assert (jobs[job_id]["state"], jobs[job_id]["run"]) == ("completed", 1), jobs[job_id]
        return len(jobs)


@contextlib.contextmanager
def bench_in(path: Path, clocks: Clocks, **settings: str) -> Iterator[Bench]:
    """A bench in a scene of its own, in which nothing is pruned however late it gets."""
    settings = {"keep-completed": "36000d", "keep-cancelled": "36000d"} | settings
    with scene_in(path, seed=0, **settings) as scene, client(scene, clocks) as queue:
        offer_handler(scene)
        scene.jobq.environ |= clocks.environ
        yield Bench(scene, queue, clocks)
