"""Clients and workers are killed at random instants (F01, F02, F04): nothing acknowledged is lost, nothing has two
outcomes, nothing runs beside itself."""

import json
import os
import signal
import subprocess
import time

from .scene import eventually, scene_in, spread
from .sizes import rounds

KILLS_PER_HOME = 250


def homes(kills):
    """How many kills in each of as many homes as are needed."""
    return [min(KILLS_PER_HOME, kills - done) for done in range(0, kills, KILLS_PER_HOME)]


def test_a_client_that_enqueues_is_killed_at_any_instant(tmp_path, store, figure):
    """F01, programs: each is killed within its first calls."""
    known, jobs = 0, 0
    sizes = homes(rounds(short=150, full=2000, long=9500))
    for home, kills in enumerate(sizes):
        with scene_in(tmp_path / str(home), seed=home, store=store) as scene:
            client = scene.client()
            for _ in range(kills):
                client.stdin.write(f"{scene.numbers(1000).start}\n")
                pid = int(client.stdout.readline())
                scene.pause(0.0, 0.015)
                os.kill(pid, signal.SIGKILL)
                assert int(client.stdout.readline()) == -signal.SIGKILL
            jobs += len(scene.check())
            known += len(scene.history.all_acknowledged())
    assert known, "nothing was enqueued before the end came"
    figure(
        "F01 kills of enqueuing programs",
        f"{sum(sizes)}; 0 of {known} acknowledged jobs lost, {jobs - known} more stored",
    )


def test_the_enqueuing_command_line_is_killed_at_any_instant(tmp_path, store, figure):
    """F01, commands: each is killed between its start and its usual end."""
    kills, known, unknown = 0, 0, 0
    for home, count in enumerate(homes(rounds(short=15, full=250, long=1000))):
        with scene_in(tmp_path / str(home), seed=home, store=store) as scene:
            begin = time.monotonic()
            scene.enqueue(1)
            usual = time.monotonic() - begin
            for turn in range(count):
                numbers = scene.numbers(1 + turn % 3)
                scene.history.asked(numbers)
                path = tmp_path / "specs.jsonl"
                path.write_text("".join(json.dumps(scene.history.spec(number)) + "\n" for number in numbers))
                process = scene.jobq.start("enqueue", "--file", str(path))
                scene.pause(0.3 * usual, usual)
                process.kill()
                ids = process.communicate()[0].decode().split("\n")[:-1]
                killed = process.returncode == -signal.SIGKILL
                kills += killed
                usual *= 1.05 if killed else 0.8  # so that most are killed, however fast the machine is just now
                # What is printed may be cut off anywhere; whole lines are acknowledgements
                scene.history.acknowledged(numbers[: len(ids)], ids)
            jobs = scene.check()
            known += len(scene.history.all_acknowledged())
            unknown += len(jobs) - len(scene.history.all_acknowledged())
            scene.drain()
    figure(
        "F01 kills of `jobq enqueue`", f"{kills}; 0 of {known} acknowledged jobs lost, {unknown} stored and not told"
    )


def test_workers_are_killed_at_any_instant(tmp_path, store, figure):
    """F02: two or three work, one of them is killed and another one started, again and again."""
    kills, jobs, starts, lost, takeovers = 0, 0, 0, 0, []
    for home, count in enumerate(homes(rounds(short=30, full=1000, long=10_000))):
        with scene_in(tmp_path / str(home), seed=home, store=store) as scene:
            workers = []
            while scene.kills < count:
                if scene.kills % 20 == 0 and (fewer := 200 - scene.waiting()) > 0:
                    scene.enqueue(fewer)
                while len(workers) < 3:
                    workers.append(scene.start_worker("-n", "3"))
                scene.pause(0.0, 0.2)
                scene.kill(workers.pop(scene.chance.randrange(3)))
            for worker in workers:
                scene.kill(worker)
            records = scene.drain()
            kills += scene.kills
            jobs += len(records)
            starts += scene.history.starts()
            lost += sum(run["outcome"] == "lost" for job in records for run in job["history"])
            takeovers += scene.takeovers(records)
    assert lost, "no kill hit a worker that held a job"
    figure(
        "F02 kills of workers",
        f"{kills}; {jobs} jobs, {starts} starts, {lost} runs lost; 0 jobs lost, 0 double outcomes, 0 overlaps; "
        f"from kill to next start {spread(takeovers)}",
    )


def test_everybody_is_killed_at_once(tmp_path, store, figure):
    """F04: two workers and two clients in one process group, which is killed."""
    kills, jobs, lost = 0, 0, 0
    total = rounds(short=4, full=60, long=500)
    for home, first in enumerate(range(0, total, 20)):
        with scene_in(tmp_path / str(home), seed=home, store=store) as scene:
            for _ in range(first, min(first + 20, total)):
                group = subprocess.Popen(["sleep", "1000"], process_group=0)
                workers = [scene.start_worker("-n", "3", process_group=group.pid) for _ in range(2)]
                clients = [scene.client(0.01, process_group=group.pid) for _ in range(2)]
                for client in clients:
                    client.stdin.write(f"{scene.numbers(1000).start}\n")
                begun = scene.history.starts()
                assert [client.stdout.readline() for client in clients] != ["", ""]
                eventually(lambda: scene.history.starts() > begun)  # noqa: B023 - asked at once
                scene.pause(0.0, 0.4)
                scene.kill(group, *workers, *clients, group=group.pid)
            scene.check()
            records = scene.drain()
            kills += scene.kills
            jobs += len(records)
            lost += sum(run["outcome"] == "lost" for job in records for run in job["history"])
    assert lost, "no kill hit a worker that held a job"
    figure("F04 all killed at once", f"{total} rounds; {jobs} jobs, {lost} runs lost; 0 jobs lost, 0 double outcomes")
