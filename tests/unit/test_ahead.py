"""Jobs that a worker claims ahead of its free slots, with an executor that takes them; no disk, no sleeping."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jobq import lifecycle
from jobq.app import App
from jobq.draining import NOW
from jobq.executor import Kind, Outcome
from jobq.job import Change, State
from jobq.queue import Queue
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor
from jobq.worker import Worker

SUCCESS = Outcome(kind=Kind.SUCCESS, result=1)


class Bench:
    """A worker whose jobs run until they are told to end, and that is looked at whenever it would wait."""

    def __init__(self, directory, most_ahead):
        self.clock = FakeClock()
        self.executor = ScriptedExecutor(lambda job: None, stopped=None, most_ahead=most_ahead)
        self.app = App(
            home=str(directory / "home"),
            flags={},
            environ={},
            clock=self.clock,
            store=MemoryStore(MemoryStorage()),
            executor=self.executor,
        )
        self.queue = Queue(self.app)
        self.events = []
        self.app.notifications = SimpleNamespace(close=lambda: None)  # somebody listens
        self.app.tell = lambda kind, job, **_: self.events.append((kind, job.id))

    def add(self, job_id, **fields):
        if "command" not in fields:
            fields.setdefault("handler", "h")
        self.queue.enqueue(id=job_id, allow_unknown_handler=True, **fields)

    def lose(self, job_id, times):
        store = self.app.store
        store.change(store.get(job_id), Change({"losses": times}), now=self.clock.now())

    def work(self, *steps, count=1):
        """Run a worker that does one of `steps` whenever it has nothing else to do, then stops, letting jobs end."""
        todo = list(steps)
        self.app.handlers = {"h": None, "g": None}
        self.worker = Worker(self.app, count=count, note=lambda text: None)
        wait = self.clock.wait

        def next_step(wake, seconds):
            if todo:
                todo.pop(0)()
                wake.ring()
            elif not self.worker._draining.level:
                self.worker.stop()
            else:
                self.end_all()
            return wait(wake, seconds)

        self.clock.wait = next_step
        try:
            return self.worker.run()
        finally:
            self.clock.wait = wait

    def end(self, job_id, outcome=SUCCESS):
        self.executor.running[job_id].end(outcome)

    def end_all(self):
        while self.executor.running:
            self.end(next(iter(self.executor.running)))

    @property
    def begun(self):
        return [attempt.job.id for attempt in self.executor.started]

    @property
    def ahead(self):
        return list(self.executor.ahead_of_slots)

    def state(self, job_id):
        job = self.queue.get(job_id)
        return job.state, job.attempts, job.losses, [run.outcome for run in job.history]


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path, most_ahead=3)
    yield made
    made.app.close()


def test_jobs_are_claimed_ahead_and_begin_when_their_turn_comes(bench):
    for job_id in "abcdef":
        bench.add(job_id)
    seen = []

    def look():
        seen.append((bench.begun[:], bench.ahead, bench.queue.get("b").state))

    def end_a():
        bench.end("a")

    summary = bench.work(look, end_a, look)
    assert seen[0] == (["a"], ["b", "c", "d"], State.PROCESSING)
    assert seen[1] == (["a", "b"], ["c", "d", "e"], State.PROCESSING)
    assert summary.completed >= 2
    assert bench.state("a") == (State.COMPLETED, 0, 0, ["completed"])


def test_none_begins_before_it_is_told_so(bench):
    for job_id in "ab":
        bench.add(job_id)
    seen = []

    def look():
        seen.append(([event for event in bench.events if event[0] == "started"], bench.worker._attempts.told()))

    bench.work(look, lambda: bench.end("a"), look)
    assert seen[0][0] == [("started", "a")]
    assert [running.job for running in seen[0][1]] == ["a"]
    assert seen[1][0] == [("started", "a"), ("started", "b")]
    assert [running.job for running in seen[1][1]] == ["b"]


def test_one_that_takes_over_a_slot_is_in_it_alone(bench):
    for job_id in "abcdefgh":
        bench.add(job_id)
    held = []

    def look():
        slots = [running.slot for running in bench.executor.running.values()]
        held.append(slots)
        assert len(set(slots)) == len(slots) <= 2

    steps = [look]
    for job_id in "abcdef":
        steps += [lambda job_id=job_id: bench.end(job_id), look]
    bench.work(*steps, count=2)
    assert [len(slots) for slots in held] == [2] * 7
    assert all(bench.state(job_id)[0] is State.COMPLETED for job_id in "abcdefgh")


def test_nothing_is_overtaken_that_may_not_go_ahead(bench):
    bench.add("a")
    bench.add("command", command="true")
    bench.add("b")
    seen = []
    bench.work(lambda: seen.append(bench.ahead), lambda: bench.end("a"), lambda: seen.append(bench.begun[:]))
    assert seen == [[], ["a", "command"]]


def test_a_job_with_losses_does_not_go_ahead(bench):
    bench.add("a")
    bench.add("b")
    bench.lose("b", 1)
    seen = []
    bench.work(lambda: seen.append(bench.ahead))
    assert seen == [[]]


def test_nothing_goes_ahead_of_a_job_that_must_run_alone(bench):
    bench.add("a")
    bench.lose("a", 2)
    bench.add("b")
    seen = []
    bench.work(lambda: seen.append((bench.begun[:], bench.ahead)))
    assert seen == [(["a"], [])]


def test_a_stop_hands_back_what_has_not_begun_and_counts_nothing(bench):
    for job_id in "abcd":
        bench.add(job_id)
    summary = bench.work(lambda: None)
    assert (summary.completed, summary.released, summary.forced) == (1, 0, False)
    assert bench.begun == ["a"]
    for job_id in "bcd":
        assert bench.state(job_id) == (State.PENDING, 0, 0, [])
        assert [kind for kind, of in bench.events if of == job_id] == ["enqueued"], "nothing has happened to it"


def test_a_stop_at_once_hands_back_all_of_it(bench):
    for job_id in "abcd":
        bench.add(job_id)
    bench.executor.stopped = Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM")
    summary = bench.work(lambda: bench.worker.stop(NOW))
    assert (summary.completed, summary.released, summary.forced) == (0, 1, True)
    assert bench.state("a") == (State.PENDING, 0, 0, ["released"])
    for job_id in "bcd":
        assert bench.state(job_id) == (State.PENDING, 0, 0, [])


def test_a_cancel_reaches_one_that_has_not_begun(bench):
    for job_id in "abc":
        bench.add(job_id)

    def ask():
        job = bench.queue.get("b")
        bench.app.store.change(job, lifecycle.cancel(job, now=bench.clock.now()), now=bench.clock.now())
        bench.worker._stir()

    bench.work(ask, lambda: None)
    assert bench.state("b") == (State.CANCELLED, 0, 0, [])
    assert ("cancelled", "b") in bench.events
    assert "b" not in bench.begun
    assert bench.state("a")[0] is State.COMPLETED


def test_what_is_of_higher_priority_and_may_not_go_ahead_comes_first(bench):
    for job_id in "abcd":
        bench.add(job_id)
    seen = []

    def urgent():
        bench.add("urgent", command="true", priority=5)
        bench.worker._stir()

    def look():
        seen.append((bench.begun[:], bench.ahead))

    bench.work(urgent, look, lambda: bench.end("a"), look)
    assert seen[0] == (["a"], [])
    assert seen[1][0] == ["a", "urgent"]
    for job_id in "bcd":
        assert bench.state(job_id)[1:3] == (0, 0)


def test_what_is_of_the_same_priority_waits_its_turn(bench):
    for job_id in "abcd":
        bench.add(job_id)
    seen = []

    def later():
        bench.add("later", command="true")
        bench.worker._stir()

    bench.work(later, lambda: seen.append(bench.ahead))
    assert seen == [["b", "c", "d"]]


def test_an_executor_that_fails_at_it_costs_nothing(bench):
    def fail():
        raise ZeroDivisionError

    bench.executor.ahead = fail
    for job_id in "ab":
        bench.add(job_id)
    bench.work(lambda: bench.end("a"), lambda: None)
    assert [bench.state(job_id)[0] for job_id in "ab"] == [State.COMPLETED] * 2


def test_one_that_cannot_be_sent_is_a_failed_attempt(bench):
    def fail(attempt, started, ended):
        raise OSError("no")

    bench.executor.send_ahead = fail
    for job_id in "ab":
        bench.add(job_id)
    bench.work(lambda: None)
    assert bench.state("b") == (State.FAILED, 1, 0, ["failed"])
