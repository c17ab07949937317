"""A large queue that is moved back and forth while workers and enqueuers are about it, by movers that are killed."""

import json
import subprocess
import sys
import time

import pytest

from .capabilities import need
from .machines import living
from .scene import PROGRAMS, eventually, scene_in
from .sizes import rounds
from .stores import SQLITE

PATIENCE = 600.0
"""Seconds for a command that reads or moves all of the jobs."""

KEPT = rounds(short=300, full=100_000, long=500_000)
"""Jobs that only wait."""

MOVES = rounds(short=3, full=8, long=60)

LATER = "2100-01-01T00:00:00Z"


def kept(scene):
    """What is told of the jobs that only wait, in order."""
    text = scene.jobq("export", "-q", "kept", timeout=PATIENCE).stdout
    return text.splitlines()


@pytest.mark.parametrize("there", ["json:there", "sqlite:"])
def test_a_queue_is_moved_under_load_by_movers_that_are_killed(tmp_path, there, figure):
    """Every job is there exactly once as it was; what runs meanwhile runs as if nothing had been moved."""
    if there == SQLITE.url:
        need(SQLITE.module)
    with scene_in(tmp_path / "scene", seed=0) as scene:
        ids = [f"kept-{number}" for number in range(KEPT)]
        spec = {"command": "false", "queue": "kept", "run_at": LATER}
        lines = "".join(json.dumps(spec | {"id": job_id}) + "\n" for job_id in ids)
        scene.jobq("enqueue", "-", input=lines, timeout=PATIENCE)
        scene.jobq("pause", "quiet", "--reason", "so")
        before = kept(scene)
        workers = [scene.start_worker("-n", "2", "-q", "q0", "-q", "q1") for _ in range(2)]
        eventually(lambda: len(living(scene.jobq.home)) == 2)
        command = [sys.executable, str(PROGRAMS / "followers.py"), str(scene.history.directory), "2"]
        followers = subprocess.Popen(command, env=scene.jobq.environ, stdin=subprocess.PIPE)
        scene.jobq.processes.append(followers)
        took, killed = [], 0
        for number in range(MOVES):
            url = (there, "json:")[number % 2]
            told = len(scene.told())
            eventually(lambda told=told: len(scene.told()) > told + 5)
            longest = max(took, default=2.0)
            while scene.chance.random() < 0.7:
                mover = scene.jobq.start("move", "--to", url)
                scene.pause(0.0, longest)
                if mover.poll() is None:
                    mover.kill()
                    killed += 1
                mover.communicate()
            begun = time.monotonic()
            scene.jobq("move", "--to", url, timeout=PATIENCE)
            took.append(time.monotonic() - begun)
            assert scene.jobq("config", "get", "store").stdout.strip() == url
            assert kept(scene) == before
        followers.stdin.close()
        assert followers.wait(60) == 0
        for worker in workers:
            assert worker.poll() is None, scene.errors()
            assert scene.jobq.stop(worker) == 0, scene.errors()
        jobs = scene.drain(besides=set(ids))
        assert kept(scene) == before
        assert scene.jobq("status", "--json").json["queues"]["quiet"]["reason"] == "so"
        runs = [run for job in jobs for run in job["history"]]
        assert {run["outcome"] for run in runs} <= {"completed", "failed", "released"}
    figure(
        f"a queue moved under load to {there} and back",
        f"{KEPT} jobs that wait, 2 workers, 2 enqueuers: {MOVES} moves, {killed} movers killed before their end; "
        f"{len(jobs)} jobs were enqueued and done meanwhile; a move took {max(took):.1f} s at most",
    )
