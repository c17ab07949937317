"""The notifier `log`: silent unless set; whole lines that no job can forge; nothing secret in them."""

import json
import logging
import os
import stat
import subprocess
import sys
from datetime import timedelta

import pytest

import jobq_log
from jobq.errors import InvalidInput, UnsafeHome
from jobq.events import Event, EventKind
from jobq.job import State
from jobq.options import KERNEL_OPTIONS
from jobq.settings import Settings
from jobq.testing import START, make_job
from jobq_log.sinks import LEVELS, LOGGER


def settings(home=None, **values):
    options = (*KERNEL_OPTIONS, *jobq_log.jobq_options())
    return Settings(options, lambda: ({"log": values}, None), environ={}, home=home)


def event(kind=EventKind.COMPLETED, **fields):
    return Event(kind, make_job("demo", **fields), 1, START)


@pytest.fixture
def logger():
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.handlers[:], logger.propagate
    yield logger
    logger.level, logger.handlers[:], logger.propagate = before


def parsed(line):
    """The facts of a line, read as a program would: split by shell rules, each value as JSON."""
    facts, rest = {}, line
    while rest:
        key, _, rest = rest.partition("=")
        value, end = json.JSONDecoder().raw_decode(rest)
        facts[key], rest = value, rest[end + 1 :]
    return facts


def test_unset_it_is_told_nothing_and_says_nothing(caplog, tmp_path):
    assert all(option.default is None and option.activates for option in jobq_log.jobq_options())
    jobq_log.jobq_notify(event(), settings(tmp_path))
    assert not caplog.records
    assert not list(tmp_path.iterdir())


def test_a_level_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="info or warning or error"):
        settings(level="loud")


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_is_logged_with_its_level(kind, caplog, logger):
    jobq_log.jobq_notify(event(kind), settings(level="info"))
    (record,) = caplog.records
    assert (record.name, record.levelno) == (LOGGER, LEVELS.get(kind, logging.INFO))
    assert parsed(record.message)["event"] == kind.value == record.jobq["event"]


def test_the_level_leaves_out_what_is_below_it(caplog, logger):
    for kind in EventKind:
        jobq_log.jobq_notify(event(kind), settings(level="error"))
    assert [record.jobq["event"] for record in caplog.records] == ["dead"]


def test_a_line_tells_what_happened_to_which_job(caplog, logger):
    failed = event(
        EventKind.FAILED,
        command=("convert", "a b.png"),
        state=State.FAILED,
        attempts=1,
        exit_code=2,
        last_error="exit code 2\nlast lines of output",
        run_at=START + timedelta(seconds=8),
    )
    jobq_log.jobq_notify(failed, settings(level="info"))
    assert parsed(caplog.messages[0]) == {
        "time": "2026-07-11T20:57:58.316Z",
        "event": "failed",
        "id": "demo",
        "run": 1,
        "command": ["convert", "a b.png"],
        "queue": "default",
        "state": "failed",
        "attempts": 1,
        "max_attempts": 3,
        "exit_code": 2,
        "error": "exit code 2",
        "run_at": "2026-07-11T20:58:06.316Z",
    }


HOSTILE = 'x\n2026-01-01 forged event="completed" id="other"\r\x1b[2K\u2028\u202e\x85"'


def test_no_text_of_a_job_can_end_a_line_or_forge_a_fact(caplog, logger, tmp_path):
    hostile = event(EventKind.DEAD, command=HOSTILE, last_error=HOSTILE)
    jobq_log.jobq_notify(hostile, settings(tmp_path, level="info", file="events.jsonl"))
    (line,) = caplog.messages
    (stored,) = (tmp_path / "events.jsonl").read_bytes().splitlines()
    for text in (line, stored.decode()):
        assert text.isascii()
        assert text.isprintable()
    assert parsed(line)["command"] == HOSTILE
    assert json.loads(stored)["command"] == HOSTILE
    assert parsed(line)["id"] == "demo"


def test_payloads_and_variables_are_not_told(caplog, logger, tmp_path):
    told = settings(tmp_path, level="info", file="events.jsonl")
    jobq_log.jobq_notify(event(handler="h", payload={"card": "canary"}), told)
    jobq_log.jobq_notify(event(env={"TOKEN": "canary"}, result="canary"), told)
    assert len(caplog.messages) == 2
    assert "canary" not in caplog.text + (tmp_path / "events.jsonl").read_text()


def test_the_file_gets_whole_lines_is_private_and_may_be_moved_away(tmp_path):
    told = settings(tmp_path, file="events.jsonl")
    before = os.umask(0)
    try:
        jobq_log.jobq_notify(event(), told)
        jobq_log.jobq_notify(event(EventKind.DEAD), told)
        path = tmp_path / "events.jsonl"
        assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["completed", "dead"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.rename(tmp_path / "old")
        jobq_log.jobq_notify(event(), told)
    finally:
        os.umask(before)
    assert len(path.read_text().splitlines()) == 1


def test_the_file_is_never_a_link_or_in_a_directory_that_is_not_there(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(UnsafeHome):
        jobq_log.jobq_notify(event(), settings(tmp_path, file="link"))
    assert victim.read_text() == "mine"
    with pytest.raises(NotADirectoryError, match="no directory"):
        jobq_log.jobq_notify(event(), settings(tmp_path, file="nowhere/events"))


def test_an_absolute_file_is_taken_as_it_is(tmp_path):
    jobq_log.jobq_notify(event(), settings(tmp_path / "home", file=str(tmp_path / "events")))
    assert (tmp_path / "events").exists()


def test_where_logging_is_not_set_up_lines_go_to_stderr():
    code = (
        "import jobq_log; from jobq.testing import make_job, make_settings, START; from jobq.events import *\n"
        "s = make_settings(*jobq_log.jobq_options(), values={'log': {'level': 'info'}})\n"
        "for kind in (EventKind.ENQUEUED, EventKind.DEAD): jobq_log.jobq_notify(Event(kind, make_job(), 0, START), s)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["INFO", "ERROR"]
    assert done.stdout == ""


def test_its_import_is_light():
    code = "import sys, jobq_log; print('logging' in sys.modules, 'jobq_log.sinks' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
