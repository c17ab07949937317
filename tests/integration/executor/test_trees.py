"""A job is its process tree: whatever shape it has, nothing of it is left, and nothing else is touched."""

import errno
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from jobq import processes
from jobq.executor import Kind

DOUBLE_FORK = """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.write(write, b"!")
        if "closed" in sys.argv:
            os.closerange(0, 64)
        time.sleep(1000)
    os._exit(0)
os.read(read, 1)
os.wait()
"""


def after_word(script):
    """Runs `script` in the background, with a FIFO as its first argument, and goes on when it has written a word
    there: what must be so before the leader ends is so, however slow the machine is."""
    return f"""f=$(mktemp -u); mkfifo "$f"
sh -c '{script}' sh "$f" &
read word < "$f"; rm "$f"; echo $word"""


# Each prints the pid of something it starts.
SHAPES = {
    "child": "sleep 1000 & echo $!",
    "pipeline": "sleep 1000 | sleep 1000 & echo $!",
    "grandchild": after_word('sleep 1000 & echo $! > "$1"; sleep 1000'),
    "session": "setsid sleep 1000 & echo $!",
    "deaf": after_word('trap "" TERM; echo $$ > "$1"; while :; do sleep 1; done'),
    "stopped": after_word('echo $$ > "$1"; kill -STOP $$'),
    "double fork": f"{sys.executable} -c '{DOUBLE_FORK}'",
    "double fork, closed": f"{sys.executable} -c '{DOUBLE_FORK}' closed",
    "double fork, cleared": f"env -i {sys.executable} -c '{DOUBLE_FORK}'",
    "double fork, both": f"env -i {sys.executable} -c '{DOUBLE_FORK}' closed",
}
UNSEEN = {"double fork, cleared": ["plain"], "double fork, both": ["plain", "adopting"]}
"""By what means which of them cannot be found."""


@pytest.fixture(params=["adopting", "grouping", "plain"])
def finds(request, groupable):
    """By what means what has gone astray is found: it was adopted, it is in the attempt's cgroup, or neither."""
    if request.param != "grouping":
        request.getfixturevalue("ungrouped")
    elif not groupable:
        pytest.skip("no cgroups can be made here")
    return request.param


@pytest.fixture
def adopts(finds):
    return finds != "plain"


def shapes(*without):
    return pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in without])


@shapes()
def test_a_timeout_ends_the_tree(lab, finds, monkeypatch, gone, shape):
    monkeypatch.setattr("jobq_subprocess.supervision.PIPE_GRACE", 0.2)
    wait = "wait; " if "fork" not in shape else ""
    run = lab.start(f"{SHAPES[shape]}\n{wait}while :; do sleep 1000; done", timeout=0.5, grace=0.1)
    (pid,) = run.printed(1)
    assert run.outcome.kind is Kind.TIMEOUT
    if finds in UNSEEN.get(shape, ()):
        assert not gone(pid)
        os.kill(pid, signal.SIGKILL)
    else:
        assert gone(pid)


@shapes(*UNSEEN)
def test_a_stop_ends_the_tree(lab, gone, shape):
    run = lab.start(f"{SHAPES[shape]}\nwhile :; do sleep 1000; done")
    (pid,) = run.printed(1)
    run.running.stop(timedelta(seconds=0.1))
    assert run.outcome.kind is Kind.SIGNAL
    assert gone(pid)


@shapes(*UNSEEN)
@pytest.mark.parametrize("code", [0, 7])
def test_what_is_left_over_is_ended_and_the_outcome_is_the_leaders(lab, gone, shape, code):
    run = lab.start(f"{SHAPES[shape]}\nexit {code}", grace=0.1)
    (pid,) = run.printed(1)
    assert run.outcome.exit_code == code
    assert run.outcome.finished is not None
    assert gone(pid)


def test_what_is_left_over_may_end_politely(lab):
    polite = after_word('trap "echo told; exit" TERM; echo ready > "$1"; while :; do sleep 0.01; done')
    run = lab.start(polite, grace=60)
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output.startswith(b"ready\n")
    assert run.output.endswith(b"told\n")


def test_a_stop_shortens_the_wait_for_what_is_left_over(lab, eventually, gone):
    run = lab.start(SHAPES["deaf"] + "; echo 1", grace=3600)
    leftover, _ = run.printed(2)
    assert not gone(leftover)
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SUCCESS
    assert gone(leftover)


def test_a_timeout_does_not_concern_what_is_left_over(lab):
    run = lab.start("sh -c 'trap \"\" TERM; sleep 1000 & wait; wait' & exit 0", timeout=0.1, grace=0.3)
    assert run.outcome.kind is Kind.SUCCESS


def test_a_holder_of_the_pipe_that_cannot_be_found_is_not_waited_for(lab, finds, monkeypatch, gone):
    if finds != "plain":
        pytest.skip("it is found there")
    monkeypatch.setattr("jobq_subprocess.supervision.PIPE_GRACE", 0.2)
    run = lab.start(f"{SHAPES['double fork, cleared']}; exit 7", grace=0.0)
    (pid,) = run.printed(1)
    try:
        assert run.outcome.exit_code == 7
        assert not gone(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_fork_race_is_won(lab):
    forking = "while :; do (trap '' TERM; setsid sleep 1000) & done"
    run = lab.start(f"ulimit -u 4000; {forking}", timeout=0.1, grace=0.05)
    assert run.outcome.kind is Kind.TIMEOUT


def test_adopted_processes_are_reaped(lab, monkeypatch, eventually):
    monkeypatch.setattr("jobq_subprocess.orphans.UNCLAIMED", 0.1)
    earlier = {p.pid for p in processes.all_processes() if p.parent == os.getpid()}  # of other tests
    run = lab.start("for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &); (setsid sleep 0.01 &); done; sleep 0.2; echo done")
    assert run.outcome.kind is Kind.SUCCESS
    assert lab.run("true").kind is Kind.SUCCESS

    def reaped():
        lab.executor._around.orphans.reap()
        mine = (p for p in processes.all_processes() if p.parent == os.getpid() and p.pid not in earlier)
        return not [p for p in mine if p.dead]

    eventually(reaped)


@pytest.mark.parametrize("session", [False, True])
def test_children_of_others_are_neither_ended_nor_reaped(lab, session):
    other = subprocess.Popen(["sleep", "1000"], start_new_session=session)
    try:
        for command in ("true", "sleep 1000 & exit 0", "(setsid sleep 1000 &)"):
            assert lab.run(command, grace=0.1).kind is Kind.SUCCESS
        assert other.poll() is None
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert lab.run("sleep 1000 & exit 0").kind is Kind.SUCCESS
        assert other.wait() == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


def test_jobs_side_by_side_keep_their_processes(lab, gone):
    """What one has let go of in the background is not taken for a leftover of another."""
    keeper = lab.start("(setsid sleep 1000 & echo $!); while :; do sleep 1000; done")
    (pid,) = keeper.printed(1)
    for _ in range(3):
        assert lab.run("(sleep 1000 &)").kind is Kind.SUCCESS
    assert not gone(pid)
    keeper.running.stop(timedelta(seconds=5))
    assert keeper.outcome.kind is Kind.SIGNAL
    assert gone(pid)


def test_what_takes_no_signal_from_us_is_told_of_and_left(lab, finds, monkeypatch, eventually, gone):
    """A job's set-uid program belongs to somebody else."""
    if finds == "grouping":
        pytest.skip("it is killed with its cgroup there")

    def refuse(target, number):
        raise PermissionError

    told = []
    monkeypatch.setattr("jobq_subprocess.tree.STUCK", 0.1)
    monkeypatch.setattr("jobq_subprocess.tree.processes.send", refuse)
    object.__setattr__(lab.executor._around, "warn", told.append)
    run = lab.start("sleep 1000 >/dev/null 2>&1 & echo $!", grace=0.0)
    (pid,) = run.printed(1)
    assert run.outcome.kind is Kind.SUCCESS
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid))
    assert told == [f"processes of a job do not end after KILL (pid {pid})"]


def test_the_tree_of_what_cannot_be_watched_is_ended(lab, monkeypatch, eventually, gone):
    pid_file = lab.home / "pid"
    pidfd_open = os.pidfd_open
    faults = [OSError(errno.EMFILE, "Too many open files")]

    def fail_once(pid):
        if faults:
            eventually(pid_file.exists)
            raise faults.pop()
        return pidfd_open(pid)

    monkeypatch.setattr("os.pidfd_open", fail_once)
    outcome = lab.run("setsid sleep 1000 >/dev/null 2>&1 & echo $! > it; mv it pid; sleep 1000")
    assert outcome.kind is Kind.RELEASED
    assert gone(int(pid_file.read_text()))


def test_what_is_left_over_is_ended_once_there_are_descriptors_again(lab, monkeypatch, gone):
    listed = processes.all_processes
    faults = [OSError(errno.EMFILE, "Too many open files") for _ in range(5)]

    def fail_first():
        if faults:
            raise faults.pop()
        return listed()

    monkeypatch.setattr("jobq.processes.all_processes", fail_first)
    run = lab.start("setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 7", grace=5)
    assert run.outcome.exit_code == 7
    assert faults == []
    assert gone(*run.printed(1))


def test_what_a_handler_leaves_behind_is_ended(lab, gone):
    child, left = lab.handle("leaves", "daemon", grace=0.2).result
    assert gone(left)
    assert lab.handle("about").result["pid"] == child


def test_a_handler_and_its_tree_are_ended(lab, gone):
    run = lab.start(handler="sleeps", payload="stubborn")
    pids = run.printed(2)
    run.running.stop(timedelta(seconds=0.1))
    assert run.outcome.kind is Kind.SIGNAL
    assert all(gone(pid) for pid in pids)


def test_recovery_looks_in_the_home(lab):
    from jobq.testing import make_info

    assert lab.executor.recover(make_info()).clean
    elsewhere = lab.executor.recover(make_info(boot_id="another", host="elsewhere"))
    assert not elsewhere.clean
    assert "elsewhere" in elsewhere.why
