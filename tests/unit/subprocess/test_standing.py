"""What a handler changes of its process: put back, or found changed."""

import os
import resource
import signal

import pytest

from jobq_subprocess.standing import Standing


@pytest.fixture
def in_a_process():
    """`in_a_process(change)`: whether a process, in which that was done, is as before; and what `look` finds in it."""

    def run(change, look=lambda: True):
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                standing = Standing()
                change()
                code = 1 - (standing.restore() and look())
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 1), code
        return code == 0

    return run


def blocked():
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


PUT_BACK = {
    "directory": (lambda: os.chdir("/"), lambda: os.getcwd() != "/"),
    "umask": (lambda: os.umask(0o123), lambda: os.umask(0) != 0o123),
    "mask": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}),
        lambda: signal.SIGUSR1 not in blocked(),
    ),
    **{
        f"timer {timer}": (
            lambda timer=timer: signal.setitimer(timer, 1000),
            lambda timer=timer: signal.getitimer(timer)[0] == 0.0,
        )
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    },
}


@pytest.mark.parametrize("what", PUT_BACK)
def test_what_can_be_put_back_is(in_a_process, tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    assert in_a_process(*PUT_BACK[what])


def pend():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    os.kill(os.getpid(), signal.SIGALRM)


def limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


FOR_GOOD = {
    "a signal that waits": pend,
    "limits": limit,
    "nice value": lambda: os.nice(1),
    "input": lambda: os.dup2(os.open("/dev/zero", os.O_RDONLY), 0),
    "output": lambda: os.dup2(os.open("/dev/null", os.O_WRONLY), 1),
    "no errors": lambda: os.close(2),
}


@pytest.mark.parametrize("what", FOR_GOOD)
def test_what_cannot_be_put_back_is_found(in_a_process, what):
    assert not in_a_process(FOR_GOOD[what])


def test_nothing_is_found_where_nothing_was_changed(in_a_process):
    assert in_a_process(lambda: None)


def test_a_directory_that_was_removed_is_nowhere_to_go_back_to(in_a_process, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert in_a_process(lambda: os.rmdir(tmp_path / "here"))
