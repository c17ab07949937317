"""Signals and deaths in the narrow places: between a claim and the job's start, between the job's end and its record
(F15), in the middle of a recovery (F18), and between what a recovery has seen and what it writes (F19)."""

import ctypes
import os
import signal
from pathlib import Path

import pytest

from .capabilities import need
from .machines import stored
from .scene import RECOVER, eventually, scene_in
from .sizes import rounds
from .stores import JSON, SQLITE

TRACE = ["strace", "-f", "-D", "-qq", "-o", os.devnull]
"""The traced program is the process that was started; strace itself goes to the background."""

LONG = 60_000_000
"""Microseconds for which a call is held up, unless it is let go before."""

POINTS = {
    JSON: {"flock": 22, "write": 7, "fdatasync": 4, "fsync": 1, "rename": 3, "unlink": 8},
    SQLITE: {"flock": 25, "write": 7, "pwrite64": 40, "fdatasync": 7, "fsync": 1, "rename": 3, "unlink": 11},
}
"""Of what system calls a recovery of a worker with three jobs consists, as far as others can see it, and how many."""


@pytest.fixture(autouse=True)
def _strace():
    need("strace")


def tracer_of(process):
    """The pid of the strace that holds up a call of this process, once it does: the process then stands still."""
    still = 0

    def stands_still():
        nonlocal still
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        still = still + 1 if fields[0] == "t" else 0
        return still > 15

    eventually(stands_still)
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("TracerPid:")[2].split()[0])


def send(process, number):
    """Send a signal to the main thread, where it waits until that goes on.

    Any other thread would be stopped by strace to be asked about it, and with the end of strace it would be lost.
    """
    assert ctypes.CDLL(None).tgkill(process.pid, process.pid, number) == 0


def let_go(tracer):
    """End strace; the call that it held up goes on."""
    assert Path(f"/proc/{tracer}/comm").read_text() == "strace\n"
    os.kill(tracer, signal.SIGKILL)


def one(scene, job_id):
    """The record of a job whose history no client wrote."""
    return next(job for job in scene.records() if job["id"] == job_id)


def kill_with_jobs(scene):
    """Have a worker killed while it runs a command, a session of its own, and a handler; the ids of those jobs."""
    victim = scene.start_worker("-n", "3")
    command = scene.command("long")
    payload = scene.payload("long")
    specs = [{"command": command}, {"command": ["setsid", "-w", *command]}, {"handler": "recorded", "payload": payload}]
    ids = scene.add_all(*specs)
    eventually(lambda: all(scene.history.lines(job_id) for job_id in ids))
    scene.kill(victim)
    return ids


PLACES = {
    JSON: {
        "claimed": ("pwrite64", f"delay_exit={LONG}:when=1"),
        "ended": ("pwrite64", f"delay_enter={LONG}:when=2"),
    },
    SQLITE: {
        "claimed": ("flock", f"delay_enter={LONG}:when=4"),
        "ended": ("flock", f"delay_enter={LONG}:when=5"),
    },
}
"""What is held up: the claim has been written, or the record is to be. To SQLite's log much is written at once, so it is
the turn that is not given back, or not taken."""


@pytest.mark.parametrize("act", ["TERM", "QUIT", "KILL"])
def test_a_signal_before_the_start_and_before_the_record(tmp_path, store, figure, act):
    """F15: it comes between a claim and the job's start, or between the job's end and its record."""
    total = rounds(short=2, full=16, long=100)
    with scene_in(tmp_path / "scene", seed=0, store=store) as scene:
        specs = [{"command": scene.command("quick")}, {"handler": "recorded", "payload": scene.payload("quick")}]
        for turn in range(total):
            place = list(PLACES[store])[turn % 2]
            (job_id,) = scene.add_all(specs[turn // 2 % 2])
            worker = until(scene, store, place, job_id)
            tracer = tracer_of(worker)
            send(worker, signal.Signals[f"SIG{act}"])
            let_go(tracer)
            code = worker.wait(30)
            job = one(scene, job_id)
            starts = [line.what for line in scene.history.lines(job_id)].count("start")
            if act == "KILL":
                assert code == -signal.SIGKILL
                assert (job["state"], starts) == ("processing", place == "ended")
            else:
                assert code in (0, 143), scene.errors()
                assert (job["state"], starts) in (("completed", 1), ("pending", 0)), job
                assert place == "claimed" or starts == 1
            assert job["attempts"] == 0
            scene.drain()
    figure(f"F15 {act}", f"{total} times between claim and start, or end and record; 0 stuck, 0 lost")


def until(scene, store, place, job_id):
    """A worker that has just claimed this job, or at whose hands it has just ended."""
    (path,) = (scene.jobq.home / "queue").glob("journal-*.jsonl") if store is JSON else [scene.jobq.home / store.lock]
    call, fault = PLACES[store][place]
    prefix = [*TRACE, "-P", str(path), "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    worker = scene.start_worker(prefix=prefix)
    if place == "claimed":
        eventually(lambda: [job.state for job in stored(scene.jobq.home) if job.id == job_id] == ["processing"])
        assert scene.history.lines(job_id) == [], "the start was not held up"
    else:
        eventually(lambda: [line.what for line in scene.history.lines(job_id)] == ["start", "end"])
    return worker


def test_who_recovers_is_killed_at_every_step(tmp_path, store, figure):
    """F18: the loss is recorded once, whoever completes the recovery."""
    points = [(call, number) for call, count in POINTS[store].items() for number in range(1, count + 1)]
    points = points[rounds(short=8, full=0, long=0) :: rounds(short=24, full=1, long=1)] * rounds(
        short=1, full=1, long=5
    )
    hit = 0
    with scene_in(tmp_path / "scene", seed=0, store=store) as scene:
        for call, number in points:
            ids = kill_with_jobs(scene)
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
            reaper = scene.start_worker(*RECOVER, prefix=[*TRACE, *inject])
            code = reaper.wait(30)
            assert code in (0, -signal.SIGKILL), scene.errors()
            hit += code == -signal.SIGKILL
            assert scene.start_worker(*RECOVER).wait(30) == 0, scene.errors()
            for job in scene.check():
                if job["id"] in ids:
                    assert (job["state"], job["losses"], len(job["history"])) == ("pending", 1, 1), (call, number, job)
            scene.drain()
    assert hit > 0.8 * len(points), f"{hit} of {len(points)}"
    figure("F18 recoveries killed", f"{hit} at {len(points)} points; each of {3 * len(points)} losses recorded once")


def test_a_recovery_that_was_held_up_changes_nothing_that_went_on(tmp_path, store, figure):
    """F19: it has seen what is lost and is to take the store's lock; others recover and run the jobs meanwhile."""
    total, hit = rounds(short=2, full=60, long=1000), 0
    with scene_in(tmp_path / "scene", seed=0, store=store) as scene:
        for turn in range(total):
            ids = kill_with_jobs(scene)
            lock = str(scene.jobq.home / store.lock)
            # The seventh is for the first job that it gives back, the ninth for the second
            inject = f"inject=flock:delay_enter={LONG}:when={7 + 2 * (turn % 3)}"
            held_up = scene.start_worker(*RECOVER, prefix=[*TRACE, "-P", lock, "-e", "trace=flock", "-e", inject])
            tracer = tracer_of(held_up)
            before = [job["state"] for job in scene.records() if job["id"] in ids].count("processing")
            hit += before == 3 - turn % 3  # else it has looked around once more before
            assert scene.start_worker("--until-idle", "-n", "4").wait(30) == 0, scene.errors()
            assert {one(scene, job_id)["state"] for job_id in ids} == {"completed"}
            let_go(tracer)
            assert held_up.wait(30) == 0, scene.errors()
            for job in scene.drain():
                assert [run["outcome"] for run in job["history"]] == ["lost", "completed"], (turn, job)
    assert hit > 0.8 * total, f"{hit} of {total}"
    figure("F19 recoveries held up", f"{hit} of {total} came too late; 0 outcomes overwritten")
