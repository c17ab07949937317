from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from jobq import Queue, State, StoreError
from jobq_opentelemetry import depth
from jobq_opentelemetry.depth import Depth
from jobq_opentelemetry.labels import MOST

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def queue(jobq_home):
    with Queue.open() as queue:
        yield queue


@pytest.fixture
def reader(queue):
    return Depth(lambda: nullcontext(queue), lambda: NOW)


def add(queue, seconds, /, **fields):
    queue.enqueue(command="true", run_at=NOW - timedelta(seconds=seconds), **fields)


def test_jobs_are_counted_by_queue_and_state(queue, reader):
    add(queue, 0, queue="a")
    add(queue, 0, queue="a", id="gone")
    add(queue, 0, queue="b")
    queue.cancel("gone")
    jobs = reader.read().jobs
    assert {key: number for key, number in jobs.items() if number} == {
        ("a", State.PENDING): 1,
        ("a", State.CANCELLED): 1,
        ("b", State.PENDING): 1,
    }
    assert len(jobs) == 2 * len(State)


def test_the_oldest_due_job_of_each_queue_is_found_whatever_its_priority(queue, reader):
    add(queue, 10, queue="a", priority=5)
    add(queue, 60, queue="a", priority=-5)
    add(queue, 20, queue="a")
    add(queue, -3600, queue="b", priority=9)
    add(queue, 30, queue="b")
    add(queue, -3600, queue="later")
    add(queue, 3600, queue="paused")
    queue.pause("paused")
    assert reader.read().oldest == {"a": 60, "b": 30, "later": 0}


def test_an_empty_store_has_nothing(reader):
    assert reader.read() == depth.Reading({}, {})


def test_what_tells_queues_apart_is_bounded(queue, reader):
    queue.enqueue_many([{"command": "true", "queue": f"q{number}"} for number in range(MOST + 5)])
    reading = reader.read()
    assert reading.jobs["_OTHER", State.PENDING] == 5
    assert len(reading.oldest) == MOST


def test_a_reading_serves_for_a_while(queue, reader, monkeypatch):
    reader.read()
    add(queue, 0)
    assert reader.read().jobs == {}
    monkeypatch.setattr(reader, "_until", 0.0)
    assert reader.read().jobs["default", State.PENDING] == 1


def test_it_is_read_the_less_often_the_longer_it_takes(queue, monkeypatch):
    ticks = iter([0.0, 10.0])
    monkeypatch.setattr(depth.time, "monotonic", lambda: next(ticks))
    reader = Depth(lambda: nullcontext(queue))
    reader.read()
    assert reader._until == 10 + 10 * depth.SHARE


def test_the_gauges(queue, reader, measured):
    add(queue, 10)
    reader.observe(measured.meter)
    ((attributes, point),) = measured.points("jobq.queue.oldest_wait")
    assert (attributes, point.value) == ({"messaging.destination.name": "default"}, 10)
    jobs = {a["jobq.job.state"]: point.value for a, point in measured.points("jobq.jobs")}
    assert jobs == {state.value: int(state is State.PENDING) for state in State}


def test_in_a_process_that_ends_nothing_is_read(measured):
    reader = Depth(lambda: pytest.fail("it was read"))
    reader.observe(measured.meter)
    reader.close()
    assert measured.points("jobq.jobs") == measured.points("jobq.queue.oldest_wait") == []


def test_a_store_that_cannot_be_used_is_an_error():
    def refuse():
        raise StoreError("no")

    with pytest.raises(StoreError):
        Depth(refuse).read()
