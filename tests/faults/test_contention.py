"""Many processes want the store at once (F37): each has its turn, and who is killed while it has the lock keeps nobody
waiting."""

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time

from .machines import living, stored
from .scene import PROGRAMS, eventually, ills, scene_in
from .sizes import rounds

LONGEST = rounds(short=30, full=5, long=5)
"""Seconds that one enqueue may wait for the others at most, beside what the machine makes everybody wait; in the short
size only what jobq itself takes for a fault."""

PATIENCE = 600.0
"""Seconds for a command that looks at all of the jobs."""

WAITER = """
import jobq, sys
with jobq.Queue.open() as queue:
    queue.counts()
    print("open", flush=True)
    for line in sys.stdin:
        print("asks", flush=True)
        print(queue.enqueue(command="true").id, flush=True)
"""


def start(scene, *argv):
    """Start a program that is talked to by lines, of which none waits in a buffer."""
    pipe = subprocess.PIPE
    command, environ = [sys.executable, *map(str, argv)], scene.jobq.environ
    process = subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, bufsize=0)
    scene.jobq.processes.append(process)
    return process


def said(process):
    """The next line that it prints."""
    return process.stdout.readline().decode().rstrip("\n")


def test_each_of_many_that_enqueue_at_once_has_its_turn(tmp_path, store, figure):
    count, workers = rounds(short=8, full=50, long=50), rounds(short=2, full=8, long=8)
    seconds = rounds(short=5, full=600, long=1800) / 10
    with scene_in(tmp_path / "scene", seed=0, store=store) as scene:
        started = [scene.start_worker() for _ in range(workers)]
        eventually(lambda: len(living(scene.jobq.home)) == workers)
        contenders = start(scene, PROGRAMS / "contenders.py", scene.history.directory, count, seconds)
        assert said(contenders) == "ready"
        contenders.stdin.write(b"\n")
        machine = max(json.loads(said(contenders)))
        taken = [json.loads(said(contenders)) for _ in range(count)]
        assert contenders.wait(60) == 0
        eventually(scene.told)
        for worker in started:
            assert scene.jobq.stop(worker) == 0, scene.errors()
        jobs = [
            json.loads(line)
            for line in scene.jobq("list", "--jsonl", "--limit", "100000000", timeout=PATIENCE).stdout.splitlines()
        ]
        assert scene.history.wrong(jobs, told=scene.told()) == []
        assert ills(scene.jobq("doctor", "--json", code=None, timeout=PATIENCE).json["checks"]) == []
    done = sum(job["state"] == "completed" for job in jobs)
    calls = [call for each in taken for call in each]
    assert min(map(len, taken)) > 0
    assert len(calls) == len(jobs)
    assert max(calls) <= LONGEST + machine
    figure(
        "F37 contention",
        f"{count} programs, {workers} workers: {len(calls) / seconds:.0f} jobs enqueued and {done / seconds:.0f} done "
        f"each second; an enqueue took {1000 * statistics.median(calls):.1f} ms in the median, "
        f"{1000 * max(calls):.0f} ms at most, where one that takes no lock waited {1000 * machine:.0f} ms; "
        f"each program had {min(map(len, taken))} to {max(map(len, taken))}",
    )


def test_a_lock_whose_holder_is_killed_is_free_at_once(tmp_path, store, figure):
    """It is killed in the middle of a write, while others wait."""
    total, freed = rounds(short=3, full=150, long=1000), []
    with scene_in(tmp_path / "scene", seed=0, store=store) as scene:
        ids = scene.add_all({"command": ["true"]})
        waiters = [start(scene, "-c", WAITER) for _ in range(rounds(short=2, full=10, long=10))]
        assert {said(waiter) for waiter in waiters} == {"open"}
        holders = start(scene, PROGRAMS / "holders.py", scene.jobq.home)
        for _ in range(total):
            holders.stdin.write(b"\n")
            pid = int(said(holders))
            for waiter in waiters:
                waiter.stdin.write(b"\n")
            assert {said(waiter) for waiter in waiters} == {"asks"}
            scene.pause(0.0, 0.1)
            assert select.select(waiters_out(waiters), [], [], 0)[0] == [], "the lock was not held"
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            answers = [said(waiter) for waiter in waiters]
            freed.append(time.monotonic() - killed)
            assert all(answers), "it was not freed"
            assert int(said(holders)) == -signal.SIGKILL
            ids += answers
        assert sorted(job.id for job in stored(scene.jobq.home)) == sorted(ids)
        scene.check()
    assert max(freed) <= LONGEST
    figure(
        "F37 holders of the lock killed",
        f"{total}, each in the middle of a write; {len(waiters)} others waited, and all had enqueued after "
        f"{1000 * statistics.median(freed):.0f} ms in the median, {1000 * max(freed):.0f} ms at most",
    )


def waiters_out(waiters):
    """What is read of them."""
    return [waiter.stdout for waiter in waiters]
