"""A home whose jobs write a history; workers and clients that are killed in it; and what must hold afterwards."""

import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.integration.conftest import Cli, eventually

from .history import History
from .stores import JSON, Kind

PROGRAMS = Path(__file__).parent / "programs"

HANDLERS = ("recorded", "exits_at_import", "segfaults_at_import")

DRAIN_SECONDS = 90.0
"""H6: within this time everything must come to its end once nothing is killed any more."""

RECOVER = ("--until-idle", "-q", "other")
"""What a worker is told so that it recovers others and claims nothing."""

DONE = re.compile(r"^\S+  (\S+)  completed after", re.MULTILINE)
JOINED = re.compile(r"^worker (\w+) \(pid (\d+)\)", re.MULTILINE)


class Scene:
    """One home with its history and a store. A seed draws the instants of death; a failure tells it."""

    def __init__(self, jobq: Cli, seed: int, store: Kind = JSON, **settings: str) -> None:
        self.jobq, self.seed, self.chance = jobq, seed, random.Random(seed)
        self.history = History(jobq.directory / "history")
        self.kills = 0
        self._killed: dict[int, float] = {}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._next = 0
        self._logs: list[Path] = []
        self._errors: list[Path] = []
        values = {"max-losses": "100000", "backoff-initial": "0.01", "backoff-jitter": "false"} | settings
        jobq.environ.update({f"JOBQ_{name.upper().replace('-', '_')}": value for name, value in values.items()})
        store.choose(jobq.home)
        jobq("config", "set", "handlers-path", str(PROGRAMS))
        with (jobq.home / "config.toml").open("a") as file:
            file.write("\n[handlers]\n" + "".join(f'{name} = "{name}:run"\n' for name in HANDLERS))

    def numbers(self, count: int) -> range:
        """Numbers that nobody has asked for yet."""
        self._next += count
        return range(self._next - count, self._next)

    def enqueue(self, count: int) -> list[str]:
        """Enqueue jobs by the command line; their ids."""
        numbers = self.numbers(count)
        self.history.asked(numbers)
        lines = "".join(json.dumps(self.history.spec(number)) + "\n" for number in numbers)
        ids = self.jobq("enqueue", "-", input=lines).stdout.split()
        self.history.acknowledged(numbers, ids)
        return ids

    def command(self, *how: str) -> list[str]:
        """An argv that writes the history (see programs/job)."""
        return ["sh", str(PROGRAMS / "job"), str(self.history.directory), *how]

    def payload(self, how: str, **more: Any) -> dict[str, Any]:
        """The payload of the handler that does the same (see programs/recorded.py)."""
        return {"history": str(self.history.directory), "how": how, **more}

    def add_all(self, *fields: dict[str, Any]) -> list[str]:
        """Enqueue jobs of which no history of clients is kept; their ids."""
        return self.jobq("enqueue", "-", input="".join(json.dumps(each) + "\n" for each in fields)).stdout.split()

    def waiting(self) -> int:
        """How many jobs have not come to their end."""
        counts = self.jobq("status", "--json").json["counts"]
        return counts["pending"] + counts["processing"] + counts["failed"]

    def start_worker(self, *args: str, prefix: Sequence[str] = (), **options: Any) -> "subprocess.Popen[bytes]":
        """Start a worker, behind the words of `prefix`, which must become it; it may not have joined yet."""
        log, errors = (self.jobq.directory / f"worker-{len(self._logs)}.{kind}" for kind in ("log", "err"))
        self._logs.append(log)
        self._errors.append(errors)
        with log.open("wb") as out, errors.open("wb") as err:
            command = [*prefix, *self.jobq.command("worker", "start", *args)]
            directory, environ = self.jobq.directory, self.jobq.environ
            process = subprocess.Popen(
                command, env=environ, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options
            )
        self.jobq.processes.append(process)
        self._workers.append(process)
        return process

    def kill(self, *processes: "subprocess.Popen[bytes]", group: int | None = None) -> None:
        """Kill what was started, one by one or at once as a process group, and reap it.

        That one of them had ended before is a fault of its own.
        """
        ended = {process.pid: process.returncode for process in processes if process.poll() is not None}
        assert not ended, f"seed {self.seed}: ended before they were killed: {ended}\n{self.errors()}"
        self._killed |= dict.fromkeys((process.pid for process in processes), time.time())
        if group is not None:
            os.killpg(group, signal.SIGKILL)
        for process in processes:
            process.kill()
        for process in processes:
            assert process.wait(30) == -signal.SIGKILL
        self.kills += len(processes)

    def errors(self) -> str:
        """The last of what workers said on stderr."""
        return "".join(path.read_text(errors="replace")[-500:] for path in self._errors[-3:])

    def pause(self, low: float, high: float) -> None:
        """Wait for no state: the instant of death is what is drawn."""
        time.sleep(self.chance.uniform(low, high))

    def client(self, pause: float = 0.0, **options: Any) -> "subprocess.Popen[str]":
        """Start a program that forks clients (see programs/client.py)."""
        environ = self.jobq.environ
        argv = [sys.executable, str(PROGRAMS / "client.py"), str(self.history.directory), str(pause)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv, env=environ, cwd=self.jobq.directory, stdin=pipe, stdout=pipe, text=True, bufsize=1, **options
        )
        self.jobq.processes.append(process)
        process.stdin.write(f"{self.numbers(100).start}\n")
        return process

    def records(self) -> list[dict[str, Any]]:
        """Every job."""
        lines = self.jobq("list", "--jsonl", "--limit", "10000000").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def told(self) -> list[str]:
        """The ids that workers have told to be completed."""
        return [job_id for log in self._logs for job_id in DONE.findall(log.read_text(errors="replace"))]

    def check(self, *, over: bool = False, besides: Collection[str] = ()) -> list[dict[str, Any]]:
        """H1 to H5, that only what was killed lost a run, and H6 where it is `over`; the records of all jobs but those with the ids `besides`."""
        jobs = [job for job in self.records() if job["id"] not in besides]
        told = [job_id for job_id in self.told() if job_id not in besides]
        wrong = self.history.wrong(jobs, told=told, over=over)
        dead = {self._named().get(worker.pid) for worker in self._workers if worker.returncode == -signal.SIGKILL}
        wrong += [
            f"S4 a run was lost whose worker was not killed: {job['id']} {run}"
            for job in jobs
            for run in job["history"]
            if run["outcome"] == "lost" and run["worker"][:8] not in dead
        ]
        assert wrong == [], f"seed {self.seed}: {len(wrong)} wrong\n" + "\n".join(wrong[:5])
        checks = self.jobq("doctor", "--json", code=None).json["checks"]
        # Before the end there may be dead workers that nobody has cleaned up after, and a doctor says so
        ill = ills(checks, besides=() if over else ("workers",))
        assert ill == [], f"H5 seed {self.seed}: {ill}"
        return jobs

    def drain(self, *, besides: Collection[str] = ()) -> list[dict[str, Any]]:
        """Let everything come to its end, and check all (see `check`)."""
        worker = self.start_worker("--until-empty", "-n", "4")
        assert worker.wait(DRAIN_SECONDS) == 0, self.errors()
        left = [path.name for path in (self.jobq.home / "workers").iterdir()]
        assert left == [], left
        return self.check(over=True, besides=besides)

    def _named(self) -> dict[int, str]:
        """What workers said that they are called, by pid: the beginnings of their ids."""
        said = [JOINED.findall(errors.read_text(errors="replace")) for errors in self._errors]
        return {int(pid): name for found in said for name, pid in found}

    def takeovers(self, jobs: list[dict[str, Any]]) -> list[float]:
        """Seconds from the kill of a worker to the next start of each job that it held."""
        names = {name: self._killed.get(pid) for pid, name in self._named().items()}
        found = []
        for job in jobs:
            for lost, following in zip(job["history"], job["history"][1:], strict=False):
                killed = names.get((lost["worker"] or "")[:8])
                if lost["outcome"] == "lost" and killed is not None:
                    found.append(datetime.fromisoformat(following["started"]).timestamp() - killed)
        return found


def spread(seconds: list[float]) -> str:
    """The median and the maximum, in milliseconds."""
    if not seconds:
        return "none"
    return f"median {1000 * statistics.median(seconds):.0f} ms, max {1000 * max(seconds):.0f} ms of {len(seconds)}"


@contextlib.contextmanager
def scene_in(directory: Path, seed: int, store: Kind = JSON, **settings: str) -> Iterator[Scene]:
    """A scene in a fresh home; whatever was started ends with it."""
    directory.mkdir()
    jobq = Cli(directory)
    try:
        scene = Scene(jobq, seed, store, **settings)
        try:
            yield scene
        finally:
            jobq.close()
            scene.history.end_all()
    finally:
        jobq.close()


__all__ = ["DRAIN_SECONDS", "RECOVER", "Scene", "eventually", "scene_in", "spread"]


def ills(checks: Iterable[dict[str, Any]], *, besides: Collection[str] = ()) -> list[dict[str, Any]]:
    """What a doctor has found in a scene; that some of its handlers end whoever imports them is meant to be so."""
    return [check for check in checks if not check["ok"] and check["name"] not in {"handlers", *besides}]
