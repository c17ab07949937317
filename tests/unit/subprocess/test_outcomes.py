"""The words for how processes end and why some do not begin."""

import errno
import os
from datetime import timedelta

import pytest

from jobq.executor import Kind
from jobq.testing import START, make_job
from jobq_subprocess import outcomes


@pytest.mark.parametrize("status", range(1, 256))
def test_every_exit_code_is_told(status):
    outcome = outcomes.of_status(status, command=True, tail="t", finished=START)
    assert (outcome.kind, outcome.reason, outcome.exit_code) == (Kind.FAILURE, f"exit code {status}", status)
    assert (outcome.tail, outcome.finished) == ("t", START)


@pytest.mark.parametrize("number", range(1, 65))
def test_every_signal_is_told(number):
    outcome = outcomes.of_status(-number, command=True, tail="", finished=None)
    assert (outcome.kind, outcome.exit_code) == (Kind.SIGNAL, None)
    assert outcome.reason.startswith("signal ")


@pytest.mark.parametrize(
    ("status", "kills", "reason"),
    [
        (-9, 0, "signal SIGKILL"),
        (-9, 1, "signal SIGKILL (out of memory?)"),
        (137, 2, "exit code 137 (out of memory?)"),
        (137, 0, "exit code 137"),
        (-15, 1, "signal SIGTERM"),
        (1, 1, "exit code 1"),
        (0, 1, None),
    ],
)
def test_a_kill_is_put_down_to_want_of_memory_where_the_kernel_killed_for_that(status, kills, reason):
    outcome = outcomes.of_status(status, command=True, tail="", finished=None, memory_kills=kills)
    assert outcome.reason == reason


def test_a_handlers_process_that_ends_by_itself_has_failed():
    for status in (0, 3):
        outcome = outcomes.of_status(status, command=False, tail="", finished=None)
        assert (outcome.kind, outcome.reason, outcome.exit_code) == (
            Kind.FAILURE,
            f"the handler's process ended, exit code {status}",
            None,
        )


def test_a_timeout_is_told_with_its_length():
    outcome = outcomes.of_timeout(make_job(timeout=timedelta(minutes=90)), tail="", finished=None)
    assert (outcome.kind, outcome.reason) == (Kind.TIMEOUT, "timed out after 1h30m")


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_what_the_machine_lacks_is_not_the_jobs_fault(code):
    outcome = outcomes.of_start(OSError(code, os.strerror(code)), make_job())
    assert outcome.kind is Kind.RELEASED
    assert os.strerror(code) in outcome.reason
    assert outcome.delay == outcomes.RETURNED_FOR


def test_a_program_that_is_being_written_may_be_tried_again():
    outcome = outcomes.of_start(OSError(errno.ETXTBSY, "Text file busy", "x"), make_job())
    assert outcome.kind is Kind.FAILURE


def test_a_directory_that_may_not_be_entered(tmp_path):
    closed = tmp_path / "closed"
    error = PermissionError(errno.EACCES, "Permission denied", os.fsencode(closed))
    outcome = outcomes.of_start(error, make_job(cwd=str(closed)))
    assert (outcome.kind, outcome.reason) == (Kind.CANNOT_START, f"cannot enter directory: {closed}")


def test_reasons_are_one_line_of_bounded_length():
    name = b"/no/\n\x1b]0;title\x07\xff" + b"x" * 5000
    outcome = outcomes.of_start(FileNotFoundError(errno.ENOENT, "No such file or directory", name), make_job())
    assert outcome.reason.startswith("no such file: /no/\\n\\x1b]0;title\\x07")
    assert outcome.reason.isprintable()
    assert len(outcome.reason) < 600
