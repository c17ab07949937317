"""Jobs that take more memory than there is (F11): what the kernel kills for it is told for what it was, and a worker that
it kills costs its jobs a loss, not an attempt."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from jobq_subprocess import cgroupfs

from .capabilities import need
from .scene import eventually
from .sizes import rounds
from .watched import Watched

ROOM = 60 << 20
"""Bytes that a job may hold."""
WORKERS_ROOM = 160 << 20
"""Bytes for a worker with all of its jobs, of which it holds a fifth itself, and a process for handlers another one."""

EATS = "x = []\nwhile True: x.append(b'x' * (1 << 20))"
SPARED = "open('/proc/self/oom_score_adj', 'w').write('0')\n"
"""The kernel takes the worker first where that asks for it; what it starts does so too unless it says otherwise."""


class Groups:
    """Memory cgroups below the one of this process, each with little room."""

    def __init__(self):
        self._v1 = cgroupfs.own("memory")
        self._parent = Path(self._v1 or cgroupfs.own())
        self.made = []

    def make(self, room):
        """One more: its directory."""
        made = self._parent / f"faults-{os.getpid()}-{len(self.made)}"
        made.mkdir()
        self.made.append(made)
        limits = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] if self._v1 else ["memory.max"]
        for name in limits:
            with contextlib.suppress(FileNotFoundError):
                (made / name).write_text(str(room))
        return made

    def kills(self, group):
        """How many the kernel has killed in it."""
        name = "memory.oom_control" if self._v1 else "memory.events"
        return int((group / name).read_text().partition("oom_kill ")[2].split()[0])

    def close(self):
        for group in self.made:
            eventually(lambda group=group: not (group / "cgroup.procs").read_text())
            group.rmdir()


@pytest.fixture
def groups():
    need("root", "memory cgroups")
    groups = Groups()
    yield groups
    groups.close()


def into(group):
    """The words before a command that is to be run in a cgroup."""
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(group)]


def test_a_job_that_is_killed_for_its_memory_is_a_failed_attempt(jobq, groups, figure):
    """In a cgroup of its own: the worker and its other jobs have room."""
    total = rounds(short=1, full=30, long=300)
    group = groups.make(ROOM)
    watched = Watched(jobq)
    ids = watched.add(*[{"command": [*into(group), sys.executable, "-c", EATS], "max_attempts": 2}] * total)
    others = watched.add(*[{"command": "true"}] * 2 * total)
    watched.start("-n", "2")
    for job in watched.ended(ids):
        assert (job.state, job.attempts, job.losses) == ("dead", 2, 0), job
        told = [(run.outcome, run.error.partition(" (")[0]) for run in job.history]
        assert told == [("signal", "signal SIGKILL")] * 2
    assert {job.state for job in watched.ended(others)} == {"completed"}
    watched.stop()
    assert groups.kills(group) >= 2 * total
    figure("F11 jobs killed for their memory", f"{2 * total} of {2 * total} as signal SIGKILL, one worker")


def test_a_worker_that_is_killed_for_a_jobs_memory_costs_losses_and_ends(tmp_path, new_cli, groups, figure):
    """The kernel may take either of them: here it takes the worker, and then the job."""
    total = rounds(short=1, full=10, long=100)
    kills = 0
    for number in range(total):
        group = groups.make(WORKERS_ROOM)
        watched = Watched(new_cli(tmp_path / str(number)))
        (job_id,) = watched.add({"command": [sys.executable, "-c", SPARED + EATS], "priority": 9})
        others = watched.add(*[{"command": "true"}] * 10)
        prefix = into(group)
        prefix[2] = "echo 1000 >/proc/self/oom_score_adj; " + prefix[2]
        codes = []
        while not codes or codes[-1]:
            codes.append(watched.start("-n", "2", "--until-empty", prefix=prefix).wait(60))
            assert len(codes) <= 4, watched.told()
            # As long as the job goes on to eat, a worker that begins could be killed before it has begun anything
            eventually(lambda group=group: not (group / "cgroup.procs").read_text())
        jobs = watched.jobs()
        job = jobs[job_id]
        assert codes == [-9, -9, -9, 0]
        assert (job.state, job.losses, job.attempts) == ("dead", 3, 0), job
        assert job.last_error == "its worker died while it ran, 3 times in a row"
        assert {jobs[each].state for each in others} == {"completed"}
        kills += groups.kills(group)
    figure("F11 workers killed for a job's memory", f"{3 * total} workers, {kills} kills; the job dead after 3 losses")
