"""Jobs that do not end when they are told to (F57), change what others use (F58), remove what jobq needs (F59), end in
every way and are cancelled at any moment (F60), and handlers that raise and return what nobody should (F61)."""

import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from jobq import Queue, processes
from jobq.errors import InvalidInput, WrongState
from jobq.job import ENDED
from jobq_subprocess import cgroupfs

from .capabilities import need
from .homes import state_of
from .scene import eventually, scene_in
from .sizes import rounds
from .watched import MOST_MEMORY, PROGRAMS, Watched, attempts, over, unruly


@pytest.fixture
def watched(jobq):
    return Watched(jobq)


STAYING = {
    "deaf": "trap '' TERM HUP INT; echo $$ >PID; sleep 1000",
    "stopped": "echo $$ >PID; kill -STOP $$; sleep 1000",
    "deaf and stopped": "trap '' TERM; echo $$ >PID; kill -STOP $$; sleep 1000",
}


def test_who_ignores_that_its_time_is_over_is_killed(watched, tmp_path, figure):
    number = rounds(short=1, full=20, long=200)
    paths = [tmp_path / str(each) for each in range(2 * len(STAYING) * number)]
    specs = []
    for path, (how, script), handler in zip(
        paths, itertools.cycle(STAYING.items()), itertools.cycle((0, 1)), strict=False
    ):
        spec = unruly("stays", how, str(path)) if handler else {"command": script.replace("PID", str(path))}
        specs.append(spec | {"timeout": 0.5})
    ids = watched.add(*specs)
    watched.start("-n", "7")
    others = watched.add(*({"command": "true"}, unruly("shell", "true")) * 3)
    jobs = watched.ended(ids)
    assert {job.state for job in watched.ended(others)} == {"completed"}
    watched.stop()
    for job, path in zip(jobs, paths, strict=True):
        (run,) = attempts(job)
        assert (job.state, run.outcome, run.error) == ("dead", "timeout", "timed out after 0.5s")
        assert over(int(path.read_text()))
    figure("F57 deaf and stopped jobs", f"{len(ids)} timed out and ended, {len(others)} neighbours completed")


FROZEN = f"""
import runpy, sys
from jobq_subprocess import tree
tree.STUCK = {rounds(short=300, full=10_000, long=10_000) / 1000}
sys.argv = sys.argv[3:]
runpy.run_module("jobq", run_name="__main__", alter_sys=True)
"""
"""Becomes a worker that says sooner than others what does not end."""


@pytest.fixture
def freezer():
    """What freezes and thaws processes so that not even KILL ends them meanwhile."""
    need("freezer")
    made = Path(cgroupfs.own("freezer")) / f"faults-{os.getpid()}"
    made.mkdir()
    yield made
    (made / "freezer.state").write_text("THAWED")
    eventually(lambda: not (made / "cgroup.procs").read_text())
    made.rmdir()


def test_who_is_frozen_is_told_of_and_holds_up_no_other(watched, tmp_path, freezer, figure):
    paths = [tmp_path / "command", tmp_path / "handler"]
    script = f"echo $$ >{paths[0]}; sleep 1000"
    ids = watched.add({"command": script}, unruly("shell", f"echo $PPID >{paths[1]}; sleep 1000"))
    watched.start("-n", "3", prefix=[sys.executable, "-c", FROZEN])
    pids = [eventually(lambda path=path: path.exists() and path.read_text().strip()) for path in paths]
    for pid in pids:
        (freezer / "cgroup.procs").write_text(pid)
    (freezer / "freezer.state").write_text("FROZEN")
    eventually(lambda: (freezer / "freezer.state").read_text() == "FROZEN\n")
    with Queue.open(home=watched.jobq.home) as queue:
        for job_id in ids:
            queue.cancel(job_id)
    for pid in pids:
        eventually(lambda pid=pid: f"do not end after KILL (pid {pid}" in watched.told())
    others = watched.add(*({"command": "true"}, unruly("shell", "true")) * 3)
    assert {job.state for job in watched.ended(others)} == {"completed"}
    jobs = watched.jobs()
    assert [(jobs[job_id].state, over(int(pid))) for job_id, pid in zip(ids, pids, strict=True)] == [
        ("processing", False)
    ] * 2
    (freezer / "freezer.state").write_text("THAWED")
    for job, pid in zip(watched.ended(ids), pids, strict=True):
        assert (job.state, over(int(pid))) == ("cancelled", True)
    watched.stop()
    figure("F57 frozen jobs", f"2 told of, {len(others)} neighbours completed meanwhile, both ended when thawed")


CHANGES = [
    "directory",
    "umask",
    "mask",
    "alarm",
    "limits",
    "session",
    "zombies",
    "descriptors",
    "stdout",
    "stdin",
    "user",
]
"""By name (see programs/unruly.py)."""

LOOK = {
    "command": "pwd; umask; ulimit -a; ls /proc/self/fd | wc -l; grep -E '^(SigBlk|SigIgn|Uid|Gid)' /proc/self/status"
}


def test_what_a_job_changes_the_next_one_does_not_see(watched, figure):
    """In a worker that has one process for handlers."""
    total = rounds(short=1, full=5, long=50)
    watched.jobq.environ["UNRULY_ZOMBIES"] = str(rounds(short=50, full=1000, long=1000))
    specs = [unruly("standing"), LOOK]
    for name in CHANGES * total:
        change = {"command": [sys.executable, "-I", str(PROGRAMS / "unruly.py"), name]}
        specs += [unruly("changes", name), unruly("standing", 0.1 if name == "alarm" else 0)]
        specs += [change, LOOK] if name in ("zombies", "descriptors") else []
    ids = watched.add(*specs)
    worker = watched.start("-n", "1")
    jobs = watched.ended(ids)
    printed = [watched.printed(job) for job in jobs]
    for spec, job, text in zip(specs, jobs, printed, strict=True):
        if spec is LOOK:
            assert (job.state, text) == ("completed", printed[1])
        elif spec.get("payload", [None])[0] == "standing":
            assert (job.state, text, job.result) == ("completed", b"heard\n", jobs[0].result)
        else:
            assert job.state == "completed" or "descriptors" in str(spec), job
    eventually(lambda: not [each for each in processes.all_processes() if each.parent == worker.pid and each.dead])
    watched.stop()
    assert {state[0] for state in state_of(watched.jobq.home).values()} <= {"completed", "dead"}
    figure("F58 jobs that change what others use", f"{len(CHANGES) * total} changes, 0 seen by the next job")


def test_a_job_that_removes_its_output_is_told_so(watched, figure):
    """And one whose output is removed with its directory, before what is kept of its end has a file."""
    found = "until [ -e $JOBQ_HOME/output/*/*.$JOBQ_RUN ]; do sleep 0.01; done; rm -r $JOBQ_HOME/output"
    scripts = [f"echo first; {found}; echo second", f"echo first; {found}; seq 2000000", "echo untouched"]
    specs = [unruly("shell", scripts[0]), *({"command": script} for script in scripts)]
    ids = watched.add(*specs, {"command": "echo on"})
    watched.start("-n", "1")
    *jobs, after = watched.ended(ids)
    watched.stop()
    errors = [run.output_error for job in jobs for run in attempts(job)]
    assert {job.state for job in jobs} == {"completed"}
    removed = "its file was removed while it was written"
    assert errors == [removed, removed, "No such file or directory", None]
    assert watched.printed(after) == b"on\n"
    assert removed in watched.jobq("logs", ids[0]).stderr
    figure("F59 output removed by its job", f"{len(jobs) - 1} told so, the outputs after them kept")


@pytest.mark.parametrize("what", ["queue", ""], ids=["the store", "the home"])
def test_a_job_that_removes_what_jobq_keeps_makes_no_empty_queue(watched, tmp_path, what, figure):
    jobq = watched.jobq
    ids = watched.add({"command": "until [ -e go ]; do sleep 0.01; done; rm -rf $REMOVED"}, *[{"command": "true"}] * 5)
    removed = jobq.home / what if what else jobq.home
    jobq.environ["REMOVED"] = str(removed)
    copy = tmp_path / "copy"
    shutil.copytree(jobq.home, copy)
    worker = watched.start("-n", "1")
    eventually(lambda: watched.jobs()[ids[0]].state == "processing")
    (tmp_path / "go").touch()
    eventually(lambda: "store trouble" in watched.told())
    before = seconds_of(worker.pid)
    time.sleep(0.5)  # for no state: how much it does in that time is the question
    spent = seconds_of(worker.pid) - before
    if what:
        for words in (["add", "--shell", "true"], ["status"])[: rounds(short=1, full=2, long=2)]:
            answer = jobq(*words, code=5)
            assert "is gone" in answer.stderr, answer
    worker.send_signal(signal.SIGQUIT)
    assert worker.wait(30) == 5, watched.told()
    assert {path.name for path in (jobq.home / "queue").glob("*")} <= {"queue.lock"}, "there is an empty queue"
    assert "Traceback" not in watched.told()
    assert watched.told().count("store trouble") == 1
    assert spent < 0.25
    shutil.rmtree(jobq.home, ignore_errors=True)
    shutil.copytree(copy, jobq.home)
    jobq.environ["REMOVED"] = str(tmp_path / "nothing")
    watched.start("-n", "1", "--until-empty").wait(60)
    assert {state[0] for state in state_of(jobq.home).values()} == {"completed"}
    figure(
        f"F59 {'store' if what else 'home'} removed by a job", f"no queue in its place, {spent:.2f} s of CPU in 0.5 s"
    )


def seconds_of(pid):
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
ENDINGS = [("exit", code) for code in range(256)] + [
    ("signal", number) for number in range(1, 65) if number not in HARMLESS | STOPPING
]


def test_every_code_and_every_signal_is_recorded_for_what_it_is(watched, figure):
    chosen = ENDINGS[:: rounds(short=13, full=1, long=1)] * rounds(short=1, full=1, long=10)
    line = {"exit": "exit {}", "signal": "ulimit -c 0; kill -{} $$"}
    commands = [{"command": line[how].format(number)} for how, number in chosen]
    handlers = [unruly("ends", how, number) for how, number in chosen[1 :: rounds(short=6, full=2, long=2)]]
    ids = watched.add(*commands, *handlers)
    watched.start("-n", "4")
    jobs = watched.ended(ids)
    watched.stop()
    for (how, number), job in zip([*chosen, *chosen[1 :: rounds(short=6, full=2, long=2)]], jobs, strict=True):
        (run,) = attempts(job)
        told = (job.state, job.exit_code, run.outcome, (job.last_error or "").partition(" (")[0])
        if how == "signal":
            name = signal.Signals(number).name if number in {*signal.Signals} else number
            assert told == ("dead", None, "signal", f"signal {name}")
        elif job.handler:
            assert told == ("dead", None, "failed", f"the handler's process ended, exit code {number}")
        elif number:
            assert told == ("dead", number, "failed", f"exit code {number}")
        else:
            assert told == ("completed", 0, "completed", "")
    figure("F60 codes and signals", f"{len(jobs)} ends, each recorded for what it was")


LONGEST = 36500 * 86400.0


def test_timeouts_as_small_and_as_large_as_they_can_be(watched, figure):
    sleeping, quick = {"command": "sleep 1000"}, {"command": "echo quick"}
    small = [spec | {"timeout": 0.001} for spec in (sleeping, unruly("shell", "sleep 1000"), unruly("endless"))]
    small.append(sleeping | {"timeout": 0.0001})  # times are of whole milliseconds, rounded up
    large = [
        spec | {"timeout": seconds}
        for spec in (quick, unruly("shell", "echo quick"))
        for seconds in (10**6, 2**31 / 1000, 10**9, LONGEST)
    ]
    ids = watched.add(*small, *large)
    watched.start("-n", "3")
    jobs = watched.ended(ids)
    watched.stop()
    for job in jobs[: len(small)]:
        (run,) = attempts(job)
        assert (job.state, run.outcome, run.error) == ("dead", "timeout", "timed out after 0.001s"), job
    assert {job.state for job in jobs[len(small) :]} == {"completed"}
    with Queue.open(home=watched.jobq.home) as queue:
        for refused in (0, -1, 1e-300, LONGEST + 1, 10**30, 1e300, float("inf"), float("nan"), "1h", True):
            with pytest.raises(InvalidInput, match="timeout"):
                queue.enqueue(command="true", timeout=refused)
    figure("F60 timeouts", f"{len(ids)} from 0.001 s to {LONGEST:.0f} s kept, others refused")


RUNNING = (1, 2)
"""Which of them are surely cancelled while they run: a handler and a command."""


def test_a_cancel_at_any_moment_leaves_one_outcome_and_no_process(tmp_path, figure):
    total = rounds(short=16, full=800, long=8000)
    seen = Counter()
    with scene_in(tmp_path / "scene", seed=0, **{"kill-grace": "0.5"}) as scene:
        worker = scene.start_worker("-n", "3")
        ids = {}
        eventually(lambda: "serves all queues" in scene.errors())
        with Queue.open(home=scene.jobq.home) as queue:
            for turn in range(total):
                seconds = 1000 if turn in RUNNING else scene.chance.choice((0, 0.05, 0.5))
                if turn % 2:
                    payload = scene.payload("sleep", seconds=seconds)
                    job = queue.enqueue(handler="recorded", payload=payload, allow_unknown_handler=True)
                else:
                    job = queue.enqueue(command=scene.command("sleep", str(seconds)))
                if turn in RUNNING:
                    eventually(lambda job=job: scene.history.lines(job.id))
                elif turn % 8:  # else it is cancelled at once
                    scene.pause(0, 0.12)
                try:
                    ids[job.id] = queue.cancel(job.id).state
                except WrongState:
                    ids[job.id] = "completed"
            eventually(lambda: all(queue.get(job_id).state in ENDED for job_id in ids))
            assert worker.poll() is None, scene.errors()
        assert scene.jobq.stop(worker) == 0
        for job in scene.drain():
            lines = [line.what for line in scene.history.lines(job["id"])]
            assert job["state"] in ("completed", "cancelled"), job
            assert job["attempts"] == job["losses"] == 0
            if ids[job["id"]] != "processing":  # it was over, or it had not begun and never will
                assert job["state"] == ids[job["id"]], job
                assert lines == (["start", "end"] if job["state"] == "completed" else []), job
            seen[ids[job["id"]], job["state"], *lines] += 1
    assert seen["processing", "cancelled", "start"] >= len(RUNNING), seen
    told = "; ".join(f"{' '.join(words)}: {count}" for words, count in sorted(seen.items()))
    figure("F60 cancels at random instants", f"{total}: {told}")


RAISED = {
    "exit": "SystemExit: 3",
    "exit for no reason that can be told": "SystemExit: (its text cannot be told: SystemExit)",
    "interrupt": "KeyboardInterrupt",
    "generator": "GeneratorExit",
    "iteration": "StopIteration",
    "cancelled": "CancelledError",
    "base": "BaseException: far out",
    "group": "BaseExceptionGroup: several (2 sub-exceptions)",
    "speechless": "Speechless: (its text cannot be told: SystemExit)",
    "shapeless": "Shapeless",
    "nameless": "GeneratorExit",
    "long": "X" * 1000,
    "surrogates": "UnicodeEncodeError: 'utf-8' codec can't encode character",
    "caused": "ValueError: 999",
    "memory": "MemoryError",
    "recursion": "RecursionError: maximum recursion depth exceeded",
}
NO_JSON = "the handler's result is no JSON: "
RETURNED = {
    "itself": f"{NO_JSON}Circular reference detected",
    "nan": f"{NO_JSON}Out of range float values",
    "infinity": f"{NO_JSON}Out of range float values",
    "nan as a key": f"{NO_JSON}Out of range float values",
    "a pair as a key": f"{NO_JSON}keys must be str",
    "bytes": f"{NO_JSON}Object of type bytes",
    "an object": f"{NO_JSON}Object of type object",
    "a generator": f"{NO_JSON}Object of type generator",
    "half a character": f"{NO_JSON}'utf-8' codec can't encode",
    "too deep": "the handler's result is nested deeper than 100",
    "far too deep": f"{NO_JSON}maximum recursion depth exceeded",
    "deeper than it looks": "the executor reported a result that is nested deeper than 100",
    "too large": "the handler's result has 2097154 bytes of JSON; result-limit is 1048576",
    "a number too long": f"{NO_JSON}Exceeds the limit",
    "refusing": "SystemExit: 0",
    "failing": "MemoryError: no",
}
KEPT = {
    "a number of a kind": 7,
    "a text of a kind": "text",
    "a dict of a kind": {"a": [1]},
    "twice one key": {"1": "b"},
    "a thread": None,
}
"""By name (see programs/unruly.py): what is told of what a handler raises and returns, and what is kept."""


def test_whatever_a_handler_raises_or_returns_is_an_outcome(watched, figure):
    total = rounds(short=1, full=20, long=200)
    cases = [unruly("raises", name) for name in RAISED] + [
        unruly("returns", name) for name in (*RETURNED, *KEPT, "deep")
    ]
    cases.append(unruly("endless", timeout=0.3))
    ids = watched.add(*(spec for case in cases * total for spec in (case, unruly("says", "after"))))
    watched.start("-n", "1")
    jobs = watched.ended(ids)
    peak = watched.peak()
    watched.stop()
    wanted = RAISED | RETURNED
    for case, job, after in zip(cases * total, jobs[::2], jobs[1::2], strict=True):
        assert after.state == "completed"
        assert watched.printed(after) == b"after\n"
        name = case["payload"][-1]
        if name in wanted:
            assert (job.state, job.result, len(attempts(job))) == ("dead", None, 1)
            assert job.last_error.startswith(wanted[name]), job
            assert len(job.last_error) < 4000
        elif name == "endless":
            assert (job.state, attempts(job)[0].outcome) == ("dead", "timeout")
        elif name == "deep":
            assert job.state == "completed"
            assert json.dumps(job.result) == "[" * 100 + "0" + "]" * 100
        else:
            assert (job.state, job.result) == ("completed", KEPT[name])
    assert peak < MOST_MEMORY
    figure("F61 handlers", f"{len(jobs) // 2} misbehaved, {len(jobs) // 2} after them completed, one worker")


def test_an_answer_that_a_handler_forges_is_nobody_elses(watched, tmp_path, figure):
    """Its own one comes when the next job may have been handed to the same process."""
    total = rounds(short=2, full=50, long=500)
    watched.start("-n", "1")
    for number in range(total):
        path = tmp_path / str(number)
        ids = watched.add(unruly("forges", str(path)), *[unruly("returns", "a text of a kind", max_attempts=3)] * 2)
        watched.ended(ids[:1])
        path.touch()
        forged, *others = watched.ended(ids)
        assert forged.result == "forged"
        assert [(job.state, job.result, job.attempts) for job in others] == [("completed", "text", 0)] * 2
    watched.stop()
    figure("F61 forged answers", f"{total}; 0 of {2 * total} jobs after them got one")
