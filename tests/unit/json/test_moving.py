"""A queue that is moved between two JSON stores by a process that is killed at every step."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

import jobq_json
from jobq.app import App
from jobq.job import State
from jobq.moving import Move
from jobq.notices import LEFT, Notice
from jobq.store import Query
from jobq.testing import START, ScriptedExecutor, aged, make_context, make_job, make_settings

(PROVIDER,) = jobq_json.jobq_stores()
JOBS = 2500
"""Jobs: three batches."""

URLS = {"old": "json:", "new": "json:new"}


class Place:
    """A home with two stores in it."""

    def __init__(self, home):
        self.home = home

    def store(self, name):
        """A handle on one of them."""
        return PROVIDER.make(make_settings(), replace(make_context(self.home), url=URLS[name].partition(":")[2]))

    def move(self, source, target, killed_at=None):
        """Move the queue, or go on; killed at a call that changes something, of which each counts twice."""
        stores = [self.store(source), self.store(target)]
        if killed_at is not None:
            left = [killed_at]
            for store in stores:
                for call in ("post", "restore", "pause"):
                    setattr(store, call, deadly(getattr(store, call), left))
        app = App(home=str(self.home), environ={}, store=stores[0], executor=ScriptedExecutor(lambda job: None))
        move = Move(app, stores[1], note=lambda sentence: None)
        if not move.is_done():
            move.run()
        app.close()
        stores[1].close()

    def jobs(self, name):
        """What is in one of them, in order, its paused queues, and what is wrong with it."""
        store = self.store(name)
        found = [job.record() for job in store.find(Query())], store.counts(now=START).paused, store.check()
        store.close()
        return found

    def notice(self, name):
        store = self.store(name)
        found = store.notice()
        store.close()
        return found


def deadly(call, left):
    """A call that kills this process before or after it, when `left` has come to 0."""

    def step():
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def act(*args, **kwargs):
        step()
        answer = call(*args, **kwargs)
        step()
        return answer

    return act


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "home")
    store = made.store("old")
    kinds = [state for state in State if state is not State.PROCESSING]
    jobs = [
        aged(make_job(f"j{number}", queue=("a", "b")[number % 2], priority=number % 3), kinds[number % 5])
        for number in range(JOBS)
    ]
    store.restore(jobs, now=START)
    store.pause("a", True, reason="so", now=START)
    store.close()
    return made


def killed(place, source, target, step):
    """Whether a process that moves the queue was killed at this step; else it has moved it."""
    from jobq.testing.forks import Fork  # not before the contracts, which have its asserts rewritten

    with Fork(lambda say: place.move(source, target, killed_at=step)) as fork:
        return fork.wait() == -signal.SIGKILL


def test_killed_at_whatever_step_it_goes_on_when_run_again_there_and_back(place):
    before = place.jobs("old")
    assert before[2] == []
    source, target, step = "old", "new", 0
    while killed(place, source, target, step):
        place.move(source, target)
        assert place.jobs(target) == before, step
        assert place.notice(target) is None
        assert place.notice(source) == Notice(state=LEFT, url=URLS[target])
        source, target, step = target, source, step + 1
    assert step >= 16
    assert place.jobs(target) == before
