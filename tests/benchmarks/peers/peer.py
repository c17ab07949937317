"""What is measured of a peer, in processes of its own: the same code for all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from measuring import environ, until

from peers import jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 60.0  # seconds; what takes longer is skipped
HERE = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent


class Peer:
    """One queue, ready for work in a directory of its own; a context manager.

    Attributes:
        name: what it is called in the table.
        packages: the distributions whose versions are named; the first is the queue.
        settings: of its worker and of its queue, for people.
        delivery: what it does, or leaves to others, with a job whose worker died.
        APP: the module `app` that a user of this queue would write: `enqueue(name, **arguments)` and `waiting()`.
            `{url}` and `{durability}` are filled in.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    settings: ClassVar[str]
    delivery: ClassVar[str]
    APP: ClassVar[str]

    def __init__(self, directory: Path, durability: str = "full") -> None:
        self.directory = directory
        self.durability = durability
        self.opened = ExitStack()

    # what a peer says of itself

    def durable(self) -> str:
        """What an acknowledged job survives, at the settings it is measured with."""
        raise NotImplementedError

    def server(self) -> str:
        """Start what it needs beside its worker, registered in `opened`; its URL."""
        return ""

    def prepare(self) -> None:
        """Do once what a user does before the first job, such as making tables."""

    def worker(self, count: int) -> list[list[str]]:
        """The commands that together do `count` jobs at once; the first word is a program of this environment."""
        raise NotImplementedError

    # what is measured

    def enqueue(self, count: int) -> float:
        """Seconds that one process takes for so many jobs, one by one."""
        return self._client("enqueue", count)

    def drain(self, count: int) -> tuple[int, float]:
        """How many jobs that return at once were started in how many seconds, by 2 workers.

        The queue is filled first. It ends when all were, or after 20 s. The first tenth is warm-up: processes of a
        worker do not all start at once.
        """
        self.enqueue(count - 1)  # and the one that opens the connection
        path, size = self.directory / "runs", count * jobs.RUN.size
        with self._working(2) as worker:
            try:
                worker.until(lambda: path.stat().st_size >= size, within=20)
            except TimeoutError:
                if path.stat().st_size < size / 20:
                    raise
        began = sorted(began for _, began, *_ in jobs.runs(path))
        measured = began[len(began) // 10 :]
        return len(measured) - 1, measured[-1] - measured[0]

    def pickup(self, count: int = 100) -> list[float]:
        """Of each job, the seconds from the call that enqueues it in another process to its handler's first line."""
        with self._working(2) as worker:
            self._idle(worker)
            return self._client("pickup", count)

    def cold_enqueue(self) -> float:
        """Seconds that a new process takes that imports, enqueues one job and ends."""
        command = [sys.executable, "-c", "import app; app.enqueue('nothing')"]
        start = time.perf_counter()
        subprocess.run(command, cwd=self.directory, env=self._environ(), check=True, timeout=LIMIT)
        return time.perf_counter() - start

    def recover(self) -> float | str:
        """Seconds from kill -9 of a worker and its processes in mid-job until another one starts the job again.

        Or "not within 60 s", where the peer still holds the job, or "lost".
        """
        with self._working(1) as doomed:
            self._client("hold")
            doomed.until(self._held)
            with self._working(1) as other:
                self._idle(other)
                killed = time.monotonic()
                doomed.kill()
                try:
                    other.until(lambda: len(self._held()) > 1)
                except TimeoutError:
                    return f"not within {LIMIT:.0f} s" if self._client("waiting") else "lost"
                return self._held()[1] - killed

    # how

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self.opened = opening
            self.url = self.server()
            app = self.APP.replace("{url}", self.url).replace("{durability}", self.durability)
            (self.directory / "app.py").write_text(app)
            (self.directory / "runs").touch()
            for name in ("jobs.py", "client.py"):
                shutil.copy(HERE / name, self.directory)
            self.prepare()
            self.opened = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def run(self, *command: str) -> None:
        """Run a program of this environment to its end, in the peer's directory."""
        with open(self.directory / "worker.log", "ab") as log:
            subprocess.run(
                [PROGRAMS / command[0], *command[1:]],
                cwd=self.directory,
                env=self._environ(),
                check=True,
                timeout=LIMIT,
                stdout=log,
                stderr=log,
            )

    @classmethod
    def versions(cls) -> str:
        """Of each of its packages."""
        return ", ".join(f"{package} {version(package)}" for package in cls.packages)

    def _environ(self) -> dict[str, str]:
        return environ(PYTHONPATH=str(self.directory), JOBQ_HOME=str(self.directory / "home"))

    def _client(self, *arguments: object):
        command = [sys.executable, "client.py", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.directory, env=self._environ(), check=True, timeout=LIMIT, stdout=subprocess.PIPE
        )
        return json.loads(done.stdout)

    @contextmanager
    def _working(self, count: int) -> Iterator[Worker]:
        with open(self.directory / "worker.log", "ab") as log:
            worker = Worker()
            try:
                for program, *arguments in self.worker(count):
                    worker.start([str(PROGRAMS / program), *arguments], self.directory, self._environ(), log)
                yield worker
            finally:
                worker.stop()

    def _held(self) -> list[float]:
        """When the job that does not end began, each time."""
        return [began for sent, began, *_ in jobs.runs(self.directory / "runs") if sent == jobs.HOLD]

    def _idle(self, worker: Worker) -> None:
        """Wait until this worker has run a job; of what it is sent another one may have taken some ahead of its turn."""

        def ran() -> bool:
            # a process that was forked for one job is gone by now; its parent is not
            ours = worker.processes()
            return any(
                one in ours for *_, process, parent in jobs.runs(self.directory / "runs") for one in (process, parent)
            )

        for _ in range(20):
            self._client("stamp")
            try:
                worker.until(ran, within=3)
            except TimeoutError:
                continue
            return
        raise TimeoutError("the worker ran none of 20 jobs")


class Worker:
    """Processes that were started together, each in a session of its own, and all that they started."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], directory: Path, environment: dict[str, str], log: BinaryIO) -> None:
        """Start one more."""
        self._started.append(
            subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        )

    def until(self, found: Callable[[], object], within: float = LIMIT) -> None:
        """Wait until something is true.

        Raises:
            TimeoutError: it was not, within so many seconds.
            RuntimeError: a process that was started has ended before that.
        """

        def found_or_ended() -> object:
            for one in self._started:
                if one.poll() is not None:
                    raise RuntimeError(f"the worker ended with {one.returncode}")
            return found()

        try:
            until(found_or_ended, within=within, every=0.01)
        except TimeoutError as error:
            raise TimeoutError(f"not within {within:.0f} s") from error

    def processes(self) -> dict[int, str]:
        """The processes it has now, each with the moment of its start, which tells it from a later one of its number."""
        parents = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                facts = _stat(int(entry))
                if facts is not None:
                    parents[int(entry)] = facts
        found = {one.pid: parents[one.pid][1] for one in self._started if one.pid in parents}
        while more := {pid: began for pid, (parent, began) in parents.items() if parent in found and pid not in found}:
            found |= more
        return found

    def kill(self, processes: dict[int, str] | None = None) -> None:
        """Kill all of it at once, or those of these that still are."""
        doomed = self.processes() if processes is None else processes
        for pid, began in doomed.items():
            facts = _stat(pid)
            if facts is not None and facts[1] == began:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for one in self._started:
            one.wait()

    def stop(self) -> None:
        """Ask it to end, wait a little, kill what is left."""
        processes = self.processes()
        for one in self._started:
            if one.poll() is None:
                one.terminate()
        try:
            until(lambda: all(one.poll() is not None for one in self._started), within=5, every=0.01)
        except TimeoutError:
            pass
        self.kill(processes | self.processes())


def _stat(pid: int) -> tuple[int, str] | None:
    """A process's parent and the moment of its start, in ticks since the machine's; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[19]
