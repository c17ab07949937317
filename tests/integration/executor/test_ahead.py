"""Jobs that were sent ahead to a child: when they begin, what they print, and what becomes of them when it ends."""

import os
import random
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from jobq import processes
from jobq.executor import Attempt, Kind
from jobq.job import State
from jobq.output import Capture, Reading
from jobq.testing import make_job
from jobq_subprocess import roster, serving, warm

ENDS_WITHIN = 30.0
FAULT = "executor failed: ZeroDivisionError: a fault"

pytestmark = pytest.mark.skipif(
    not warm.KEEPS_MESSAGES_APART, reason="jobs go ahead only where sockets keep messages apart"
)


class AheadRun:
    """An attempt that is sent ahead, and what is told of it."""

    def __init__(self, lab, attempt):
        self.attempt, self.job = attempt, attempt.job
        self.told = []
        self._over = threading.Event()
        self.running = lab.executor.send_ahead(attempt, self._started, self._ended)

    def _started(self, slot):
        self.told.append(slot)

    def _ended(self, outcome):
        self.told.append(outcome)
        self._over.set()

    @property
    def outcome(self):
        assert self._over.wait(ENDS_WITHIN), f"{self.job.what} does not end"
        return self.told[-1]

    @property
    def output(self):
        return b"".join(Reading(self.attempt.home, self.job.id, self.job.run).read())


@pytest.fixture
def patient(monkeypatch):
    """Nothing is taken back for waiting too long, and there is room for what takes long."""
    monkeypatch.setattr(roster, "TAKEN_BACK_AFTER", 3600.0)
    monkeypatch.setattr(roster, "AHEAD_SECONDS", 3600.0)


@pytest.fixture
def line(lab, patient, eventually):
    """Has one child run a job of a handler, and sends others ahead to it when that has begun."""

    def send(first, *rest, slot=3):
        lab.handle("echo", 1)
        for name in ("about", first[0], *(name for name, *_ in rest)):
            lab.executor._children._means.note(name, 0.001)
        before = lab.start(handler=first[0], payload=first[1] if len(first) > 1 else None, slot=slot)
        eventually(lambda: before.running.child is not None and before.running.child.has_begun(before.running))
        return before, send_ahead(lab, *rest)

    return send


def send_ahead(lab, *jobs):
    ahead = lab.executor.ahead()
    runs = []
    for name, payload, *fields in jobs:
        job = make_job(
            handler=name, payload=payload, state=State.PROCESSING, run=1, worker=lab.worker, **(fields or [{}])[0]
        )
        assert ahead.takes(job)
        attempt = Attempt(
            job=job,
            home=lab.home,
            slot=None,
            jobs_fd=None,
            output=Capture(lab.home, job.id, job.run, 10 << 20),
            kill_grace=timedelta(seconds=5),
            result_limit=1 << 20,
        )
        runs.append(AheadRun(lab, attempt))
    lab.executor.flush()
    return runs


def test_one_begins_when_the_one_before_has_ended_in_its_slot(lab, line, tmp_path):
    gate = tmp_path / "gate"
    before, (first, second) = line(("waits_for", str(gate)), ("about", None), ("about", None))
    assert first.told == second.told == []
    assert before.outcomes == []
    opened = datetime.now(UTC) - timedelta(milliseconds=1)
    gate.touch()
    assert first.outcome.kind is Kind.SUCCESS
    assert second.outcome.result["environ"]["JOBQ_SLOT"] == "3"
    assert second.outcome.result["environ"]["JOBQ_JOB_ID"] == second.job.id
    assert first.told[0] == second.told[0] == 3
    assert opened <= first.outcome.started <= second.outcome.started
    assert before.outcome.kind is Kind.SUCCESS


def test_what_each_prints_is_its_own(lab, patient, tmp_path):
    generator = random.Random(7)
    kinds = ["nothing", "echo", "prints", "floods", "writes", "starts_what_prints"]
    for name in kinds:
        lab.handle(name)
    lab.executor._children._means.note("waits_for", 0.001)
    for number in range(40):
        names = [generator.choice(kinds if generator.random() < 0.5 else ["nothing", "writes"]) for _ in range(8)]
        gate = tmp_path / str(number)
        lab.start(handler="waits_for", payload=str(gate))
        ahead = send_ahead(lab, *((name, f"{name} {generator.random()}\n") for name in names))
        gate.touch()
        for name, run in zip(names, ahead, strict=True):
            assert run.outcome.kind is Kind.SUCCESS
            if name in ("nothing", "echo"):
                assert run.output == b""
            elif name == "floods":
                assert run.output == (b"x" * 65535 + b"\n") * 64
            elif name == "prints":
                assert run.output.startswith(b"one\ntwo\n")
                assert run.output.endswith(b"eight")
            else:
                assert run.output == run.job.payload.encode()
                assert run.outcome.tail == run.job.payload


def test_what_is_taken_back_has_not_begun(lab, line, tmp_path):
    gate = tmp_path / "gate"
    before, ahead = line(("waits_for", str(gate)), ("appends", str(tmp_path / "begun")), ("appends", "/nowhere"))
    lab.executor.take_back()
    for run in ahead:
        assert run.outcome.kind is Kind.RELEASED
        assert run.told == [run.outcome]
    assert before.outcomes == []
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS
    assert lab.handle("echo", 5).result == 5
    assert not (tmp_path / "begun").exists()


def test_one_is_taken_back_when_it_waits_too_long(lab, line, monkeypatch, tmp_path):
    monkeypatch.setattr(roster, "TAKEN_BACK_AFTER", 0.05)
    before, (ahead,) = line(("waits_for", str(tmp_path / "gate")), ("echo", 1))
    assert ahead.outcome.kind is Kind.RELEASED
    assert before.outcomes == []
    (tmp_path / "gate").touch()
    assert before.outcome.kind is Kind.SUCCESS


def test_a_stop_of_one_that_has_not_begun(lab, line, tmp_path):
    gate = tmp_path / "gate"
    before, (ahead,) = line(("waits_for", str(gate)), ("echo", 1))
    ahead.running.stop(timedelta(hours=1))
    assert ahead.outcome.kind is Kind.RELEASED
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS


def test_a_stop_of_one_that_has_begun(lab, line, tmp_path):
    gate = tmp_path / "gate"
    before, (ahead, last) = line(("waits_for", str(gate)), ("sleeps", None), ("echo", 1))
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS
    while not ahead.output.endswith(b"\n"):
        assert not last.told
    ahead.running.stop(timedelta(seconds=60))
    assert ahead.outcome.reason == "signal SIGTERM"
    assert last.outcome.kind is Kind.RELEASED


@pytest.mark.parametrize("how", ["kill", "abort", 3])
def test_the_death_of_a_child_is_the_fault_of_the_one_that_had_begun(lab, line, tmp_path, how):
    gate = tmp_path / "gate"
    before, (guilty, *rest) = line(("waits_for", str(gate)), ("dies", how), ("echo", 1), ("echo", 2))
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS
    assert guilty.outcome.kind in (Kind.SIGNAL, Kind.FAILURE)
    assert guilty.output == b"last words\n"
    for run in rest:
        assert run.outcome.kind is Kind.RELEASED
    assert lab.handle("echo", 5).result == 5


def test_a_child_that_is_killed_between_two_jobs(lab, line, tmp_path, eventually):
    gate = tmp_path / "gate"
    before, (ahead,) = line(("waits_for", str(gate)), ("echo", 1))
    (child,) = lab.executor._children._roster.children
    os.kill(child.process.pid, signal.SIGKILL)
    assert before.outcome.reason == "signal SIGKILL"
    assert ahead.outcome.kind is Kind.RELEASED
    eventually(lambda: processes.process(child.process.pid) is None)


def test_the_time_of_one_begins_with_it(lab, line, tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    limit = {"timeout": timedelta(seconds=1)}
    before, (quick, slow) = line(("waits_for", str(gate)), ("echo", 1, limit), ("sleeps", None, limit))
    threading.Event().wait(1.2)  # longer than the time they have
    assert (quick.told, slow.told) == ([], [])
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS
    assert quick.outcome.kind is Kind.SUCCESS
    assert slow.outcome.kind is Kind.TIMEOUT
    assert slow.output, "it had begun"


def test_processes_left_behind_are_ended_before_the_next_begins(lab, line, tmp_path, gone):
    gate = tmp_path / "gate"
    _, (leaving, ahead) = line(("waits_for", str(gate)), ("leaves", "plain"), ("is_alone", None))
    gate.touch()
    assert leaving.outcome.kind is Kind.SUCCESS
    assert gone(leaving.outcome.result[1])
    assert ahead.outcome.result is True


def test_a_child_that_must_be_replaced_begins_nothing_more(lab, line, tmp_path):
    gate = tmp_path / "gate"
    _, (closing, *rest) = line(("waits_for", str(gate)), ("closes_stdout", None), ("echo", 1), ("echo", 2))
    gate.touch()
    assert closing.outcome.kind is Kind.SUCCESS
    for run in rest:
        assert run.outcome.kind is Kind.RELEASED


def test_no_more_go_ahead_than_a_child_may_still_run(lab, patient, tmp_path):
    lab.executor.close()
    lab.executor = lab.make(**{"child-max-jobs": "4"})
    lab.handle("echo", 1)
    lab.executor._children._means.note("waits_for", 0.001)
    lab.start(handler="waits_for", payload=str(tmp_path / "gate"))
    ahead = lab.executor.ahead()
    assert ahead.most == 2
    assert [ahead.takes(make_job(handler="echo")) for _ in range(3)] == [True, True, False]
    (tmp_path / "gate").touch()


def test_nothing_goes_ahead_of_a_request_too_long_for_one_message(lab, patient):
    payload = ["x" * 100_000] * 10
    lab.handle("echo", payload, limit=1 << 22)
    lab.start(handler="sleeps_with", payload=payload)
    assert lab.executor.ahead() is None


def test_a_place_that_is_gone_hands_the_job_back(lab, line, tmp_path):
    before, _ = line(("waits_for", str(tmp_path / "gate")))
    ahead = lab.executor.ahead()
    job = make_job(handler="echo", state=State.PROCESSING, run=1, worker=lab.worker)
    assert ahead.takes(job)
    before.running.stop(timedelta())
    assert before.outcome.kind is Kind.SIGNAL
    output = Capture(lab.home, job.id, 1, 1000)
    attempt = Attempt(
        job=job,
        home=lab.home,
        slot=None,
        jobs_fd=None,
        output=output,
        kill_grace=timedelta(seconds=5),
        result_limit=1000,
    )
    assert AheadRun(lab, attempt).outcome.kind is Kind.RELEASED


def test_one_whose_child_has_become_idle_begins_at_once(lab, line, tmp_path):
    gate = tmp_path / "gate"
    before, _ = line(("waits_for", str(gate)))
    ahead = lab.executor.ahead()
    job = make_job(handler="about", state=State.PROCESSING, run=1, worker=lab.worker)
    assert ahead.takes(job)
    gate.touch()
    assert before.outcome.kind is Kind.SUCCESS
    attempt = Attempt(
        job=job,
        home=lab.home,
        slot=None,
        jobs_fd=None,
        output=Capture(lab.home, job.id, 1, 1000),
        kill_grace=timedelta(seconds=5),
        result_limit=1 << 20,
    )
    run = AheadRun(lab, attempt)
    assert run.told[0] == 3
    assert run.outcome.result["environ"]["JOBQ_SLOT"] == "3"


def test_closing_hands_back_what_has_not_begun(lab, line, tmp_path):
    before, (ahead,) = line(("waits_for", str(tmp_path / "gate")), ("echo", 1))
    lab.executor.close()
    assert ahead.outcome.kind is Kind.RELEASED
    assert before.outcome.kind is Kind.SIGNAL


def test_a_fault_of_the_executor_ends_each_once(lab, line, monkeypatch, tmp_path):
    told = lab.warnings()
    gate = tmp_path / "gate"
    before, ahead = line(("waits_for", str(gate)), ("echo", 1), ("echo", 2))

    def fail(self, child, lines):
        monkeypatch.undo()
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(serving.Serving, "_take_in", fail)
    gate.touch()
    for run in (before, *ahead):
        assert run.outcome.kind is Kind.RELEASED or run.outcome.reason == FAULT
    assert before.outcome.reason == FAULT
    assert told == [FAULT]
    assert lab.handle("echo", 5).result == 5
    assert all(len([word for word in run.told if not isinstance(word, int)]) == 1 for run in ahead)
