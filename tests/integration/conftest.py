"""The real command line in real processes: a fresh home, a clean environment, and workers that end with the test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobq import Queue
from jobq.app import App

TIMEOUT = 30.0
"""Seconds that anything a test waits for may take at most; on a sound system it takes a fraction."""


def eventually(condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Ask again until the answer is true; that answer. Fails when the time is over."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not so within {timeout:g} s"
        time.sleep(0.01)
    return answer


@dataclass(frozen=True)
class Answer:
    """How a command ended, with its output as bytes and as text."""

    code: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        return self.out.decode()

    @property
    def stderr(self) -> str:
        return self.err.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def id(self) -> str:
        """The id that `enqueue` or `add` answered with."""
        (line,) = self.stdout.splitlines()
        return line


class Cli:
    """`jobq` in a home of its own.

    Called with arguments it runs the command to its end; `start` only starts it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        user = directory / "user"
        user.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ}
        self.environ = {
            **kept,
            "HOME": str(user),
            "JOBQ_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            "TZ": "UTC",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(
        self,
        *args: str,
        code: int | None = 0,
        input: bytes | str | None = None,  # noqa: A002 - what subprocess calls it
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = TIMEOUT,
    ) -> Answer:
        """Run a command to its end; it must end with `code` (None: any)."""
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            self.command(*args),
            check=False,
            env={**self.environ, **(env or {})},
            cwd=cwd or self.directory,
            capture_output=True,
            timeout=timeout,
            **({"stdin": subprocess.DEVNULL} if data is None else {"input": data}),
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        if code is not None:
            told = answer.out.decode(errors="replace") + answer.err.decode(errors="replace")
            assert answer.code == code, f"jobq {' '.join(args)}: exit {answer.code}\n{told}"
        return answer

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "jobq", *args]

    def start(self, *args: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start a command; it is killed at the end of the test if it still runs. Output is piped unless said."""
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.directory,
            **options,
        }
        options["env"] = {**self.environ, **(options.get("env") or {})}
        process = subprocess.Popen(self.command(*args), **options)
        self.processes.append(process)
        return process

    def add(self, *args: str, shell: str | None = None) -> str:
        """Add a job, `shell` being its line for the shell; its id."""
        return self("add", *args, *([] if shell is None else ["--shell", shell])).id

    def job(self, job_id: str) -> dict[str, Any]:
        """The record of a job."""
        return self("show", "--json", job_id).json

    @contextmanager
    def queue(self) -> Iterator[Queue]:
        """The queue as a program has it that asks again and again; starting a command takes that many times as long."""
        app = App(home=str(self.home), environ=self.environ, warn=lambda _: None)
        try:
            yield Queue(app)
        finally:
            app.close()

    def state(self, job_id: str) -> str:
        """The state of a job, asked of the store."""
        with self.queue() as queue:
            return queue.get(job_id).state.value

    def run_all(self, *args: str) -> Answer:
        """Run everything that is enqueued, in a worker that ends then."""
        return self("worker", "start", "--until-empty", *args)

    def stop(self, process: "subprocess.Popen[bytes]", signum: int = signal.SIGTERM) -> int:
        """Signal a process that `start` started, by its pid, and wait for its end; its exit code."""
        if process.poll() is None:
            process.send_signal(signum)
        process.communicate(timeout=TIMEOUT)
        return process.returncode

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def jobq(tmp_path: Path) -> Iterator[Cli]:
    """The command line in a fresh home."""
    cli = Cli(tmp_path)
    yield cli
    cli.close()


@pytest.fixture(scope="session")
def new_cli() -> Iterator[Callable[[Path], Cli]]:
    """Makes command lines with homes below a given directory, for tests that need several, or share one."""
    made: list[Cli] = []

    def make(directory: Path) -> Cli:
        made.append(Cli(directory))
        return made[-1]

    yield make
    for cli in made:
        cli.close()


@pytest.fixture
def start_worker(jobq: Cli) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Starts a worker process that has joined on return; those that still run are stopped at the end, with their jobs."""
    started = []

    def start(*args: str, env: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        log_path = jobq.directory / f"worker-{len(started)}.log"
        with log_path.open("wb") as log:
            process = jobq.start("worker", "start", *args, stdout=log, stderr=log, env=env)
        started.append(process)

        def joined() -> bool:
            assert process.poll() is None, log_path.read_text(errors="replace")
            with jobq.queue() as queue:
                return any(worker.pid == process.pid for worker in queue.workers())

        eventually(joined)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def worker(start_worker: Callable[..., "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
    """A worker process that runs one job at a time."""
    return start_worker()


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., Any]:
    """`eventually(condition, timeout)`: asks until the answer is true."""
    return eventually
