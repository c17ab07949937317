"""Jobs that kill: themselves (F05), their worker (F09), the process that would have run them (F10), or whatever room
there is (F20). They are contained, and their neighbours complete."""

import os
import signal
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobq_subprocess import cgroupfs

from .capabilities import need
from .scene import eventually, scene_in
from .sizes import rounds

DEATHS = {
    ("die", "KILL"): ("signal", "signal SIGKILL"),
    ("die", "SEGV"): ("signal", "signal SIGSEGV"),
    ("die", "ABRT"): ("signal", "signal SIGABRT"),
    ("exit", "139"): ("failed", "exit code 139"),
    ("exit", "137"): ("failed", "exit code 137"),
}


ENDS = ((0, "finished"), (1, "started"))

BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
"""


def test_a_job_that_dies_costs_one_attempt_and_no_worker(tmp_path, figure):
    total = rounds(short=20, full=400, long=4000)
    with scene_in(tmp_path / "scene", seed=0, **{"backoff-initial": "0.5"}) as scene:
        specs, wanted = [], []
        for number in range(total):
            how, what = list(DEATHS)[number % len(DEATHS)]
            outcome, reason = DEATHS[how, what]
            if number % 2 and how == "die":
                payload = scene.payload(how, signal=signal.Signals[f"SIG{what}"])
                specs.append({"handler": "recorded", "payload": payload, "max_attempts": 2})
            else:
                specs.append({"command": scene.command(how, what), "max_attempts": 2})
            wanted.append((outcome, reason))
        ids = scene.add_all(*specs)
        neighbours = scene.enqueue(total // 4)
        worker = scene.start_worker("-n", "4", "--until-empty")
        assert worker.wait(120) == 0, scene.errors()
        records = {job["id"]: job for job in scene.check(over=True)}
    assert {records[job_id]["state"] for job_id in neighbours} == {"completed"}
    for job_id, (outcome, reason) in zip(ids, wanted, strict=True):
        job = records[job_id]
        assert (job["state"], job["attempts"], job["losses"], job["run"]) == ("dead", 2, 0, 2), job
        assert [run["outcome"] for run in job["history"]] == [outcome] * 2
        assert all(run["error"].startswith(reason) for run in job["history"]), job
        first, second = (datetime.fromisoformat(job["history"][turn][when]) for turn, when in ENDS)
        assert second - first >= timedelta(seconds=0.5), "it was not backed off"
    assert len({run["worker"] for job in records.values() for run in job["history"]}) == 1
    figure("F05 jobs that die", f"{total} jobs, {2 * total} deaths, each with its reason; one worker")


def test_a_job_that_kills_its_worker_is_dead_after_three_losses(tmp_path, figure):
    deaths, neighbours = 0, 0
    total = rounds(short=1, full=15, long=100)
    for number in range(total):
        with scene_in(tmp_path / str(number), seed=number, **{"max-losses": "3"}) as scene:
            command, payload = scene.command("poison"), scene.payload("poison")
            poison = [{"command": command}, {"handler": "recorded", "payload": payload}]
            ids = scene.add_all(*({**poison[each % 2], "priority": each % 4} for each in range(2 + number % 3)))
            others = scene.enqueue(60)
            codes = Counter()
            while not codes[0]:
                codes[scene.start_worker("-n", "4", "--until-empty").wait(60)] += 1
                assert codes[-signal.SIGKILL] <= 3 * len(ids), "poison was tried too often"
            records = {job["id"]: job for job in scene.check(over=True)}
            assert set(codes) == {0, -signal.SIGKILL}, scene.errors()
            for job_id in ids:
                job = records[job_id]
                assert (job["state"], job["losses"], job["attempts"]) == ("dead", 3, 0), job
                assert job["last_error"] == "its worker died while it ran, 3 times in a row"
                assert len([line for line in scene.history.lines(job_id) if line.what == "start"]) == 3
            assert {records[job_id]["state"] for job_id in others} == {"completed"}
            deaths += len(ids)
            neighbours += len(others)
    figure("F09 jobs that kill their worker", f"{deaths} jobs, 3 starts each; 0 of {neighbours} neighbours lost")


@pytest.mark.parametrize(
    ("handler", "reason"), [("exits_at_import", "exit"), ("segfaults_at_import", "signal SIGSEGV")]
)
def test_a_handler_that_kills_whoever_imports_it_costs_its_attempts_alone(tmp_path, figure, handler, reason):
    total = rounds(short=2, full=30, long=300)
    with scene_in(tmp_path / "scene", seed=0) as scene:
        ids = scene.add_all(*[{"handler": handler, "max_attempts": 2, "priority": each % 3} for each in range(total)])
        others = scene.enqueue(5 * total)
        worker = scene.start_worker("-n", "2", "--until-empty")
        assert worker.wait(120) == 0, scene.errors()
        records = {job["id"]: job for job in scene.check(over=True)}
    for job_id in ids:
        job = records[job_id]
        assert (job["state"], job["attempts"], job["losses"]) == ("dead", 2, 0), job
        assert reason in job["last_error"], job
    assert {records[job_id]["state"] for job_id in others} == {"completed"}
    figure(f"F10 {handler.replace('_', ' ')}", f"{2 * total} children died; 0 of {5 * total} neighbours lost")


@pytest.fixture
def few_processes():
    """A cgroup with room for a few dozen processes: its directory."""
    need("pids cgroups")
    directory = Path(cgroupfs.own("pids") or cgroupfs.own()) / f"faults-{os.getpid()}"
    directory.mkdir()
    (directory / "pids.max").write_text("40")
    yield directory
    eventually(lambda: not (directory / "cgroup.procs").read_text())
    directory.rmdir()


def test_a_fork_bomb_costs_its_own_attempt_alone(tmp_path, few_processes, figure):
    """F20: while it rages nothing else can be started, and the worker waits for that."""
    with scene_in(tmp_path / "scene", seed=0, **{"kill-grace": "0.5"}) as scene:
        bomb = [sys.executable, "-c", BOMB]
        (job_id,) = scene.add_all({"command": bomb, "timeout": 1.5, "max_attempts": 1, "priority": 9})
        # Nothing that forks by itself: what such a job makes of a refusal is its own affair
        quick = [{"command": scene.command("quick")}, {"handler": "recorded", "payload": scene.payload("quick")}]
        others = scene.add_all(*(quick * 10))
        prefix = ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(few_processes)]
        worker = scene.start_worker("-n", "3", "--until-empty", prefix=prefix)
        assert worker.wait(100) == 0, scene.errors()
        records = {job["id"]: job for job in scene.check(over=True)}
        refused = int((few_processes / "pids.events").read_text().split()[1])
    job = records[job_id]
    assert refused > 0, "the limit was never reached"
    assert (job["state"], job["attempts"], job["losses"]) == ("dead", 1, 0), job
    assert job["history"][-1]["outcome"] == "timeout"
    for each in others:
        assert (records[each]["state"], records[each]["attempts"]) == ("completed", 0), records[each]
    figure("F20 a fork bomb", f"{refused} forks refused; worker lived, 0 of {len(others)} neighbours lost")
