"""What tests are built from does as it says."""

import os
import time
from datetime import timedelta

import pytest

from jobq import clock as clocks
from jobq.clock import SystemClock, Wake
from jobq.errors import InvalidInput
from jobq.executor import Attempt, Kind, Outcome
from jobq.job import Change
from jobq.output import Capture, Reading
from jobq.store import Wanted
from jobq.testing import (
    START,
    FakeClock,
    FixedRandom,
    MemoryStorage,
    MemoryStore,
    ScriptedExecutor,
    make_context,
    make_info,
    make_job,
    make_settings,
    new,
)


@pytest.fixture
def wake():
    bell = Wake()
    yield bell
    bell.close()


def test_a_fake_clock_stands_still_until_told():
    clock = FakeClock()
    assert (clock.now(), clock.monotonic()) == (START, 0)
    assert clock.advance(1.5) == clock.now() == START + timedelta(seconds=1.5)
    assert clock.monotonic() == 1.5
    clock.step(-3600)
    assert clock.now() == START + timedelta(seconds=1.5 - 3600)
    assert clock.monotonic() == 1.5
    with pytest.raises(ValueError, match="time goes forward"):
        clock.advance(-1)


def test_a_fake_clock_shows_whole_milliseconds_and_loses_nothing():
    clock = FakeClock()
    for _ in range(1000):
        clock.advance(0.0001)
    assert clock.now() == START + timedelta(seconds=0.1)
    clock.advance(0.0009)
    assert clock.now() == START + timedelta(seconds=0.1)


def test_a_wait_takes_its_time_unless_the_bell_rings(wake):
    clock = FakeClock()
    assert clock.wait(wake, 5) is False
    assert clock.monotonic() == 5
    wake.ring()
    wake.ring()
    assert clock.wait(wake, 5) is True
    assert clock.monotonic() == 5, "no time goes by"
    assert clock.wait(wake, -1) is False
    assert clock.monotonic() == 5
    with pytest.raises(AssertionError, match="wait for ever"):
        clock.wait(wake, None)
    wake.ring()
    assert clock.wait(wake, None) is True


def test_the_clocks_agree_on_what_a_wait_answers(wake):
    for clock in (FakeClock(), SystemClock()):
        assert clock.wait(wake, 0) is False
        wake.ring()
        assert clock.wait(wake, 0) is True
        wake.ring()
        assert clock.wait(wake, None) is True
        assert clock.now().microsecond % 1000 == 0


def test_fixed_numbers_come_in_turn():
    chance = FixedRandom(0.1, 0.9)
    assert [chance.random() for _ in range(4)] == [0.1, 0.9, 0.9, 0.9]
    assert FixedRandom().random() == 0.5
    with pytest.raises(ValueError, match="not all in"):
        FixedRandom(1.0)


def test_made_records_are_plain_and_changed_by_what_is_given(tmp_path):
    job = make_job("x", handler="h", priority=1)
    assert (job.id, job.command, job.handler, job.priority, job.run_at) == ("x", None, "h", 1, START)
    assert make_job().id != make_job().id
    assert make_info("w", count=3).count == 3
    assert make_settings(values={"kill-grace": 1})["kill-grace"] == timedelta(seconds=1)
    with pytest.raises(InvalidInput):
        make_settings(values={"kill-grace": "soon"})
    context = make_context(tmp_path / "home", url="x")
    assert (context.home.is_dir(), context.url, dict(context.handlers)) == (True, "x", {})
    with pytest.warns(UserWarning, match="odd"):
        context.warn("odd")


def test_what_json_cannot_carry_does_not_pass_through_memory():
    store = MemoryStore()
    for payload in ({"x": {1, 2}}, float("nan"), b"bytes"):
        with pytest.raises((TypeError, ValueError)):
            store.add(new(make_job(handler="h", payload=payload)), now=START)
    job = store.add(new(make_job("x", handler="h")), now=START)[0]
    with pytest.raises(TypeError):
        store.change(job, Change({"result": object()}), now=START)


def test_memory_tells_of_jobs_whose_worker_never_was():
    storage = MemoryStorage()
    store = MemoryStore(storage)
    presence = store.join(make_info("w"))
    store.add(new(make_job("x")), now=START)
    store.claim(presence, wanted=Wanted(), limit=1, now=START)
    assert store.check() == []
    store.forget(make_info("w"))
    assert store.check() == ["job x is processing with w, which never joined"]


@pytest.fixture
def attempt(tmp_path):
    def attempt(job_id, **fields):
        home = tmp_path / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return Attempt(
            job=make_job(job_id, **fields),
            home=home,
            slot=0,
            jobs_fd=None,
            output=Capture(home, job_id, 1, 10_000),
            kill_grace=timedelta(seconds=1),
            result_limit=1000,
        )

    return attempt


FAILED = Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1)


def test_a_script_says_how_attempts_end(attempt):
    def say_hello(given):
        given.output.write(b"hello")
        return FAILED

    script = {"good": Outcome(kind=Kind.SUCCESS), "bad": FAILED, "loud": say_hello, "long": None}
    executor, ended = ScriptedExecutor(lambda job: script[job.id]), {}
    for name in script:
        executor.start(attempt(name), lambda outcome, name=name: ended.setdefault(name, []).append(outcome))
    assert {name: [each.kind for each in outcomes] for name, outcomes in ended.items()} == {
        "good": [Kind.SUCCESS],
        "bad": [Kind.FAILURE],
        "loud": [Kind.FAILURE],
    }
    assert [each.job.id for each in executor.started] == list(script)
    assert list(Reading(executor.started[2].home, "loud", 1).read()) == [b"hello"]
    executor.running["long"].end(FAILED)
    assert ended["long"] == [FAILED]
    assert executor.running == {}


def test_a_held_attempt_ends_once_however_it_is_told(attempt):
    executor, outcomes = ScriptedExecutor(lambda _job: None), []
    running = executor.start(attempt("x"), outcomes.append)
    running.stop(timedelta(seconds=5))
    running.stop(timedelta())
    running.end()
    assert [outcome.kind for outcome in outcomes] == [Kind.SIGNAL]
    assert running.graces == [timedelta(seconds=5), timedelta()]


def test_an_attempt_may_take_no_notice_of_a_stop(attempt):
    executor, outcomes = ScriptedExecutor(lambda _job: None, stopped=None), []
    running = executor.start(attempt("x"), outcomes.append)
    running.stop(timedelta())
    assert outcomes == []
    executor.close()
    assert [outcome.reason for outcome in outcomes] == ["signal SIGKILL"]
    assert executor.closed


def test_recovery_is_remembered_and_answered():
    executor, info = ScriptedExecutor(), make_info()
    assert executor.recover(info).clean
    assert executor.recovered == [info]


def test_a_wait_beyond_what_poll_can_take_is_a_wait(wake):
    wake.ring()
    assert SystemClock().wait(wake, 100 * 365 * 86400.0)


def test_a_long_wait_is_made_of_short_ones_and_takes_its_time(wake, monkeypatch):
    monkeypatch.setattr(clocks, "LONGEST_POLL", 0.01)
    started = time.monotonic()
    assert not SystemClock().wait(wake, 0.05)
    assert time.monotonic() - started >= 0.05


def test_a_bell_is_closed_at_the_end_of_its_block():
    before = len(os.listdir("/dev/fd"))
    with Wake() as wake:
        wake.ring()
        assert wake.clear()
    assert len(os.listdir("/dev/fd")) == before
    wake.ring()
