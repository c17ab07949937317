"""The suite that every executor must pass."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobq.executor import Attempt, Executor, Kind, Outcome
from jobq.job import Job, State, new_id
from jobq.output import Capture, Reading
from jobq.testing.builders import make_info, make_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDS_WITHIN = 30.0
"""Seconds; far more than any attempt here takes, so that only one that never ends fails."""


class Watched:
    """One attempt and what is told of its end."""

    def __init__(self, executor: Executor, attempt: Attempt) -> None:
        self.attempt = attempt
        self.outcomes: list[Outcome] = []
        self._over = threading.Event()
        self.running = executor.start(attempt, self._ended)

    def _ended(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._over.set()

    def result(self) -> Outcome:
        """The outcome, once there is one."""
        assert self._over.wait(ENDS_WITHIN), f"{self.attempt.job.what} does not end"
        return self.outcomes[0]

    def output(self) -> bytes:
        """What the attempt printed."""
        return b"".join(Reading(self.attempt.home, self.attempt.job.id, self.attempt.job.run).read())


class ExecutorContract:
    """What `jobq.executor.Executor` asks for.

    A subclass overrides the fixture `executor` and, where its jobs are not commands for a POSIX shell, the four
    methods that give the fields of jobs.
    """

    def succeeding(self) -> dict[str, Any]:
        """A job that prints `hello`, an end of line, and succeeds."""
        return {"command": "echo hello"}

    def failing(self) -> dict[str, Any]:
        """A job that fails."""
        return {"command": "echo oh no; exit 3"}

    def endless(self) -> dict[str, Any]:
        """A job that runs until it is told to stop, and then ends at once."""
        return {"command": "exec sleep 1000"}

    def stubborn(self) -> dict[str, Any]:
        """A job that runs on whatever it is told, until it is killed."""
        return {"command": "trap '' TERM; while :; do sleep 1; done"}

    def unstartable(self) -> dict[str, Any]:
        """A job that cannot even be started."""
        return {"command": ["/nothing/is/here"]}

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """The home directory of the attempts."""
        home = tmp_path / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return home

    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        """What is tested; closed when the test is over."""
        raise NotImplementedError("a subclass of ExecutorContract overrides the fixture executor")

    def start(self, executor: Executor, home: Path, job: Job | dict[str, Any], slot: int = 0) -> Watched:
        """Start an attempt of a job as a worker does."""
        if isinstance(job, dict):
            job = make_job(state=State.PROCESSING, run=1, worker=new_id(), cwd=str(home), **job)
        attempt = Attempt(
            job=job,
            home=home,
            slot=slot,
            jobs_fd=None,
            output=Capture(home, job.id, job.run, 1 << 20),
            kill_grace=timedelta(seconds=0.2),
            result_limit=1 << 20,
        )
        return Watched(executor, attempt)

    def test_a_success_is_told_with_its_output(self, executor: Executor, home: Path) -> None:
        run = self.start(executor, home, self.succeeding())
        outcome = run.result()
        assert (outcome.kind, outcome.reason) == (Kind.SUCCESS, None)
        assert run.output() == b"hello\n"

    def test_a_failure(self, executor: Executor, home: Path) -> None:
        outcome = self.start(executor, home, self.failing()).result()
        assert outcome.kind is Kind.FAILURE
        assert outcome.reason
        assert "\n" not in outcome.reason

    def test_what_cannot_be_started(self, executor: Executor, home: Path) -> None:
        outcome = self.start(executor, home, self.unstartable()).result()
        assert outcome.kind is Kind.CANNOT_START
        assert outcome.reason
        assert "\n" not in outcome.reason

    def test_a_stop_ends_the_run_and_may_be_repeated(self, executor: Executor, home: Path) -> None:
        run = self.start(executor, home, self.endless())
        assert run.outcomes == []
        run.running.stop(timedelta(hours=1))
        assert run.result().kind is not Kind.SUCCESS
        run.running.stop(timedelta())
        run.running.stop(timedelta(hours=1))

    def test_a_shorter_grace_replaces_a_longer_one(self, executor: Executor, home: Path) -> None:
        run = self.start(executor, home, self.stubborn())
        run.running.stop(timedelta(hours=1))
        run.running.stop(timedelta(milliseconds=50))
        assert run.result().kind is not Kind.SUCCESS

    def test_a_timeout_ends_the_run_even_a_stubborn_one(self, executor: Executor, home: Path) -> None:
        for fields in (self.endless(), self.stubborn()):
            run = self.start(executor, home, fields | {"timeout": timedelta(milliseconds=100)})
            outcome = run.result()
            assert outcome.kind is Kind.TIMEOUT
            assert outcome.reason

    def test_several_at_once(self, executor: Executor, home: Path) -> None:
        endless = self.start(executor, home, self.endless(), slot=0)
        others = [self.start(executor, home, fields, slot) for slot, fields in enumerate(self.others(), 1)]
        assert [other.result().kind for other in others] == [Kind.SUCCESS, Kind.FAILURE, Kind.CANNOT_START]
        assert endless.outcomes == []
        endless.running.stop(timedelta(seconds=10))
        endless.result()
        for run in (endless, *others):
            assert len(run.outcomes) == 1, "an end is told once"

    def others(self) -> list[dict[str, Any]]:
        """The jobs that end by themselves."""
        return [self.succeeding(), self.failing(), self.unstartable()]

    def test_a_slot_is_used_again(self, executor: Executor, home: Path) -> None:
        for _ in range(10):
            run = self.start(executor, home, self.succeeding())
            assert run.result().kind is Kind.SUCCESS
            assert run.output() == b"hello\n"

    def test_runs_of_one_job_keep_their_output_apart(self, executor: Executor, home: Path) -> None:
        job = make_job(state=State.PROCESSING, run=1, worker=new_id(), cwd=str(home), **self.succeeding())
        first = self.start(executor, home, job)
        first.result()
        fields = self.failing()
        second = self.start(executor, home, make_job(job.id, state=job.state, run=2, worker=job.worker, **fields))
        second.result()
        assert first.output() == b"hello\n"
        assert second.output() != first.output()

    def test_a_worker_of_which_nothing_is_left_is_recovered(self, executor: Executor) -> None:
        recovered = executor.recover(make_info())
        assert (recovered.clean, recovered.why) == (True, "")

    def test_closing_ends_what_runs(self, executor: Executor, home: Path) -> None:
        run = self.start(executor, home, self.stubborn())
        executor.close()
        assert run.result().kind is not Kind.SUCCESS
        executor.close()
