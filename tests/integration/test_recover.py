"""Recovery of a worker that was killed: everything it left behind on this host is ended, and nothing else."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from jobq import orphans, presence, processes
from jobq.job import new_id
from jobq.testing import make_info

WORKER = textwrap.dedent("""
    import json, os, pathlib, subprocess, sys, threading
    from jobq.presence import FilePresence
    from jobq.testing import make_info

    directory, worker_id, shape = sys.argv[1:]
    held = FilePresence(pathlib.Path(directory), make_info(worker_id, pid=os.getpid()))
    environ = os.environ | {"JOBQ_WORKER": worker_id, "JOBQ_JOB_ID": "job", "JOBQ_RUN": "1"}
    close = "exec 0>&- 1>&- 2>&- %d>&-" % held.jobs_fd
    commands = {
        "plain": "echo $$; exec sleep 1000",
        "tree": "sleep 1000 & sleep 1000 | sleep 1000 & echo $!; wait",
        "session": "setsid sleep 1000 & echo $!; wait",
        "double fork": "(setsid sleep 1000 & echo $!)",
        "deaf": "trap '' TERM HUP INT; echo $$; while :; do sleep 1; done",
        "stopped": "echo $$; kill -STOP $$",
        "closed": "echo $$; %s; exec sleep 1000" % close,
        "cleared": "echo $$; exec env -i sleep 1000",
        "cleared and closed": "echo $$; %s; exec env -i sleep 1000" % close,
    }
    subprocess.Popen(["/bin/sh", "-c", commands[shape]], env=environ, pass_fds=(held.jobs_fd,), start_new_session=True)
    threading.Event().wait()
""")


class DeadWorker:
    """A worker that was killed, and the pid of what it had started."""

    def __init__(self, directory, shape):
        self.info = make_info(new_id())
        self.directory = directory / "workers"
        argv = [sys.executable, "-c", WORKER, str(self.directory), self.info.id, shape]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
            self.pid = int(worker.stdout.readline())
            assert presence.is_alive(self.directory, self.info.id)
            deadline = time.monotonic() + 30
            while "cleared" in shape and processes.carries(self.pid, f"JOBQ_WORKER={self.info.id}".encode()):
                assert time.monotonic() < deadline
                time.sleep(0.005)
            worker.send_signal(signal.SIGKILL)
        assert not presence.is_alive(self.directory, self.info.id)

    def recover(self):
        return orphans.recover(self.directory, self.info)


def gone(pid):
    found = processes.process(pid)
    return found is None or found.dead


@pytest.mark.parametrize("shape", ["plain", "tree", "session", "double fork", "deaf", "stopped", "closed"])
def test_what_a_dead_worker_left_is_ended(tmp_path, shape):
    worker = DeadWorker(tmp_path, shape)
    other = DeadWorker(tmp_path, "plain")
    bystander = subprocess.Popen(["sleep", "1000"], env=os.environ | {"JOBQ_WORKER": f"{worker.info.id}x"})
    try:
        assert not gone(worker.pid)
        recovered = worker.recover()
        assert (recovered.clean, recovered.why) == (True, "")
        assert gone(worker.pid)
        assert not gone(other.pid)
        assert bystander.poll() is None
        assert worker.recover().clean
    finally:
        bystander.kill()
        bystander.wait()
        assert other.recover().clean


def test_what_cleared_its_environment_is_found_by_the_lock_it_holds(tmp_path):
    worker = DeadWorker(tmp_path, "cleared")
    assert worker.recover().clean
    assert gone(worker.pid)


def test_whoever_only_looks_at_the_lock_is_let_be(tmp_path):
    worker = DeadWorker(tmp_path, "cleared")
    (lock,) = tmp_path.rglob("*.jobs")
    with lock.open("rb") as looking:
        observer = subprocess.Popen(["sleep", "600"], stdin=looking)
    try:
        assert worker.recover().clean
        assert observer.poll() is None
    finally:
        observer.kill()
        observer.wait()


def test_what_cannot_be_found_but_holds_the_lock_keeps_the_claims(tmp_path, monkeypatch):
    monkeypatch.setattr(orphans, "ORPHAN_WAIT", 0.2)
    monkeypatch.setattr(processes, "holders", lambda path: [])
    worker = DeadWorker(tmp_path, "cleared")
    try:
        recovered = worker.recover()
        assert not recovered.clean
        assert "jobs lock" in recovered.why
        assert not gone(worker.pid)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
    assert worker.recover().clean


def test_what_cleared_and_closed_everything_is_not_seen(tmp_path):
    """The one escape there is, as the documentation says."""
    worker = DeadWorker(tmp_path, "cleared and closed")
    try:
        assert worker.recover().clean
        assert not gone(worker.pid)
    finally:
        os.kill(worker.pid, signal.SIGKILL)


def test_the_one_that_recovers_and_its_ancestors_are_spared(tmp_path):
    """A job that itself asks for the recovery of its dead worker is not its victim."""
    worker = DeadWorker(tmp_path, "plain")
    program = (
        "import pathlib, sys; from jobq import orphans; from jobq.testing import make_info;"
        "print(orphans.recover(pathlib.Path(sys.argv[1]), make_info(sys.argv[2])).clean)"
    )
    command = f'{sys.executable} -c "$PROGRAM" {worker.directory} {worker.info.id}; echo $?'
    environ = os.environ | {"JOBQ_WORKER": worker.info.id, "PROGRAM": program}
    done = subprocess.run(["/bin/sh", "-c", command], env=environ, capture_output=True, check=True)
    assert done.stdout == b"True\n0\n", done.stderr
    assert gone(worker.pid)


def test_nothing_is_signalled_whose_identity_has_changed(tmp_path):
    """A pid that was given to somebody else meanwhile belongs to them."""
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        now = processes.process(bystander.pid)
        before = processes.Process(now.pid, now.parent, now.session, now.start_time - 1, dead=False)
        assert not processes.send(before, signal.SIGKILL)
        assert processes.await_end(before, seconds=0)
        assert bystander.poll() is None
        assert processes.send(now, signal.SIGKILL)
        assert bystander.wait() == -signal.SIGKILL
        assert not processes.send(now, signal.SIGKILL)
    finally:
        bystander.kill()
        bystander.wait()


def test_workers_of_other_machines_and_boots(tmp_path):
    directory = tmp_path / "workers"
    rebooted = make_info(boot_id="before")
    assert orphans.recover(directory, rebooted).clean
    elsewhere = make_info(boot_id="before", host="elsewhere")
    recovered = orphans.recover(directory, elsewhere)
    assert not recovered.clean
    assert "elsewhere" in recovered.why
