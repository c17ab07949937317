"""What adding and waiting cost the store, and what they answer where jobs are there already."""

from __future__ import annotations

import pytest

from jobq.adding import BATCH
from jobq.app import App
from jobq.errors import DuplicateJob, JobNotFound, NotSupported, WaitTimeout
from jobq.job import State
from jobq.queue import Queue
from jobq.store import Query
from jobq.testing import FakeClock, MemoryStore

MANY = 2 * BATCH + 1


class CountingStore(MemoryStore):
    """Notes what it was asked, and of how many jobs."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def get(self, job_id):
        self.asked.append(("get", 1))
        return super().get(job_id)

    def get_many(self, job_ids):
        ids = list(job_ids)
        self.asked.append(("get_many", len(ids)))
        return super().get_many(ids)

    def add(self, new, *, now):
        self.asked.append(("add", len(new)))
        return super().add(new, now=now)


@pytest.fixture
def store():
    return CountingStore()


@pytest.fixture
def queue(tmp_path, store):
    queue = Queue(App(home=str(tmp_path / "home"), environ={}, clock=FakeClock(), store=store))
    yield queue
    queue.close()


def specs(count, command="true"):
    return [{"id": f"job-{number}", "command": command} for number in range(count)]


def ids(jobs):
    return [job.id for job in jobs]


def test_many_that_are_there_already_are_asked_for_at_once_and_not_added_again(store, queue):
    queue.enqueue_many(specs(MANY))
    store.asked.clear()
    assert ids(queue.enqueue_many(specs(MANY), if_absent=True)) == [spec["id"] for spec in specs(MANY)]
    assert store.asked == [("get_many", MANY)]


def test_of_many_only_those_that_are_absent_are_added(store, queue):
    queue.enqueue_many(specs(MANY - 2))
    store.asked.clear()
    assert ids(queue.enqueue_many(specs(MANY), if_absent=True)) == [spec["id"] for spec in specs(MANY)]
    assert store.asked == [("get_many", MANY), ("add", 1), ("add", 1)]
    assert len(list(queue.find())) == MANY


def test_of_a_few_those_that_are_there_are_asked_for_at_once(store, queue):
    queue.enqueue_many(specs(5))
    store.asked.clear()
    assert len(queue.enqueue_many(specs(6), if_absent=True)) == 6
    assert store.asked == [("add", 6), ("get_many", 5), ("add", 1)]


@pytest.mark.parametrize(("if_absent", "told"), [(True, "job job-0 exists already, with other work"), (False, "")])
def test_many_of_which_one_is_other_work_are_all_refused(store, queue, if_absent, told):
    queue.enqueue_many(specs(1, command="false"))
    with pytest.raises(DuplicateJob, match=told or "job job-0 exists already$") as caught:
        queue.enqueue_many(specs(MANY), if_absent=if_absent)
    assert caught.value.ids == ("job-0",)
    assert ids(store.find(Query())) == ["job-0"]


def test_jobs_that_are_waited_for_are_asked_for_at_once(store, queue):
    queue.enqueue_many(specs(3))
    cancelled = queue.cancel("job-1")
    store.asked.clear()
    with pytest.raises(WaitTimeout, match="2 of 3 jobs"):
        queue.wait(["job-0", "job-1", "job-2", "job-1"], timeout=0)
    assert store.asked == [("get_many", 3)]
    for job_id in ("job-0", "job-2"):
        queue.cancel(job_id)
    seen = []
    ended = queue.wait(["job-2", "job-1", "job-2"], seen=seen.append)
    assert ids(ended) == ["job-2", "job-1", "job-2"]
    assert ids(seen) == ["job-2", "job-1"]
    assert ended[1] == cancelled
    assert {job.state for job in ended} == {State.CANCELLED}


@pytest.mark.parametrize(("seconds", "turns"), [(0, 200), (1, 5)])
def test_a_wait_rests_as_long_as_asking_takes(store, queue, seconds, turns):
    queue.enqueue_many(specs(1))
    clock = queue._app.clock
    get_many = store.get_many
    store.get_many = lambda ids: (clock.advance(seconds), get_many(ids))[1]
    store.asked.clear()
    with pytest.raises(WaitTimeout):
        queue.wait(["job-0"], timeout=10)
    assert abs(len(store.asked) - 1 - turns) <= 1


def test_a_wait_for_a_job_that_is_not_there_names_it(queue):
    queue.enqueue_many(specs(2))
    with pytest.raises(JobNotFound, match="nothing"):
        queue.wait(["job-0", "nothing", "job-1"])


def test_a_paused_queue_keeps_its_reason_until_another_is_given(queue):
    queue.pause("default", reason="moving")
    queue.pause("default")
    assert queue.counts().paused == {"default": "moving"}
    queue.pause("default", reason="moved")
    assert queue.counts().paused == {"default": "moved"}
    queue.resume("default")
    queue.pause("default")
    assert queue.counts().paused == {"default": ""}


class WithinStore(CountingStore):
    """Takes jobs in a transaction of the application."""

    capabilities = frozenset({"transactions"})

    def add_within(self, connection, new, *, now):
        self.asked.append(("add_within", connection))
        return super(CountingStore, self).add(new, now=now)


def test_a_connection_is_handed_to_the_store_and_no_event_is_told(tmp_path):
    store = WithinStore()
    app = App(home=str(tmp_path / "home"), clock=FakeClock(), store=store, environ={})
    told = []
    app.tell = lambda kind, job, **facts: told.append(job.id)
    queue = Queue(app)
    connection = object()
    job = queue.enqueue(command="true", connection=connection)
    assert store.asked == [("add_within", connection)]
    assert (queue.get(job.id).id, told) == (job.id, [])
    jobs = queue.enqueue_many([{"id": job.id, "command": "true"}], if_absent=True, connection=connection)
    assert [each.id for each in jobs] == [job.id]
    app.close()


def test_an_id_of_a_transaction_under_way_is_taken_though_nobody_sees_it(tmp_path, monkeypatch):
    def refuse(self, connection, new, *, now):
        raise DuplicateJob([item.job.id for item in new])

    monkeypatch.setattr(WithinStore, "add_within", refuse)
    app = App(home=str(tmp_path / "home"), clock=FakeClock(), store=WithinStore(), environ={})
    with pytest.raises(DuplicateJob):
        Queue(app).enqueue_many([{"id": "one", "command": "true"}], if_absent=True, connection=object())
    app.close()


def test_a_store_that_cannot_use_a_connection_says_so(queue):
    with pytest.raises(NotSupported, match="in a transaction of the application"):
        queue.enqueue(command="true", connection=object())
