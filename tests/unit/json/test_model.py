"""Whatever is done in whatever order: the counts are a recount, and every handle says the same."""

import tempfile
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import jobq_json
from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new

QUEUES = st.sampled_from(["default", "mail"])
SECONDS = st.integers(-5, 5)
NUMBERS = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("add"), QUEUES, SECONDS, st.integers(-1, 1), st.sampled_from([None, "send"]), st.integers(1, 4)),
    st.tuples(st.just("claim"), st.integers(1, 3), st.sampled_from([None, None, None, False, True])),
    st.tuples(st.just("finish"), st.sampled_from([Kind.SUCCESS, Kind.FAILURE, Kind.RELEASED]), SECONDS),
    st.tuples(st.just("lose"), NUMBERS),
    st.tuples(st.just("cancel"), NUMBERS),
    st.tuples(st.just("retry"), NUMBERS),
    st.tuples(st.just("delete"), NUMBERS),
    st.tuples(st.just("pause"), QUEUES, st.booleans()),
    st.tuples(st.just("prune"), SECONDS),
    st.tuples(st.just("compact")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("wait"), st.integers(0, 4)),
)
SORTED = [("add", "default", -1, 0, None, 4), ("add", "mail", -2, 1, None, 3), ("compact",)]
"""What a history may begin with, so that there is something in the sorted run."""


class Play:
    """Does steps with two handles on one store; the model is a plain dict of jobs in order of adding."""

    def __init__(self, home):
        (provider,) = jobq_json.jobq_stores()
        context = replace(make_context(home), warn=self.refuse)
        settings = make_settings(values={"durability": "normal"})
        self.open = lambda: provider.make(settings, context)
        self.handles = [self.open(), self.open()]
        self.presence = self.handles[0].join(make_info())
        self.now, self.made, self.turn = START, 0, 0
        self.jobs, self.claims, self.paused = {}, [], set()

    @staticmethod
    def refuse(sentence):
        raise AssertionError(sentence)

    @property
    def store(self):
        self.turn += 1
        return self.handles[self.turn % 2]

    def pick(self, number):
        names = list(self.jobs)
        return self.jobs[names[number % len(names)]] if names else None

    def add(self, queue, seconds, priority, handler, count):
        fields = {"queue": queue, "priority": priority, "run_at": self.now + timedelta(seconds=seconds)}
        fields |= {"handler": handler} if handler else {}
        added = [make_job(f"job-{self.made + number}", **fields) for number in range(count)]
        self.made += count
        self.store.add(new(*added, generated=self.turn % 3 == 0), now=self.now)
        self.jobs |= {job.id: job for job in added}

    def claim(self, limit, alone):
        due = [
            job
            for job in self.jobs.values()
            if job.state in (State.PENDING, State.FAILED)
            and job.run_at <= self.now
            and job.queue not in self.paused
            and alone in (None, job.losses >= 2)
        ]
        due.sort(key=lambda job: (-job.priority, job.run_at, int(job.id[4:])))
        expected = due[:1] if due and due[0].losses >= 2 else [job for job in due if job.losses < 2][:limit]
        wanted = Wanted(alone=alone)
        claims = self.store.claim(self.presence, wanted=wanted, limit=limit, now=self.now).claims
        assert [each.job.id for each in claims] == [job.id for job in expected]
        self.jobs |= {each.job.id: each.job for each in claims}
        self.claims += claims

    def finish(self, kind, seconds):
        ended = []
        for claim in self.claims:
            outcome = Outcome(kind=kind, reason="because", finished=self.now)
            change = lifecycle.after(claim, outcome, now=self.now, delay=lambda *_: timedelta(seconds=abs(seconds)))
            ended.append(Ended(claim, change))
            job = self.jobs[claim.job.id]
            self.jobs[job.id] = job.changed(lifecycle.settled(job, change), now=self.now)
        assert not self.store.finish(self.presence, ended, now=self.now)
        self.claims = []

    def lose(self, number):
        if self.claims:
            claim = self.claims.pop(number % len(self.claims))
            change = lifecycle.lost(claim, now=self.now, counted=True, max_losses=4)
            self.change(self.jobs[claim.job.id], change)

    def cancel(self, number):
        job = self.pick(number)
        if job and job.state not in (State.COMPLETED, State.DEAD) and (change := lifecycle.cancel(job, now=self.now)):
            self.change(job, change)

    def retry(self, number):
        job = self.pick(number)
        if job and job.state not in (State.COMPLETED, State.PENDING, State.PROCESSING):
            self.change(job, lifecycle.retry(job, now=self.now))

    def change(self, job, change):
        self.jobs[job.id] = job.changed(change, now=self.now)
        assert self.store.change(job, change, now=self.now) == self.jobs[job.id]

    def delete(self, number):
        if job := self.pick(number):
            running = job.state is State.PROCESSING
            assert self.store.delete([job]) == ([] if running else [job.id])
            if not running:
                del self.jobs[job.id]

    def pause(self, queue, paused):
        self.store.pause(queue, paused, now=self.now)
        (self.paused.add if paused else self.paused.discard)(queue)

    def prune(self, seconds):
        before, states = self.now + timedelta(seconds=seconds), frozenset({State.COMPLETED, State.DEAD})
        old = {job.id for job in self.jobs.values() if job.state in states and job.updated_at < before}
        assert set(self.store.prune(states=states, before=before, limit=1000)) == old
        for name in old:
            del self.jobs[name]

    def compact(self):
        store = self.store
        assert store.access.compact() or store.access.look() is None

    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)

    def compare(self):
        for store in (*self.handles, fresh := self.open()):
            assert {job.id: job for job in store.find(Query())} == self.jobs
            counts = store.counts(now=self.now)
            told = {(queue, state): n for queue, states in counts.queues.items() for state, n in states.items() if n}
            assert told == Counter((job.queue, job.state) for job in self.jobs.values())
            assert set(counts.paused) == self.paused
            assert counts.later == sum(
                job.state is State.PENDING and job.run_at > self.now for job in self.jobs.values()
            )
            assert {job.id for job in store.held(self.presence)} == {each.job.id for each in self.claims}
            assert store.check() == []
        fresh.close()

    def close(self):
        self.presence.close()
        for store in self.handles:
            store.close()


@given(st.sampled_from([[], SORTED]), st.lists(STEPS, min_size=5, max_size=60))
@settings(max_examples=150)
def test_any_history_is_counted_and_told_right(first, steps):
    with tempfile.TemporaryDirectory() as directory:
        play = Play(Path(directory) / "home")
        try:
            for name, *arguments in first + steps:
                getattr(play, name)(*arguments)
            play.compare()
        finally:
            play.close()
