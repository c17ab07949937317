"""What notifiers hear: every kind of event, after the change, with the job as it then is, its run and its time."""

from datetime import timedelta

import pytest

from jobq.app import App
from jobq.draining import NOW
from jobq.errors import WrongState
from jobq.executor import Kind, Outcome
from jobq.job import Change, State
from jobq.queue import Queue
from jobq.recovery import Recovery
from jobq.store import Wanted
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, make_info
from jobq.worker import Worker

FAILURE = Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1)
SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)


class Heard:
    """Stands in for the notifications: keeps every event."""

    def __init__(self):
        self.events = []

    def send(self, event):
        self.events.append(event)

    def close(self):
        pass


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def executor():
    return ScriptedExecutor(stopped=Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM"))


@pytest.fixture
def app(tmp_path, heard, executor):
    storage = MemoryStorage()
    app = App(
        home=str(tmp_path / "home"),
        environ={},
        flags={"backoff_jitter": "false"},
        clock=FakeClock(),
        store=MemoryStore(storage),
        executor=executor,
    )
    app.notifications = heard
    app.storage = storage
    yield app
    app.close()


@pytest.fixture
def queue(app):
    return Queue(app)


def told(heard, job_id):
    return [(event.kind.value, event.run) for event in heard.events if event.job.id == job_id]


def run(app, clock=None, **arguments):
    if clock is not None:
        app.clock.__class__ = clock
    Worker(app, **{"until": "empty"} | arguments).run()


def test_a_success_is_heard_as_enqueued_started_completed(app, queue, heard):
    job = queue.enqueue(command="true")
    run(app)
    assert told(heard, job.id) == [("enqueued", 0), ("started", 1), ("completed", 1)]
    assert [event.job.state for event in heard.events] == [State.PENDING, State.PROCESSING, State.COMPLETED]
    assert all(event.time == app.clock.now() for event in heard.events)


def test_failures_until_death_a_retry_by_hand_and_a_deletion(app, queue, heard, executor):
    executor.script = lambda job: FAILURE
    job = queue.enqueue(command="false", max_attempts=2)
    run(app)
    assert told(heard, job.id) == [("enqueued", 0), ("started", 1), ("failed", 1), ("started", 2), ("dead", 2)]
    queue.retry(job.id)
    queue.delete(job.id)
    assert told(heard, job.id)[-2:] == [("retried", 2), ("deleted", 2)]


def test_a_cancellation_before_and_while_it_runs(app, queue, heard, executor):
    waiting = queue.enqueue(command="true")
    queue.cancel(waiting.id)
    assert told(heard, waiting.id) == [("enqueued", 0), ("cancelled", 0)]
    executor.script = lambda job: None
    running = queue.enqueue(command="true")

    class CancellingClock(FakeClock):
        def wait(self, wake, seconds):
            queue.cancel(running.id)
            self.advance(seconds)
            return wake.clear()

    run(app, CancellingClock)
    assert told(heard, running.id) == [("enqueued", 0), ("started", 1), ("cancelled", 1)]
    assert heard.events[-1].job.state is State.CANCELLED


def test_a_run_that_is_handed_back(app, queue, heard, executor):
    executor.script = lambda job: None
    job = queue.enqueue(command="true")
    worker = Worker(app)

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            worker.stop(NOW)
            return wake.clear()

    app.clock.__class__ = StoppingClock
    worker.run()
    assert told(heard, job.id)[-1] == ("released", 1)


def test_a_run_whose_outcome_is_refused(app, queue, heard, executor):
    executor.script = lambda job: None
    job = queue.enqueue(command="true")

    class StealingClock(FakeClock):
        def wait(self, wake, seconds):
            stored = queue.get(job.id)
            if stored.state is State.PROCESSING:
                app.store.change(stored, Change({"state": State.CANCELLED, "worker": None}), now=self.now())
            self.advance(seconds)
            return wake.clear()

    run(app, StealingClock)
    assert told(heard, job.id) == [("enqueued", 0), ("started", 1), ("discarded", 1)]


@pytest.mark.parametrize(("on_lost", "last"), [("retry", "lost"), ("dead", "dead")])
def test_a_run_whose_worker_was_lost(app, queue, heard, on_lost, last):
    job = queue.enqueue(command="true", on_lost=on_lost)
    store = MemoryStore(app.storage)
    presence = store.join(make_info())
    store.claim(presence, wanted=Wanted(), limit=1, now=app.clock.now())
    presence.die()
    Recovery(app).settle()
    assert told(heard, job.id)[-1] == (last, 1)


def test_what_changes_nothing_is_not_told(app, queue, heard):
    job = queue.enqueue(command="true", delay=timedelta(hours=1))
    queue.retry(job.id)
    queue.cancel(job.id)
    queue.cancel(job.id)
    assert told(heard, job.id) == [("enqueued", 0), ("cancelled", 0)]
    queue.retry(job.id)
    run(app)
    before = len(heard.events)
    with pytest.raises(WrongState):
        queue.cancel(job.id)
    assert len(heard.events) == before
