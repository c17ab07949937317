"""Every call of a worker on its home's files is once the last one, and once one that fails: each job ends once."""

import random
import shutil
import signal
import subprocess
from collections import Counter, defaultdict

import pytest

from .capabilities import need
from .homes import add, opened, state_of
from .injecting import ERRORS, KILL, KILLED, STEPS, Fault, noted, spread
from .sizes import rounds

EVERY = 10**6
JOBS = ("one", "two", "three")
PATIENCE = 1.5
"""Seconds that a worker is left with a disk that fails for ever before it is told to end."""

FAULT_OF_JOBQ = 70
"""The exit code of what jobq had not expected: what the system refuses is not among it."""


class Shop:
    """A home with jobs that write down each start of theirs, in which a worker is run with a fault and one without.

    Attributes:
        calls: what a worker without a fault does.
        lost: how many runs were lost, in all.
    """

    def __init__(self, directory, cli, store):
        self.cli = cli
        self._prepared, self._notes, self._log = directory / "prepared", directory / "notes", directory / "log"
        store.choose(self._prepared)
        for job_id in JOBS:
            add(self._prepared, job_id, command=f"echo {job_id} $JOBQ_RUN >> {self._log}")
        self.lost = 0
        self.work(Fault(()))
        self.calls = noted(self._notes)
        self.check()

    def work(self, fault):
        """Run a worker with a fault in a fresh home; its exit code and what it said. It may have to be told to end."""
        shutil.rmtree(self.cli.home, ignore_errors=True)
        shutil.copytree(self._prepared, self.cli.home)
        for path in (self._notes, self._log):
            path.unlink(missing_ok=True)
        process = self.cli.start(
            "worker", "start", "--until-empty", env=fault.environ(self.cli.home, self._notes), stderr=subprocess.STDOUT
        )
        try:
            said, _ = process.communicate(timeout=PATIENCE if fault.on else 30)
        except subprocess.TimeoutExpired:
            assert fault.on, f"{fault}: it does not come to its end"
            process.send_signal(signal.SIGQUIT)
            said, _ = process.communicate(timeout=20)
        return process.returncode, said.decode(errors="replace")

    def check(self, told=""):
        """Another worker finds everything as it must be, and does what is left."""
        state_of(self.cli.home)
        self.cli.run_all()
        starts = defaultdict(list)
        for line in self._log.read_text().splitlines() if self._log.exists() else []:
            job_id, run = line.split()
            starts[job_id].append(int(run))
        with opened(self.cli.home) as store:
            jobs = {job_id: store.get(job_id) for job_id in JOBS}
            assert store.check() == [], told
        for job_id, job in jobs.items():
            outcomes = [run.outcome for run in job.history]
            assert job.state == "completed", (told, job)
            assert (Counter(outcomes)["completed"], outcomes[-1]) == (1, "completed"), (told, job)
            assert set(outcomes) <= {"lost", "released", "completed"}, (told, job)
            assert starts[job_id] == sorted(set(starts[job_id])), (told, starts)
            assert len(starts[job_id]) <= len(outcomes), (told, job, starts)
            self.lost += outcomes.count("lost")
        assert list((self.cli.home / "workers").iterdir()) == [], told


@pytest.fixture
def shop(tmp_path, new_cli, store):
    need("compiler")
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"
    return Shop(tmp_path, cli, store)


@pytest.mark.parametrize("action", [KILL, KILLED])
def test_a_worker_killed_at_any_call(shop, action, figure):
    number = sum(call.name in STEPS for call in shop.calls)
    killed, chosen = 0, spread(number, rounds(short=6, full=EVERY, long=EVERY))
    for at in chosen:
        fault = Fault(STEPS, at, action)
        code, said = shop.work(fault)
        if code == 0 and at > number * 0.8:  # as it is woken, it looks around more or less often
            continue
        assert code == -signal.SIGKILL, (fault, said)
        shop.check(f"{fault}\n{said}")
        killed += 1
    figure(
        f"F03 worker {action}",
        f"{killed} kills of a worker, at as many of its {number} calls: "
        f"{shop.lost} runs lost and done again, 0 violations",
    )


@pytest.mark.parametrize("on", [False, True], ids=["once", "for ever"])
def test_a_worker_whose_calls_fail(shop, on, figure):
    done, chance = 0, random.Random(int(on))
    errors = [error for error in ERRORS if error != "EINTR" or not on]  # which, for ever, would be repeated for ever
    for error in chance.sample(errors, rounds(short=3 if on else len(errors), full=len(errors), long=len(errors))):
        calls = ERRORS[error]
        numbers = range(1, sum(call.name in calls for call in shop.calls) + 1)
        most = rounds(short=1, full=8 if on else EVERY, long=EVERY)
        for at in chance.sample(numbers, min(len(numbers), most)):
            fault = Fault(calls, at, error, on=on)
            code, said = shop.work(fault)
            assert code >= 0, (fault, said)
            assert code != FAULT_OF_JOBQ, (fault, said)
            assert "Traceback" not in said, (fault, said)
            assert code == 0 or "jobq: " in said or on, (fault, said)
            shop.check(f"{fault}: {code}\n{said}")
            done += 1
    figure(
        f"F24 worker {'for ever' if on else 'once'}",
        f"{done} failures of a worker's calls, {len(errors)} errors: {shop.lost} runs lost, 0 violations",
    )
