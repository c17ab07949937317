"""Processes as /proc shows them, and signals that hit nobody else."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from jobq import processes
from jobq.job import new_id

pytestmark = pytest.mark.skipif(not processes.visible(), reason="no /proc or no pidfd here")


@pytest.fixture
def marker():
    return f"JOBQ_TEST_{new_id()}={new_id()}"


@pytest.fixture
def start():
    """Starts processes that say so and then wait for their end."""
    started = []

    def start(marker=None, script="pass"):
        environ = dict(os.environ)
        if marker is not None:
            name, _, value = marker.partition("=")
            environ[name] = value
        code = f"import sys\n{script}\nprint('up', flush=True)\nsys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_this_process_is_seen():
    me = processes.process(os.getpid())
    assert (me.pid, me.parent, me.session, me.dead) == (os.getpid(), os.getppid(), os.getsid(0), False)
    assert me.start_time > 0
    assert me in list(processes.all_processes())
    assert processes.process(1 << 30) is None


def test_a_name_with_brackets_and_blanks_is_no_trouble(start):
    child = start(script="open('/proc/self/comm', 'w').write(') R 1 (x')")
    found = processes.process(child.pid)
    assert (found.parent, found.dead) == (os.getpid(), False)


def test_the_boot_has_a_name():
    assert processes.boot_id() == processes.boot_id() != ""


def test_ancestors_are_the_line_to_the_first_process():
    line = processes.ancestors(os.getpid())
    assert {os.getpid(), os.getppid()} <= line
    assert processes.ancestors(1 << 30) == {1 << 30}


def test_carriers_carry_exactly_the_marker(start, marker):
    name, _, value = marker.partition("=")
    carrier = start(marker)
    for other in (f"{name}={value}x", f"{name}x={value}", f"X{name}={value}", f"OTHER={marker}"):
        start(other)
    assert [found.pid for found in processes.carriers(marker.encode())] == [carrier.pid]
    assert processes.carries(carrier.pid, marker.encode())
    assert not processes.carries(carrier.pid, value.encode())
    assert not processes.carries(1 << 30, marker.encode())


def test_a_process_and_its_ancestors_are_not_among_its_own_carriers(marker):
    inner = (
        "import os, sys; from jobq import processes;"
        "print([p.pid for p in processes.carriers(sys.argv[1].encode())], flush=True)"
    )
    outer = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]], check=True)"
    name, _, value = marker.partition("=")
    done = subprocess.run(
        [sys.executable, "-c", outer, marker, inner],
        env=os.environ | {name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_zombie_is_dead(start, marker):
    child = start(marker)
    alive = processes.process(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    assert processes.await_end(alive, seconds=30)
    assert processes.process(child.pid).dead, "not reaped yet"
    assert processes.carriers(marker.encode()) == []
    assert not processes.send(alive, signal.SIGTERM)
    child.wait()
    assert processes.process(child.pid) is None
    assert not processes.send(alive, signal.SIGTERM)
    assert processes.await_end(alive, seconds=0)


def test_a_signal_reaches_the_process_that_was_meant(start):
    child = start()
    assert processes.send(processes.process(child.pid), signal.SIGTERM)
    assert child.wait(30) == -signal.SIGTERM


def test_a_pid_that_was_given_to_another_is_not_hit(start):
    child = start()
    former = replace(processes.process(child.pid), start_time=1)
    assert not processes.send(former, signal.SIGKILL)
    assert processes.await_end(former, seconds=0), "the one that was meant has ended"
    assert child.poll() is None


def test_waiting_for_what_goes_on_ends_too(start):
    assert not processes.await_end(processes.process(start().pid), seconds=0.01)


def test_everything_found_is_killed_until_nothing_is_found(start, marker):
    children = [start(marker) for _ in range(3)]
    bystander = start()
    left = processes.kill_all(lambda: processes.carriers(marker.encode()), seconds=30)
    assert left == []
    assert [child.wait(30) for child in children] == [-signal.SIGKILL] * 3
    assert bystander.poll() is None


def test_what_cannot_be_killed_is_answered(start):
    former = replace(processes.process(start().pid), start_time=1)
    assert processes.kill_all(lambda: [former], seconds=0.05) == [former]


@pytest.mark.parametrize(
    "look", [lambda: processes.process(1), lambda: processes.carries(1, b"A=1"), lambda: processes.carriers(b"A=1")]
)
def test_out_of_descriptors_is_not_taken_for_nothing_there(monkeypatch, look):
    def full(*args, **kwargs):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(OSError, match="Too many open files"):
        look()


def test_a_process_in_the_middle_of_an_exec_is_looked_at_again(monkeypatch):
    """At that moment its environment reads as empty."""
    read = iter([b"", b"", b"A=1\0B=2\0"])

    class Environ:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def read(self):
            return next(read)

    real = open

    def opened(path, *args, **kwargs):
        return Environ() if str(path).endswith("environ") else real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", opened)
    assert processes.carries(os.getpid(), b"A=1")


def test_kernel_threads_and_cleared_environments_cost_no_time_to_speak_of():
    process = subprocess.Popen(["env", "-i", "/bin/sleep", "600"])
    try:
        assert not processes.carries(process.pid, b"A=1")
    finally:
        process.kill()
        process.wait()
