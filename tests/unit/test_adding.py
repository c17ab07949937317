"""What adding and waiting cost the store, and what they answer where jobs are there already."""

from __future__ import annotations

import pytest

from jobq.adding import BATCH
from jobq.app import App
from jobq.errors import DuplicateJob, JobNotFound, WaitTimeout
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
