"""`logs` of what ran on another machine: the store has the end of it, that machine the whole."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from jobq import processes
from jobq.app import App
from jobq.cli.base import Globals
from jobq.cli.logs import logs_command
from jobq.executor import Kind, Outcome
from jobq.lifecycle import after
from jobq.output import Capture
from jobq.queue import Queue
from jobq.store import Ended, Wanted
from jobq.testing import FakeClock, MemoryStore, make_info, make_job, new


class Desk:
    """A queue in memory, and a worker on some machine."""

    def __init__(self, tmp_path):
        self.app = App(
            home=str(tmp_path / "home"), environ={}, clock=FakeClock(), warn=pytest.fail, store=MemoryStore()
        )
        self.app.create_home()

    def claim(self, job_id, host):
        now = self.app.clock.now()
        self.app.store.add(new(make_job(job_id)), now=now)
        member = self.app.store.join(make_info(host=host, name="w"))
        (claim,) = self.app.store.claim(member, wanted=Wanted(), limit=1, now=now).claims
        return member, claim

    def run(self, job_id, host, tail, **fields):
        member, claim = self.claim(job_id, host)
        now = self.app.clock.now()
        outcome = Outcome(**{"kind": Kind.SUCCESS, "exit_code": 0, "tail": tail} | fields)
        change = after(claim, outcome, now=now, delay=lambda *_: None, keep_tail=True)
        assert not self.app.store.finish(member, [Ended(claim, change)], now=now)

    def logs(self, *arguments):
        state = Globals()
        state.__dict__.update(app=self.app, queue=Queue(self.app), quiet=False)
        return CliRunner().invoke(logs_command, arguments, obj=state)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_the_end_of_what_ran_on_another_machine_is_shown_and_where_the_whole_is(desk):
    desk.run("far", "elsewhere", "the last\nlines\n")
    result = desk.logs("far")
    assert result.stdout == "the last\nlines\n"
    assert "the end of what run 1 printed; elsewhere keeps all of it" in result.stderr


def test_only_as_many_lines_as_asked_for(desk):
    desk.run("far", "elsewhere", "the last\nlines\n")
    assert desk.logs("far", "-n", "1").stdout == "lines\n"


def test_what_ran_there_and_printed_nothing_is_said_to_have_printed_nothing(desk):
    desk.run("far", "elsewhere", "")
    result = desk.logs("far")
    assert result.stdout == ""
    assert "run 1 of job far printed nothing" in result.stderr
    assert "elsewhere" not in result.stderr


def test_what_could_not_be_started_is_told_with_the_reason(desk):
    desk.run("ns", processes.host(), "", kind=Kind.CANNOT_START, reason="no such file: nosuchcmd", exit_code=None)
    assert "run 1 of job ns could not be started: no such file: nosuchcmd" in desk.logs("ns").stderr


def test_what_runs_there_now_is_said_to_run_there(desk):
    desk.claim("far", "elsewhere")
    result = desk.logs("far")
    assert result.stdout == ""
    assert "run 1 of job far runs on elsewhere; its output is there until it ends" in result.stderr


def test_whole_output_that_is_here_goes_before_the_end_of_it_in_the_store(desk):
    desk.run("near", processes.host(), "the end\n")
    capture = Capture(desk.app.home.path, "near", 1, 1 << 20)
    capture.write(b"all of it, and the end\n")
    capture.close()
    assert desk.logs("near").stdout == "all of it, and the end\n"


def test_what_is_gone_from_here_is_told_by_its_end(desk):
    desk.run("near", processes.host(), "the end\n")
    result = desk.logs("near")
    assert result.stdout == "the end\n"
    assert "the end of what run 1 printed; the whole is not here any more" in result.stderr


def test_follow_shows_the_end_when_it_has_ended_elsewhere(desk):
    desk.run("far", "elsewhere", "lines\n")
    assert desk.logs("far", "--follow").stdout == "lines\n"
