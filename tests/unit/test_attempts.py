"""The attempts that a worker has under way."""

from __future__ import annotations

import gc
import weakref

import pytest

from jobq.attempts import Attempts
from jobq.executor import Executor, Kind, Outcome, Recovered, Running
from jobq.job import State
from jobq.store import Claim
from jobq.testing import FakeClock, make_job, make_settings


class Knowing(Running):
    """An attempt under way that knows whom to tell, as one of any real executor does."""

    def __init__(self, ended):
        self.ended = ended

    def stop(self, grace):
        raise AssertionError("nobody stops it")


class OneAtATime(Executor):
    """It keeps nothing of an attempt but a weak reference."""

    def start(self, attempt, ended):
        self.attempt = attempt
        running = Knowing(ended)
        self.running = weakref.ref(running)
        return running

    def recover(self, worker):
        return Recovered(clean=True)

    def close(self):
        pass


@pytest.fixture
def executor():
    return OneAtATime()


@pytest.fixture
def attempts(executor, tmp_path):
    return Attempts(executor, tmp_path, 1, make_settings(), clock=FakeClock(), ring=lambda: None, note=pytest.fail)


def claim(text=None):
    return Claim(make_job("one", state=State.PROCESSING, run=1, worker="w"), "w", "host", text)


def test_what_was_an_attempt_is_freed_when_its_end_was_told(attempts, executor):
    """Thousands a second would else wait until cycles are looked for, and looking for them takes the worker's time."""
    gc.disable()
    try:
        attempts.start(claim(), None)
        executor.running().ended(Outcome(kind=Kind.SUCCESS))
        assert [outcome.kind for _, outcome, _ in attempts.news()] == [Kind.SUCCESS]
        assert executor.running() is None
    finally:
        gc.enable()


def test_the_text_of_the_record_goes_with_the_attempt(attempts, executor):
    attempts.start(claim('{"id":"one"}'), None)
    assert executor.attempt.text == '{"id":"one"}'
