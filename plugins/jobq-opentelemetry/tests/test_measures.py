from dataclasses import replace
from datetime import timedelta

import pytest

from jobq import Event, EventKind, State
from jobq.job import Run
from jobq.testing import START, make_job
from jobq_opentelemetry.labels import MOST
from jobq_opentelemetry.measures import Measures

RUN = Run(run=1, worker="w", host="h", started=START, finished=START + timedelta(seconds=2), outcome="completed")


@pytest.fixture
def take(measured):
    measures = Measures(measured.meter)

    def take(kind, job, run=1, time=START):
        measures.take(Event(EventKind(kind), job, run, time))

    return take


def ended(outcome, **fields):
    run = replace(RUN, outcome=outcome)
    return make_job(handler="h", history=(run,), run=1, finished_at=run.finished, **fields)


def test_events_are_counted_by_kind_queue_and_handler(take, measured):
    for _ in range(2):
        take("enqueued", make_job(handler="h", queue="q"))
    take("enqueued", make_job(command="curl https://example.org/secret"))
    counted = {tuple(sorted(attributes.items())): point.value for attributes, point in measured.points("jobq.events")}
    assert counted == {
        (("jobq.event", "enqueued"), ("jobq.job.handler", "h"), ("messaging.destination.name", "q")): 2,
        (("jobq.event", "enqueued"), ("jobq.job.handler", "command"), ("messaging.destination.name", "default")): 1,
    }


def test_what_tells_metrics_apart_is_bounded(take, measured):
    for number in range(3 * MOST):
        take("enqueued", make_job(f"j{number}", handler=f"h{number}", queue=f"q{number}"))
        take("started", make_job(f"c{number}", command=f"echo {number}", queue=f"q{number}"))
    for metric in ("jobq.events", "jobq.job.wait"):
        points = measured.points(metric)
        assert len(points) <= 2 * (MOST + 1)
        assert {a["messaging.destination.name"] for a, _ in points} >= {"q0", "_OTHER"}
    total = sum(point.value for _, point in measured.points("jobq.events"))
    assert total == 6 * MOST


@pytest.mark.parametrize("outcome", ["failed", "timeout", "signal", "cannot-start"])
@pytest.mark.parametrize("kind", ["failed", "dead"])
def test_an_attempt_that_failed_is_measured_with_its_error(take, measured, kind, outcome):
    take(kind, ended(outcome))
    ((attributes, point),) = measured.points("messaging.process.duration")
    assert attributes == {
        "messaging.system": "jobq",
        "messaging.operation.name": "process",
        "messaging.destination.name": "default",
        "jobq.job.handler": "h",
        "jobq.outcome": outcome,
        "error.type": outcome,
    }
    assert (point.count, point.sum) == (1, 2)


@pytest.mark.parametrize("kind", ["completed", "released", "cancelled"])
def test_one_that_did_not_fail_has_none(take, measured, kind):
    take(kind, ended(kind))
    ((attributes, _),) = measured.points("messaging.process.duration")
    assert attributes["jobq.outcome"] == kind
    assert "error.type" not in attributes


def test_what_is_about_no_attempt_or_one_whose_end_nobody_saw_is_not_measured(take, measured):
    earlier = replace(ended("cancelled"), finished_at=START + timedelta(hours=1), state=State.CANCELLED)
    take("cancelled", earlier)
    take("dead", ended("lost"))
    take("lost", ended("lost"))
    take("completed", make_job())
    take("completed", ended("completed"), run=2)
    take("completed", make_job(history=(replace(RUN, started=None),)))
    for kind in ("retried", "deleted", "discarded"):
        take(kind, ended("completed"))
    assert measured.points("messaging.process.duration") == []


def test_a_clock_that_was_set_back_makes_no_negative_times(take, measured):
    take("completed", make_job(history=(replace(RUN, started=START + timedelta(hours=1)),)))
    take("started", make_job(run_at=START + timedelta(hours=1)))
    for metric in ("messaging.process.duration", "jobq.job.wait"):
        ((_, point),) = measured.points(metric)
        assert point.sum == 0


def test_the_wait_is_from_when_a_job_was_due(take, measured):
    take("started", make_job(run_at=START - timedelta(seconds=90), handler="h"))
    ((attributes, point),) = measured.points("jobq.job.wait")
    assert attributes == {"messaging.destination.name": "default", "jobq.job.handler": "h"}
    assert point.sum == 90
    assert point.explicit_bounds[-1] == 86400
