"""What commands say of how far they have come, through the descriptor that $JOBQ_PROGRESS_FD names."""

import os
import signal
import sys
import time
from datetime import timedelta

import pytest

from jobq.executor import Kind
from jobq.progress import Progress

CLOSE = "import os; os.close(int(os.environ['JOBQ_PROGRESS_FD']))"


def test_a_command_tells_how_far_it_has_come(lab, eventually):
    run = lab.start('echo "3/10 resizing" > /dev/fd/$JOBQ_PROGRESS_FD; exec sleep 1000')
    eventually(lambda: lab.progress == [Progress(3, 10, "resizing")])
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SIGNAL
    assert run.output == b""


def test_the_last_word_is_heard_however_late_it_comes(lab):
    for last in ("echo 10/10 done", "printf '10/10 done'"):
        assert lab.run(f"{last} > /dev/fd/$JOBQ_PROGRESS_FD").kind is Kind.SUCCESS
        assert lab.progress.pop() == Progress(10, 10, "done")


def test_a_command_that_says_nothing_and_one_that_talks_nonsense(lab):
    assert lab.run("true").kind is Kind.SUCCESS
    assert lab.run("head -c 3000000 /dev/urandom > /dev/fd/$JOBQ_PROGRESS_FD; exit 3").exit_code == 3
    assert lab.run([sys.executable, "-c", CLOSE]).kind is Kind.SUCCESS


def test_a_flood_is_heard_now_and_then(lab, eventually):
    run = lab.start("exec yes 1/2 flood > /dev/fd/$JOBQ_PROGRESS_FD")
    eventually(lambda: len(lab.progress) > 5)
    start, before = time.monotonic(), len(lab.progress)
    eventually(lambda: time.monotonic() > start + 0.5)
    heard, passed = len(lab.progress) - before, time.monotonic() - start
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SIGNAL
    assert set(lab.progress) == {Progress(1, 2, "flood")}
    assert heard <= passed / 0.02 + 2


def test_output_and_progress_go_side_by_side(lab):
    loop = (
        "import os, sys\nfor n in range(1, 2001):\n os.write(int(os.environ['JOBQ_PROGRESS_FD']), b'%d/2000\\n' % n)\n"
    )
    loop += " print(n)"
    run = lab.start([sys.executable, "-c", loop])
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output.split() == [b"%d" % n for n in range(1, 2001)]
    assert lab.progress[-1] == Progress(2000, 2000)
    assert lab.progress == sorted(lab.progress, key=lambda progress: progress.done)


@pytest.mark.parametrize("adopts", [False])
def test_a_descriptor_that_is_held_open_delays_nothing(lab, ungrouped):
    """By something that has let go of everything else, where nothing finds it."""
    escape = "env -i setsid sh -c 'echo $$; exec sleep 1000' >pid 2>&1 & until [ -s pid ]; do sleep 0.01; done; cat pid"
    run = lab.start(f"{escape}; exit 5", grace=60)
    (pid,) = run.printed(1)
    try:
        assert run.outcome.exit_code == 5
        assert any(name.startswith("pipe:") for name in _links(pid))
    finally:
        os.kill(pid, signal.SIGKILL)


def _links(pid):
    return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]


def test_any_shell_can_write_to_the_descriptor(jobq):
    """Some take numbers of one digit only; a worker has one, as long as nobody takes it before."""
    jobs = [jobq.add(shell='echo "1/2 half" >&$JOBQ_PROGRESS_FD && echo $JOBQ_PROGRESS_FD') for _ in range(8)]
    jobq.run_all("--count", "4")
    for job in jobs:
        assert jobq.state(job) == "completed"
        assert jobq("logs", job).stdout.strip() in set("3456789")
