"""Attempts in cgroups of their own: what no other means finds is ended all the same, and nothing is left of them."""

import os
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path

import pytest

from jobq.executor import Kind
from jobq.job import new_id
from jobq_subprocess import cgroup, cgroupfs

pytestmark = pytest.mark.usefixtures("grouped")

ESCAPE = "env -i setsid sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- >&- 2>&-; exec sleep 1000' & echo $!"
"""A process with a session of its own, without environment and output; prints its pid."""

JOINED = "until grep -q /jobq- /proc/self/cgroup; do sleep 0.01; done"
"""A job's shell and what it starts after this are in the job's group."""

WORKER = textwrap.dedent("""
    import os, subprocess, sys, threading
    from jobq_subprocess.groups import Groups
    leader = subprocess.Popen(["/bin/sh", "-c", sys.argv[2]], start_new_session=True)
    _, group = Groups().start(sys.argv[1], lambda: leader)
    print(group.path, flush=True)
    threading.Event().wait()
""")


@pytest.fixture
def adopts():
    return False


@pytest.fixture
def directory(lab):
    """The directory of this worker's groups."""
    return Path(cgroupfs.own()) / f"jobq-{lab.worker}"


class DeadWorker:
    """A worker that was killed, what it had started (`script`, which prints a pid), and where that lives."""

    def __init__(self, script):
        self.id = new_id()
        argv = [sys.executable, "-c", WORKER, self.id, f"{JOINED}\n{script}\nexec sleep 1000"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
            try:
                told = [worker.stdout.readline().decode().strip() for _ in range(2)]
                (group,) = (line for line in told if line.startswith("/"))  # which of them comes first is open
                told.remove(group)
                self.group, self.pid = Path(group), int(*told)
            finally:
                worker.kill()


def test_an_attempt_is_in_a_group_while_it_runs(lab, directory, gone, eventually):
    run = lab.start(f"{JOINED}; (sleep 1000 & echo $!); cat /proc/self/cgroup; exec sleep 1000")
    (pid,) = eventually(lambda: b"0::" in run.output and [run.output.split()[0]])
    (group,) = directory.glob("[0-9]*")
    assert int(pid) in map(int, (group / "cgroup.procs").read_text().split())
    assert f"/jobq-{lab.worker}/{group.name}\n" in run.output.decode()
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SIGNAL
    assert gone(int(pid))
    assert (group / "cgroup.procs").read_text() == ""
    lab.executor._around.close()
    assert not directory.exists()


def test_what_escaped_by_every_other_way_is_ended_at_the_end(lab, gone):
    run = lab.start(f"{JOINED}; ({ESCAPE}); exit 7", grace=0.1)
    assert run.outcome.exit_code == 7
    assert gone(*run.printed(1))


@pytest.mark.parametrize("adopts", [True])
def test_what_escapes_at_once_is_ended_too(lab, gone):
    """Before its leader was moved, and with nothing left that tells whose it is."""
    script = "for _ in 1 2 3 4 5 6 7 8 9 10; do " + ESCAPE + "; done"
    runs = [lab.start(script, grace=0.1) for _ in range(5)]
    pids = [pid for run in runs for pid in run.printed(10)]
    assert [run.outcome.kind for run in runs] == [Kind.SUCCESS] * 5
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.parametrize("adopts", [True])
def test_a_worker_is_in_a_group_of_its_own_and_goes_back_at_its_end(lab, directory, gone):
    before = cgroupfs.own()
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        assert lab.run("true").kind is Kind.SUCCESS
        assert cgroupfs.own() == f"{directory}/worker"
        another = subprocess.Popen(["sleep", "1000"])
        assert lab.run("true").kind is Kind.SUCCESS
        lab.executor._around.close()
        assert cgroupfs.own() == before
        assert (gone(stranger.pid), gone(another.pid)) == (False, False), "they are no job's"
    finally:
        for process in (stranger, another):
            process.kill()
            process.wait()
    cgroup.recover(lab.worker)
    assert not directory.exists()


def test_a_job_that_stops_its_own_group_is_ended_and_the_next_one_runs(lab):
    freeze = "echo 1 > /proc/self/root$GROUP/cgroup.freeze; sleep 1000"
    root = cgroupfs.own()
    find = f'GROUP={root}/jobq-$JOBQ_WORKER/$(basename "$(grep ^0:: /proc/self/cgroup)")'
    assert lab.run(f"{JOINED}; {find}; {freeze}", timeout=1.5, grace=0.1).kind is Kind.TIMEOUT
    assert lab.run(f"{JOINED}; true").kind is Kind.SUCCESS


def test_what_a_job_puts_into_groups_below_its_own_is_ended(lab, directory, gone):
    find = f'G={directory}/$(basename "$(grep ^0:: /proc/self/cgroup)")'
    move = "setsid sleep 1000 & echo $! > $G/below/cgroup.procs; echo $!"
    run = lab.start(f"{JOINED}; {find}; mkdir $G/below; {move}; exit 3", grace=0.1)
    assert run.outcome.exit_code == 3
    assert gone(*run.printed(1))
    lab.executor._around.close()
    assert not directory.exists()


def test_recovery_ends_what_no_marker_and_no_lock_shows(gone):
    worker, other = DeadWorker(f"({ESCAPE})"), DeadWorker(f"({ESCAPE})")
    try:
        assert not gone(worker.pid)
        assert cgroup.recover(worker.id) == []
        assert gone(worker.pid)
        assert not worker.group.parent.exists()
        assert not gone(other.pid)
        assert cgroup.recover(worker.id) == []
    finally:
        assert cgroup.recover(other.id) == []
    assert gone(other.pid)


def test_recovery_from_inside_a_group_spares_itself_and_its_ancestors(lab, tmp_path, gone):
    """What a dead worker has left may be the one that looks after it."""
    program = "import sys; from jobq_subprocess import cgroup; print(cgroup.recover(sys.argv[1]))"
    worker = DeadWorker("sleep 1000 & echo $!")
    script = f'echo $$ > {worker.group}/cgroup.procs; "$@"; echo $?'
    argv = ["/bin/sh", "-c", script, "sh", sys.executable, "-c", program, worker.id]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"[]\n0\n", done.stderr
    assert gone(worker.pid)
    assert cgroup.recover(worker.id) == []
    assert not worker.group.exists()


def test_what_cannot_be_ended_is_told(monkeypatch):
    monkeypatch.setattr(cgroup, "END_WAIT", 0.1)
    worker = DeadWorker("sleep 1000 & echo $!")
    with monkeypatch.context() as context:
        context.setattr("jobq_subprocess.cgroup.Group.kill", lambda _: None)
        context.setattr("jobq.processes.send", lambda *_: True)
        assert worker.pid in cgroup.recover(worker.id)
    assert cgroup.recover(worker.id) == []


def test_a_worker_that_a_job_starts_leaves_the_jobs_group(gone):
    """It is no part of the job, and does not end with it."""
    program = "import os; from jobq_subprocess import cgroup; cgroup.leave(); print(os.getpid(), flush=True)"
    daemon = f"setsid {sys.executable} -c '{program}; import time; time.sleep(1000)' &"
    worker = DeadWorker(daemon)
    try:
        assert cgroup.recover(worker.id) == []
        assert not gone(worker.pid)
    finally:
        os.kill(worker.pid, 9)
