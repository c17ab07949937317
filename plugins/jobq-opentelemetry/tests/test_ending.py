import logging
import os
import subprocess
import sys
import threading

import pytest

from jobq_opentelemetry import ending, telling
from jobq_opentelemetry.ending import Ending


@pytest.fixture
def at_end(monkeypatch):
    """An `Ending` that the end of this process does not concern."""
    monkeypatch.setattr(ending.atexit, "register", lambda call: None)
    monkeypatch.setattr(ending.os, "register_at_fork", lambda **calls: None)
    return Ending()


def test_what_was_added_is_called_the_latest_first(at_end):
    called = []
    at_end.add(lambda: called.append(1))
    at_end.add(lambda: called.append(2))
    at_end.end()
    assert called == [2, 1]


def test_one_that_fails_is_told_and_the_next_is_called(at_end, caplog):
    called = []
    at_end.add(lambda: called.append(1))
    at_end.add(lambda: 1 / 0)
    at_end.end()
    assert called == [1]
    assert "division by zero" in caplog.text


def test_one_that_does_not_return_is_not_waited_for(at_end, caplog, monkeypatch):
    monkeypatch.setattr(ending, "FLUSH_SECONDS", 0.01)
    go_on = threading.Event()
    at_end.add(go_on.wait)
    at_end.end()
    assert "within 0.01 s" in caplog.text
    go_on.set()


def test_it_works_in_a_process_that_was_forked(jobq_home):
    """The thread that calls does not come along in a fork; the end of the copy calls all the same."""
    read, write = os.pipe()
    code = f"""
import os
from jobq_opentelemetry.ending import Ending
Ending().add(lambda: os.write({write}, str(os.getpid()).encode() + b" "))
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], pass_fds=[write], check=True)
    os.close(write)
    with open(read, "rb") as file:
        assert len(set(file.read().split())) == 2
    assert done.returncode == 0


@pytest.fixture
def bare(monkeypatch):
    """A logger of OpenTelemetry in a program that has set up no logging."""
    monkeypatch.setattr(logging.Logger, "hasHandlers", lambda self: False)
    for name in ("opentelemetry", "jobq_opentelemetry"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    return logging.getLogger("opentelemetry.exporter.any")


def test_trouble_is_told_in_one_line_now_and_then(bare, capsys, monkeypatch):
    telling.install(quiet=False)
    bare.warning("first\nand more")
    bare.warning("second")
    assert capsys.readouterr() == ("", "jobq: opentelemetry: first\n")
    now = telling.time.monotonic()
    monkeypatch.setattr(telling.time, "monotonic", lambda: now + telling.PAUSE_SECONDS + 1)
    bare.error("third %s", "time")
    bare.info("nothing")
    assert capsys.readouterr().err == "jobq: opentelemetry: third time\n"


def test_in_a_handlers_child_it_is_not(bare, capsys):
    telling.install(quiet=True)
    bare.error("trouble")
    assert capsys.readouterr() == ("", "")


def test_a_programs_own_logging_is_left_alone():
    before = list(logging.getLogger("opentelemetry").handlers)
    assert logging.getLogger("opentelemetry").hasHandlers()
    telling.install(quiet=False)
    assert logging.getLogger("opentelemetry").handlers == before
