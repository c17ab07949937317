"""Attempts through the executor's interface alone, in processes of their own; nothing of a test outlives it."""

import contextlib
import ctypes
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from jobq import processes
from jobq.clock import SystemClock
from jobq.executor import Attempt
from jobq.handlers import Handler
from jobq.job import State, new_id
from jobq.output import Capture, Reading
from jobq.testing import make_context, make_job, make_settings
from jobq_subprocess import cgroupfs, hooks

ENDS_WITHIN = 30.0
"""Seconds that anything a test waits for may take at most."""

PR_SET_CHILD_SUBREAPER = 36


class Run:
    """One attempt and what is told of its end."""

    def __init__(self, executor, attempt):
        self.attempt = attempt
        self.job = attempt.job
        self.outcomes = []
        self._over = threading.Event()
        self.running = executor.start(attempt, self._ended)

    def _ended(self, outcome):
        self.outcomes.append(outcome)
        self._over.set()

    @property
    def outcome(self):
        """The outcome, once there is one."""
        assert self._over.wait(ENDS_WITHIN), f"{self.job.what} does not end; it printed {self.output!r}"
        assert len(self.outcomes) == 1
        return self.outcomes[0]

    @property
    def output(self):
        """What it has printed so far."""
        return b"".join(Reading(self.attempt.home, self.job.id, self.job.run).read())

    def printed(self, count):
        """The first `count` words it prints, as numbers, once they are there in whole lines."""

        def words():
            whole, end, _ = self.output.rpartition(b"\n")
            return whole.split() if end and len(whole.split()) >= count else None

        return [int(word) for word in eventually(words)[:count]]


class Lab:
    """An executor for one worker."""

    def __init__(self, directory):
        self.home = directory / "home"
        self.home.mkdir(mode=0o700)
        self.worker = new_id()
        self.progress = []
        self.marker = f"JOBQ_WORKER={self.worker}".encode()
        self.path = directory / "modules"
        self.path.mkdir()
        (self.path / "broken_handlers.py").write_text("import no_such_module_anywhere\n")
        (self.path / "garbled_handlers.py").write_text("this is (no Python\n")
        self.executor = self.make()

    def make(self, **values):
        handlers = {}
        names = [
            line.split("(")[0].split()[-1] for line in _handlers_source() if line.startswith(("def ", "async def "))
        ]
        targets = {name: f"sample_handlers:{name}" for name in [*names, "not_callable", "no_such_name"]}
        targets |= {"broken": "broken_handlers:f", "garbled": "garbled_handlers:f", "module": "no_such_module:f"}
        for name, target in targets.items():
            handlers[name] = Handler(name=name, target=target, distribution="tests 1")
        settings = make_settings(values={"handlers-path": [str(HANDLERS), str(self.path)], **values})
        (provider,) = hooks.jobq_executors()
        return provider.make(settings, make_context(self.home, clock=SystemClock(), handlers=handlers))

    def start(self, command=None, *, grace=5.0, slot=0, jobs_fd=None, limit=1 << 20, output_limit=10 << 20, **fields):
        """Start an attempt of a command, or of `handler`."""
        fields = {"state": State.PROCESSING, "run": 1, "worker": self.worker} | fields
        if command is not None:
            fields = {"command": command, "cwd": str(self.home)} | fields
        if isinstance(fields.get("timeout"), float):
            fields["timeout"] = timedelta(seconds=fields["timeout"])
        job = make_job(**fields)
        attempt = Attempt(
            job=job,
            home=self.home,
            slot=slot,
            jobs_fd=jobs_fd,
            output=Capture(self.home, job.id, job.run, output_limit),
            kill_grace=timedelta(seconds=grace),
            result_limit=limit,
            progress=self.progress.append,
        )
        return Run(self.executor, attempt)

    def run(self, command=None, **fields):
        """Run an attempt to its end; its outcome."""
        return self.start(command, **fields).outcome

    def warnings(self):
        """What the executor warns of from now on."""
        told = []
        object.__setattr__(self.executor._around, "warn", told.append)
        self.executor._threads._warn = told.append
        return told

    def handle(self, name, payload=None, **fields):
        """Run an attempt of a handler to its end; its outcome."""
        return self.run(handler=name, payload=payload, **fields)

    def close(self):
        self.executor.close()
        self.executor._around.close()
        left = processes.carriers(self.marker)
        processes.kill_all(lambda: processes.carriers(self.marker), seconds=5)
        assert left == []


HANDLERS = Path(__file__).parent / "handlers"


def _handlers_source():
    return (HANDLERS / "sample_handlers.py").read_text().splitlines()


def eventually(condition):
    """Ask again until the answer is true; that answer."""
    deadline = time.monotonic() + ENDS_WITHIN
    while not (answer := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return answer


def gone(pid):
    """Whether this process has ended."""
    found = processes.process(pid)
    return found is None or found.dead


@pytest.fixture(scope="session")
def groupable():
    """Whether this process can make cgroups and move what it starts into them."""
    group = Path(f"{cgroupfs.own()}/tests-{new_id()}")
    child = subprocess.Popen(["sleep", "1000"])
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(child.pid))
    except OSError:
        return False
    else:
        return True
    finally:
        child.kill()
        child.wait()
        with contextlib.suppress(OSError):
            group.rmdir()


@pytest.fixture
def grouped(groupable):
    """For tests that need cgroups."""
    if not groupable:
        pytest.skip("no cgroups can be made here")


@pytest.fixture
def ungrouped(monkeypatch):
    """As where no cgroups can be made."""
    monkeypatch.setattr("jobq_subprocess.groups.Groups.start", lambda _self, _worker_id, start: (start(), None))


@pytest.fixture
def adopts():
    """Whether the process of the executor adopts orphans, as a worker does."""
    return True


@pytest.fixture
def lab(adopts, tmp_path):
    """An executor in this process."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0) == 0
    lab = Lab(tmp_path)
    try:
        yield lab
        lab.close()
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(name="eventually")
def eventually_fixture():
    return eventually


@pytest.fixture(name="gone")
def gone_fixture():
    return gone
