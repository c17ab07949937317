"""Handlers: what they are given and may return, how they fail, and that none of it harms the next job."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta

import pytest

from jobq import processes
from jobq.executor import Kind
from jobq_subprocess.burial import Burial
from jobq_subprocess.roster import Roster
from jobq_subprocess.serving import Serving
from jobq_subprocess.warm import WarmChild


def test_a_result_is_what_the_handler_returned(lab):
    payload = {"a": [1, 2.5, None, True], "ünï": "\u2028"}
    outcome = lab.handle("echo", payload)
    assert (outcome.kind, outcome.result, outcome.reason) == (Kind.SUCCESS, payload, None)
    assert lab.handle("nothing").result is None
    assert not (lab.home / "output").exists(), "nothing is created for a job that prints nothing"


def test_what_a_handler_is_given(lab):
    run = lab.start(handler="about", attempts=2, run=5, queue="mail", slot=3)
    about = run.outcome.result
    assert about["job"] == run.job.id
    assert (about["attempt"], about["run"]) == (3, 5)
    assert about["environ"] == {
        "JOBQ_WORKER": lab.worker,
        "JOBQ_JOB_ID": run.job.id,
        "JOBQ_RUN": "5",
        "JOBQ_ATTEMPT": "3",
        "JOBQ_QUEUE": "mail",
        "JOBQ_SLOT": "3",
        "JOBQ_HOME": str(lab.home),
        "JOBQ_STORE": "json:",
    }


def test_children_are_warm_and_of_their_own(lab):
    first, second = lab.handle("about").result, lab.handle("about").result
    assert first["pid"] == second["pid"] == first["session"]
    assert first["pid"] != os.getpid()
    assert first["job"] != second["job"]
    assert processes.carries(first["pid"], lab.marker)


def test_no_more_children_than_attempts(lab):
    runs = [lab.start(handler="about", slot=slot) for slot in range(4)]
    pids = {run.outcome.result["pid"] for run in runs}
    assert lab.handle("about").result["pid"] in pids
    assert len(pids) <= 4


def test_what_a_handler_prints(lab):
    run = lab.start(handler="prints")
    assert run.outcome.result == "returned"
    lines = run.output.split(b"\n", 6)
    assert lines[:3] == [b"one", b"two", b"three"]
    assert lines[3:5] == [b"four five", b"six"]
    assert lines[5].endswith(b" INFO seven")
    assert lines[6] == bytes(range(256)) + b"eight"
    silent = lab.start(handler="nothing")
    assert silent.outcome.kind is Kind.SUCCESS
    assert silent.output == b""


def test_much_that_a_handler_prints_is_its_own(lab):
    for _ in range(3):
        run = lab.start(handler="floods")
        assert run.outcome.kind is Kind.SUCCESS
        assert run.output == (b"x" * 65535 + b"\n") * 64
        assert lab.start(handler="prints").outcome.kind is Kind.SUCCESS


def test_what_it_starts_carries_the_marker(lab):
    for number in (1, 2):
        run = lab.start(handler="shows_environment", run=number)
        assert run.outcome.result == f"{run.job.id} {number} {lab.worker}\n"


@pytest.mark.parametrize(
    ("payload", "exception", "reason"),
    [
        ("value", "ValueError", "ValueError: no such size"),
        ("unspeakable", "Unspeakable", "Unspeakable: (its text cannot be told: RuntimeError)"),
        ("outside", "Outside", "Outside: far out"),
        ("interrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("surrogate", "ValueError", "ValueError: half a ?"),
        ("group", "ExceptionGroup", "ExceptionGroup: several (1 sub-exception)"),
    ],
)
def test_one_that_raises(lab, payload, exception, reason):
    before = lab.handle("about").result["pid"]
    run = lab.start(handler="raises", payload=payload)
    outcome = run.outcome
    assert (outcome.kind, outcome.exception, outcome.reason) == (Kind.FAILURE, exception, reason)
    assert outcome.exit_code is None
    printed = run.output.decode()
    assert printed.startswith("about to fail\n")
    assert "sample_handlers.py" in printed
    assert "child.py" not in printed
    assert exception in outcome.tail
    assert lab.handle("about").result["pid"] == before


@pytest.mark.parametrize("code", [0, None])
def test_one_that_exits_well(lab, code):
    outcome = lab.handle("exits", code)
    assert (outcome.kind, outcome.result) == (Kind.SUCCESS, None)


@pytest.mark.parametrize(("code", "reason"), [(3, "SystemExit: 3"), ("no more", "SystemExit: no more")])
def test_one_that_exits_badly(lab, code, reason):
    outcome = lab.handle("exits", code)
    assert (outcome.kind, outcome.exception, outcome.reason) == (Kind.FAILURE, "SystemExit", reason)
    assert lab.handle("nothing").kind is Kind.SUCCESS


@pytest.mark.parametrize(
    ("payload", "kind", "reason"),
    [("abort", Kind.SIGNAL, "signal SIGABRT"), ("kill", Kind.SIGNAL, "signal SIGKILL")]
    + [(code, Kind.FAILURE, f"the handler's process ended, exit code {code}") for code in (0, 1, 7)],
)
def test_one_that_dies(lab, payload, kind, reason):
    before = lab.handle("about").result["pid"]
    run = lab.start(handler="dies", payload=payload)
    assert (run.outcome.kind, run.outcome.reason, run.outcome.exit_code) == (kind, reason, None)
    assert run.output == b"last words\n"
    after = lab.handle("about").result["pid"]
    assert after != before


def test_a_child_that_dies_idle_is_replaced(lab, gone, eventually):
    before = lab.handle("about").result["pid"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: processes.process(before) is None)
    assert lab.handle("about").result["pid"] != before


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("set", "the handler's result is no JSON: Object of type set is not JSON serializable"),
        ("nan", "the handler's result is no JSON: Out of range float values are not JSON compliant"),
        ("loop", "the handler's result is no JSON: Circular reference detected"),
        ("deep", "the handler's result is no JSON: maximum recursion depth exceeded"),
        ("nested", "the handler's result is nested deeper than 100"),
        ("surrogate", "the handler's result is no JSON: 'utf-8' codec can't encode"),
        ("big", "the handler's result has 900002 bytes of JSON; result-limit is 1000"),
    ],
)
def test_a_result_that_cannot_be_kept(lab, payload, reason):
    outcome = lab.handle("result", payload, limit=1000)
    assert outcome.kind is Kind.FAILURE
    assert outcome.reason.startswith(reason)
    assert outcome.result is None


def test_the_limit_counts_bytes(lab):
    size = len(json.dumps("ünï\u2028", ensure_ascii=False).encode())
    assert lab.handle("result", "text", limit=size).result == "ünï\u2028"
    assert lab.handle("result", "text", limit=size - 1).kind is Kind.FAILURE


def test_large_payloads_and_results(lab):
    assert lab.handle("result", "big").result == "x" * 900_000
    payload = ["ünï" * 100_000, list(range(10_000))]
    for _ in range(3):
        assert lab.handle("echo", payload, limit=1 << 22).result == payload


def test_async_handlers(lab):
    for _ in range(2):
        assert lab.handle("awaits").result == {"others": 2}
    run = lab.start(handler="awaits", payload="raise")
    assert (run.outcome.kind, run.outcome.exception, run.outcome.reason) == (
        Kind.FAILURE,
        "LookupError",
        "LookupError: async",
    )
    assert b"Traceback" in run.output


def test_a_task_that_cannot_be_cancelled_costs_the_child(lab):
    before = lab.handle("about").result["pid"]
    assert lab.handle("awaits_stubborn").kind is Kind.SUCCESS
    assert lab.handle("about").result["pid"] != before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "ImportError: broken_handlers:f: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("module", "ImportError: no_such_module:f: ModuleNotFoundError: No module named 'no_such_module'"),
        ("garbled", "ImportError: garbled_handlers:f: SyntaxError: "),
        ("no_such_name", "ImportError: sample_handlers:no_such_name: AttributeError: "),
        ("not_callable", "ImportError: sample_handlers:not_callable: TypeError: "),
    ],
)
def test_one_that_cannot_be_imported(lab, name, reason):
    for _ in range(2):
        run = lab.start(handler=name)
        assert (run.outcome.kind, run.outcome.exception) == (Kind.FAILURE, "ImportError")
        assert run.outcome.reason.startswith(reason)
        assert b"Traceback" in run.output


def test_one_that_nobody_has_installed(lab):
    outcome = lab.handle("os:system")
    assert (outcome.kind, outcome.reason) == (Kind.CANNOT_START, "no such handler: os:system")


@pytest.mark.parametrize("how", ["plain", "stubborn"])
def test_a_timeout_ends_the_handler_and_what_it_started(lab, gone, how):
    before = lab.handle("about").result["pid"]
    run = lab.start(handler="sleeps", payload=how, timeout=0.5, grace=0.1)
    child, grandchild = run.printed(2)
    assert child == before
    assert (run.outcome.kind, run.outcome.reason) == (Kind.TIMEOUT, "timed out after 0.5s")
    assert gone(child)
    assert gone(grandchild)
    assert lab.handle("about").result["pid"] != before


def test_a_first_job_has_its_time_from_when_its_child_is_ready(lab):
    outcome = lab.handle("sleeps", "plain", timeout=0.3, grace=0.1)
    assert outcome.kind is Kind.TIMEOUT
    assert outcome.tail, "it had begun"


def test_one_that_is_quicker_than_its_timeout(lab):
    for _ in range(3):
        assert lab.handle("echo", 1, timeout=3600.0).result == 1


def test_a_timeout_of_a_month(lab, monkeypatch):
    told = lab.warnings()
    run = lab.start(handler="sleeps", timeout=30 * 86400.0)
    run.printed(2)
    assert lab.handle("echo", 1).result == 1
    assert told == []
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SIGNAL


def test_a_stop_ends_the_handler_and_what_it_started(lab, gone):
    run = lab.start(handler="sleeps", payload="plain")
    child, grandchild = run.printed(2)
    run.running.stop(timedelta(seconds=60))
    assert run.outcome.reason == "signal SIGTERM"
    assert gone(child)
    assert gone(grandchild)
    run.running.stop(timedelta())


def test_a_stop_that_a_handler_ends_well(lab, eventually):
    run = lab.start(handler="sleeps", payload="polite")
    eventually(lambda: run.output == b"started\n")
    run.running.stop(timedelta(seconds=60))
    assert (run.outcome.kind, run.outcome.result) == (Kind.SUCCESS, "done")
    assert run.output == b"started\ntold\n"


def test_a_stop_of_a_stubborn_one(lab, gone):
    run = lab.start(handler="sleeps", payload="stubborn")
    child, grandchild = run.printed(2)
    run.running.stop(timedelta(hours=1))
    run.running.stop(timedelta(milliseconds=10))
    assert run.outcome.reason == "signal SIGKILL"
    assert gone(child)
    assert gone(grandchild)


def test_a_stop_before_there_is_a_child(lab):
    runs = [lab.start(handler="sleeps", slot=slot) for slot in range(4)]
    for run in runs:
        run.running.stop(timedelta(seconds=60))
    assert {run.outcome.kind for run in runs} <= {Kind.SIGNAL, Kind.RELEASED}


@pytest.mark.parametrize("how", ["plain", "daemon", "cleared", "fork"])
def test_what_a_handler_leaves_behind_is_ended(lab, gone, how):
    for _ in range(2):
        outcome = lab.handle("leaves", how, grace=0.2)
        assert outcome.kind is Kind.SUCCESS
        child, left = outcome.result
        assert gone(left)
        assert not gone(child)
    assert lab.handle("about").result["pid"] == child


def test_what_is_dead_already_costs_nothing(lab):
    child, dead = lab.handle("leaves", "dead").result
    assert lab.handle("about").result["pid"] == child
    assert processes.process(dead) is None


def test_a_thread_that_is_left_behind_keeps_nobody(lab, monkeypatch):
    monkeypatch.setattr("jobq_subprocess.burial.DISMISSED_FOR", 0.1)
    child, _ = lab.handle("leaves", "thread").result
    assert lab.handle("about").result["pid"] == child
    lab.executor.close()


def test_a_copy_that_returns_from_a_handler_ends(lab):
    child = lab.handle("forks_and_returns", grace=0.2).result
    assert lab.handle("about").result["pid"] == child


def test_one_that_closes_the_executors_socket(lab):
    outcome = lab.handle("closes_everything", grace=0.1)
    assert outcome.kind in (Kind.FAILURE, Kind.SIGNAL)
    assert lab.handle("echo", 1).result == 1


@pytest.mark.parametrize("name", ["closes_stdout", "replaces_stdout", "closes_the_pipe"])
def test_one_that_breaks_its_output_harms_no_other(lab, name):
    assert lab.handle(name).kind is Kind.SUCCESS
    run = lab.start(handler="prints")
    assert run.outcome.result == "returned"
    assert run.output.startswith(b"one\ntwo\n")


def test_children_are_replaced_in_time(lab):
    lab.executor.close()
    lab.executor = lab.make(**{"child-max-jobs": "3"})
    pids = [lab.handle("about").result["pid"] for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


def test_a_child_that_holds_too_much_is_replaced(lab):
    lab.executor.close()
    lab.executor = lab.make(**{"child-max-memory": "1"})
    pids = {lab.handle("about").result["pid"] for _ in range(3)}
    assert len(pids) == 3


def test_closing_kills_what_runs(lab):
    runs = [lab.start(handler="sleeps", payload="stubborn", slot=slot) for slot in range(2)]
    for run in runs:
        run.printed(2)
    lab.executor.close()
    assert {run.outcome.reason for run in runs} == {"signal SIGKILL"}


def test_the_jobs_lock_is_inherited(lab, tmp_path):
    descriptor = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        pid = lab.handle("about", jobs_fd=descriptor).result["pid"]
        assert os.readlink(f"/proc/{pid}/fd/{descriptor}") == str(tmp_path / "lock")
    finally:
        os.close(descriptor)


def test_a_machine_without_room_hands_jobs_back(lab, monkeypatch):
    def no_room(*_args, **_options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("jobq_subprocess.command.subprocess.Popen", no_room)
    outcome = lab.handle("nothing")
    assert outcome.kind is Kind.RELEASED
    assert outcome.delay > timedelta()


def test_a_fault_of_the_executor_costs_attempts_only(lab, monkeypatch, gone):
    told = lab.warnings()
    sleeping = lab.start(handler="sleeps")
    child, _ = sleeping.printed(2)
    hear = WarmChild.hear
    faults = [ZeroDivisionError("a fault")]

    def fail_once(self):
        if faults:
            raise faults.pop()
        return hear(self)

    monkeypatch.setattr(WarmChild, "hear", fail_once)
    assert lab.handle("sleeps", 1).reason == sleeping.outcome.reason == "executor failed: ZeroDivisionError: a fault"
    assert gone(child)
    assert told == ["executor failed: ZeroDivisionError: a fault"]
    assert lab.handle("echo", 1).result == 1


def test_a_fault_that_comes_with_an_attempt_goes_with_it(lab, monkeypatch):
    told = lab.warnings()
    look = Roster.look

    def fail(self):
        if any(run.attempt.job.timeout for run in self._deadlines):
            raise OverflowError("too long")
        return look(self)

    monkeypatch.setattr(Roster, "look", fail)
    run = lab.start(handler="sleeps", timeout=3600.0)
    assert run.outcome.reason == "executor failed: OverflowError: too long"
    assert lab.handle("echo", 1).result == 1
    assert told == [run.outcome.reason]


def test_an_attempt_ends_once_when_a_fault_comes_before_its_child(lab, monkeypatch):
    lab.warnings()
    assert lab.handle("echo", 1).result == 1
    waiting = []
    faults = [ZeroDivisionError("a fault")]
    hear = WarmChild.hear

    def fail_once(self):
        if faults:
            waiting.append(lab.start(handler="echo", payload=2))
            raise faults.pop()
        return hear(self)

    monkeypatch.setattr(WarmChild, "hear", fail_once)
    assert lab.handle("echo", 1).result == 1
    assert waiting[0].outcome.kind is Kind.RELEASED
    assert lab.handle("echo", 3).result == 3
    assert len(waiting[0].outcomes) == 1


@pytest.mark.parametrize("how", ["plain", "daemon"])
def test_a_fault_while_leftovers_are_ended_costs_the_child(lab, monkeypatch, gone, how):
    def fail(*_args, **_options):
        raise OSError(errno.EIO, "Input/output error")

    told = lab.warnings()
    monkeypatch.setattr("jobq_subprocess.burial.Ladder", fail)
    run = lab.start(handler="leaves", payload=how, grace=0.2)
    outcome = run.outcome
    assert outcome.kind is Kind.SUCCESS
    assert all(gone(pid) for pid in outcome.result)
    assert told == ["executor failed: OSError: [Errno 5] Input/output error"]
    assert lab.handle("echo", 1).result == 1
    assert lab.run("true").kind is Kind.SUCCESS


def test_a_fault_of_a_burial_ends_its_attempt(lab, monkeypatch):
    def fail(self, wake):
        run(self, wake)
        raise ZeroDivisionError("a fault")

    told = lab.warnings()
    run = Burial.run
    monkeypatch.setattr(Burial, "run", fail)
    assert lab.handle("dies", 3).kind is Kind.FAILURE
    assert told == ["executor failed: ZeroDivisionError: a fault"]
    monkeypatch.undo()
    assert lab.run("true").kind is Kind.SUCCESS


@pytest.mark.parametrize(("name", "payload", "kind"), [("dies", 3, Kind.RELEASED), ("sleeps", None, Kind.TIMEOUT)])
def test_a_child_whose_end_cannot_be_watched(lab, monkeypatch, name, payload, kind):
    def fail(self, wake):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("jobq_subprocess.burial.Supervision.run", fail)
    assert lab.handle(name, payload, timeout=0.5).kind is kind


def test_a_child_ends_when_its_worker_is_gone(tmp_path, eventually, gone):
    (tmp_path / "tiny.py").write_text("import os\n\ndef pid(job, context):\n    return os.getpid()\n")
    program = textwrap.dedent("""
        import pathlib, sys, threading, datetime
        from jobq.clock import SystemClock
        from jobq.executor import Attempt
        from jobq.handlers import Handler
        from jobq.output import Capture
        from jobq.testing import make_context, make_job, make_settings
        from jobq_subprocess import hooks

        home = pathlib.Path(sys.argv[1]) / "home"
        handlers = {"pid": Handler(name="pid", target="tiny:pid", distribution="")}
        settings = make_settings(values={"handlers-path": [sys.argv[1]]})
        context = make_context(home, clock=SystemClock(), handlers=handlers)
        executor = hooks.jobq_executors()[0].make(settings, context)
        job = make_job(handler="pid", worker="w", run=1)
        executor.start(
            Attempt(job=job, home=home, slot=0, jobs_fd=None, output=Capture(home, job.id, 1, 1000),
                    kill_grace=datetime.timedelta(seconds=1), result_limit=1000),
            lambda outcome: print(outcome.result, flush=True),
        )
        threading.Event().wait()
    """)
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as worker:
        pid = int(worker.stdout.readline())
        assert not gone(pid)
        worker.kill()
        eventually(lambda: gone(pid))


def test_a_handler_may_enqueue(lab):
    from jobq import Queue

    outcome = lab.handle("enqueues")
    assert outcome.kind is Kind.SUCCESS, outcome
    with Queue.open(home=lab.home) as queue:
        assert queue.get(outcome.result).command == "echo from a handler"


def test_pythons_resource_tracker_is_no_leftover(lab):
    """It takes no notice of TERM, and so every attempt would last as long as kill-grace."""
    pids = {lab.handle("shares_memory", grace=3600).result for _ in range(3)}
    assert len(pids) == 1


def test_a_child_that_died_while_it_was_idle_costs_the_next_attempt_nothing(lab, monkeypatch, gone, eventually):
    child = lab.handle("about").result["pid"]
    died = Serving.died

    def late(self, child):
        if not stuck.is_set():  # it is heard of only when the next attempt has been handed over
            stuck.set()
            handed.wait(30)
        died(self, child)

    stuck, handed = threading.Event(), threading.Event()
    monkeypatch.setattr(Serving, "died", late)
    os.kill(child, signal.SIGKILL)
    assert stuck.wait(30)
    run = lab.start(handler="echo", payload=1)
    handed.set()
    assert run.outcome.kind is Kind.RELEASED
    assert run.outcome.reason == "handed back before it began"
    assert lab.handle("echo", 2).result == 2


def test_a_child_that_dies_before_its_first_handler_is_called_costs_an_attempt(lab, monkeypatch, tmp_path):
    """What it was handed may be what has killed it: handed back, it would kill one child after the other."""
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(9)")
    monkeypatch.setitem(lab.executor._environment._base, b"PYTHONPATH", str(tmp_path).encode())
    assert lab.handle("echo", 1).reason == "the handler's process ended, exit code 9"


@pytest.mark.parametrize(
    ("place", "error", "why"),
    [
        ("selectors.DefaultSelector", OSError(24, "Too many open files"), "Too many open files"),
        ("threading.Thread.start", RuntimeError("can't start new thread"), "can't start new thread"),
    ],
)
def test_what_there_is_no_room_to_listen_to_is_handed_back(lab, monkeypatch, place, error, why):
    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(f"jobq_subprocess.listening.{place}", fail)
        before = os.listdir("/proc/self/fd")
        outcome = lab.handle("echo", 1)
        assert os.listdir("/proc/self/fd") == before
    assert (outcome.kind, outcome.reason) == (Kind.RELEASED, f"this machine has no room for it: {why}")
    assert lab.handle("echo", 2).result == 2


def test_a_child_that_never_gets_ready_is_not_waited_for(lab, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(1000)")
    monkeypatch.setattr("jobq_subprocess.roster.START_SECONDS", 0.2)
    monkeypatch.setitem(lab.executor._environment._base, b"PYTHONPATH", str(tmp_path).encode())
    outcome = lab.handle("echo", 1, grace=0.1)
    assert outcome.kind is Kind.FAILURE
    assert outcome.reason == "the handler's process was not ready within 60 s"
    monkeypatch.undo()
    assert lab.handle("echo", 1, timeout=3600.0).result == 1
