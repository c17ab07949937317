"""The lines of a worker: one for each attempt that ended, written by a thread that holds up nobody."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import redirect_stdout
from datetime import timedelta

import pytest

from jobq.cli import lines as module
from jobq.cli.lines import BATCH_SECONDS, MOST_KEPT, Lines, line, told
from jobq.job import Run, State
from jobq.summary import Summary
from jobq.testing import START, make_job


def ended(state, job_id="a", *, outcome="completed", seconds=2, **fields):
    finished = START + timedelta(seconds=seconds)
    run = Run(run=1, worker="w", host="h", started=START, finished=finished, outcome=outcome)
    return make_job(job_id, state=state, updated_at=finished, history=(run,), **fields)


class Stream:
    """A stdout that may be stopped, as a terminal is by Ctrl-S."""

    def __init__(self):
        self.writes = []
        self.goes = threading.Event()
        self.goes.set()
        self.error = None

    def isatty(self):
        return False

    def write(self, text):
        assert self.goes.wait(30)
        if self.error is not None:
            raise self.error
        self.writes.append(text)

    def flush(self):
        pass


@pytest.fixture
def stream():
    return Stream()


def test_a_line_tells_what_became_of_the_attempt():
    assert line(ended(State.COMPLETED))[10:] == "a  completed after 2s  [true]\n"
    failed = ended(
        State.FAILED,
        attempts=1,
        last_error="exit code 3\nsome output",
        run_at=START + timedelta(seconds=5),
        outcome="failed",
    )
    assert line(failed)[10:] == "a  failed after 2s: exit code 3; attempt 2/3 in 3s  [true]\n"
    assert line(ended(State.PENDING, outcome="released"))[10:] == "a  handed back after 2s  [true]\n"
    snoozed = ended(State.PENDING, outcome="released", run_at=START + timedelta(seconds=5))
    assert line(snoozed)[10:] == "a  snoozed after 2s; again in 3s  [true]\n"
    assert line(ended(State.DEAD, last_error="\x1b[2J"))[10:] == "a  dead after 2s: \\x1b[2J  [true]\n"


def test_the_summary_counts_what_there_was():
    assert told(Summary()) == "worker ended: 0 completed"
    counted = Summary(completed=3, failed=2, dead=1, cancelled=4, snoozed=8, released=5, discarded=6, left=7)
    assert told(counted) == (
        "worker ended: 3 completed, 3 failed attempts, 1 dead, 4 cancelled, 8 snoozed, 5 handed back, 6 discarded; "
        "7 left waiting"
    )


def test_every_job_is_told_in_order_before_the_end(stream):
    with redirect_stdout(stream), Lines(quiet=False) as lines:
        for number in range(5000):
            lines(ended(State.COMPLETED, f"job-{number}"))
    text = "".join(stream.writes)
    assert [each.split()[1] for each in text.splitlines()] == [f"job-{number}" for number in range(5000)]


def test_lines_are_written_ten_times_a_second_at_most(stream):
    begun = time.monotonic()
    with redirect_stdout(stream), Lines(quiet=False) as lines:
        for number in range(40):
            lines(ended(State.COMPLETED, f"job-{number}"))
            time.sleep(0.005)
        took = time.monotonic() - begun
    assert len(stream.writes) <= took / BATCH_SECONDS + 2, "the first at once, the last at the end"


def test_a_stopped_terminal_holds_up_nobody_and_its_lines_are_bounded(stream):
    stream.goes.clear()
    with redirect_stdout(stream), Lines(quiet=False) as lines:
        for number in range(MOST_KEPT + 2000):
            lines(ended(State.COMPLETED, f"job-{number}"))
        stream.goes.set()
    text = "".join(stream.writes).splitlines()
    left_out = [each for each in text if each.startswith("… and ")]
    assert len(left_out) == 1
    assert len(text) - 1 + int(left_out[0].split()[2]) == MOST_KEPT + 2000


def test_a_terminal_that_is_gone_is_let_be(stream, monkeypatch):
    abandoned = []
    monkeypatch.setattr(module, "abandon", abandoned.append)
    stream.error = OSError(errno.EIO, os.strerror(errno.EIO))
    with redirect_stdout(stream), Lines(quiet=False) as lines:
        for number in range(5):
            lines(ended(State.COMPLETED, f"job-{number}"))
    assert stream.writes == []
    assert abandoned == [1]


def test_quiet_tells_nothing(stream):
    with redirect_stdout(stream), Lines(quiet=True) as lines:
        lines(ended(State.COMPLETED))
    assert stream.writes == []
