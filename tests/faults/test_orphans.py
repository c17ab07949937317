"""A worker is killed while its jobs live, in whatever shape: no run begins before the last process of the one before
it is gone (F06, F07, F08)."""

import shlex
import sys

import pytest

from jobq_subprocess import cgroupfs

from .capabilities import need
from .scene import PROGRAMS, eventually, scene_in, spread
from .sizes import rounds

CLOSED = (
    f"{shlex.quote(sys.executable)} -c 'import os, sys; os.closerange(0, 4096); os.execvp(sys.argv[1], sys.argv[1:])'"
)
ENDED = 'until grep -q "^end $JOBQ_RUN " "$log"; do sleep 0.02; done'

SHAPES = {
    "leader": "exec JOB",
    "child": "JOB & wait",
    "pipeline": "JOB | cat",
    "setsid": f"setsid JOB & {ENDED}",
    "double fork": f"(setsid JOB &); {ENDED}",
    "closed": f"(setsid {CLOSED} JOB &); {ENDED}",
    "cleared": f"(env -i setsid JOB &); {ENDED}",
    "cleared and closed": f"(env -i setsid {CLOSED} JOB &); {ENDED}",
}
"""Lines for the shell in which JOB stands for the process that is the job."""

ESCAPES = ("setsid", "double fork", "closed", "cleared", "cleared and closed")
UNSEEN = "cleared and closed"
"""What only its cgroup shows once its worker is dead, as docs/promises.md says."""


def line(scene, shape):
    """The command of a job of this shape, whose run 1 goes on until it is killed, and whose run 2 ends at once."""
    job = shlex.join([str(PROGRAMS / "job"), str(scene.history.directory), "long", "0"])
    runs = shlex.quote(str(scene.history.directory / "runs"))
    return f"log={runs}/$JOBQ_JOB_ID; {SHAPES[shape].replace('JOB', f'sh {job} $JOBQ_JOB_ID $JOBQ_RUN', 1)}"


@pytest.fixture(params=["with cgroups", "without"])
def grouped(request):
    """Whether workers can give each attempt a cgroup."""
    need("cgroups" if request.param == "with cgroups" else "mounts")
    return request.param == "with cgroups"


@pytest.fixture
def prefix(grouped):
    """What a worker is started with."""
    if grouped or (own := cgroupfs.own()) is None:
        return []
    mount = next(each.point for each in cgroupfs.mounts(read("/proc/self/mountinfo")) if own.startswith(each.point))
    return ["unshare", "-m", "sh", "-c", 'umount "$0" && exec "$@"', mount]


def read(path):
    with open(path) as file:
        return file.read()


def test_no_run_begins_beside_what_is_left_of_the_one_before(tmp_path, grouped, prefix, figure):
    takeovers, begun, escaped = [], 0, set()
    total = rounds(short=1, full=12, long=100)
    with scene_in(tmp_path / "scene", seed=0) as scene:
        for _ in range(total):
            victim = scene.start_worker("-n", str(len(SHAPES)), prefix=prefix)
            ids = scene.add_all(*({"command": line(scene, shape)} for shape in SHAPES))
            eventually(lambda: all(scene.history.lines(job_id) for job_id in ids))  # noqa: B023 - asked at once
            other = scene.start_worker("-n", str(len(SHAPES)), prefix=prefix)
            eventually(lambda: len(scene.jobq("worker", "list", "--json").json) == 2)
            scene.kill(victim)
            scene.jobq("wait", *ids)
            if any(each.what == "overlap" for each in scene.history.lines(ids[-1])):
                escaped.add(ids[-1])
            records = scene.check(besides=escaped)
            for job in records:
                assert [run["outcome"] for run in job["history"]] == ["lost", "completed"], job
            for job_id in escaped:
                scene.history.end(job_id)
            scene.jobq.stop(other)
        records = scene.drain(besides=escaped)
        takeovers = scene.takeovers(records)
        begun = scene.history.starts()
    assert len(escaped) == (0 if grouped else total), f"of {total} times it was not found {len(escaped)} times"
    how = "with cgroups" if grouped else "without cgroups"
    caught = len(ESCAPES) - bool(escaped)
    figure(
        f"F06 to F08 {how}",
        f"{total} workers killed, {begun} starts, 0 overlaps; {caught} of {len(ESCAPES)} escapes caught; "
        f"from kill to next start {spread(takeovers)}",
    )
