"""What plugins add to the meta of a new job: prefixed, checked, and never in the job's way."""

import pytest

from jobq.annotating import Annotations, Annotator
from jobq.testing import make_job, make_settings


@pytest.fixture
def told():
    return []


@pytest.fixture
def annotated(told):
    """The meta of a job that these calls, each of a plugin `p0`, `p1` …, were asked about."""

    def ask(*calls, jobs=1, **fields):
        annotators = [Annotator(f"plugin p{number}", f"p{number}", call) for number, call in enumerate(calls)]
        annotations = Annotations(annotators, make_settings(), told.append)
        return [dict(annotations.added_to(make_job(**fields)).meta) for _ in range(jobs)][-1]

    return ask


def test_each_key_begins_with_its_plugins_name(annotated, told):
    meta = annotated(lambda new, settings: {"a": 1}, lambda new, settings: {"a": {"b": [None]}})
    assert meta == {"p0.a": 1, "p1.a": {"b": [None]}}
    assert told == []


def test_it_is_asked_about_the_job_and_handed_the_settings(annotated):
    def call(new, settings):
        return {"queue": new.queue, "attempts": settings["max-attempts"]}

    assert annotated(call, queue="mail") == {"p0.queue": "mail", "p0.attempts": 3}


def test_what_the_job_has_already_stays(annotated):
    meta = annotated(lambda new, settings: {"a": 1, "b": 2}, meta={"p0.a": "mine", "other": True})
    assert meta == {"p0.a": "mine", "other": True, "p0.b": 2}


def test_nothing_to_add_leaves_the_job_as_it_is(told):
    job = make_job()
    annotations = Annotations([Annotator("p", "p", lambda new, settings: None)], make_settings(), told.append)
    assert annotations.added_to(job) == job


def raises(new, settings):
    raise RuntimeError("no\nluck")


def leaves(new, settings):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (raises, "RuntimeError: no luck"),
        (leaves, "SystemExit: 3"),
        (lambda new, settings: {"a": object()}, "meta"),
        (lambda new, settings: {"a": float("nan")}, "meta"),
        (lambda new, settings: {"a": "x" * 4096}, "larger than 4096 bytes"),
        (lambda new, settings: ["a"], "AttributeError"),
        (lambda new, settings: {"a": "\ud800"}, "meta"),
    ],
)
def test_one_that_fails_adds_nothing_and_is_told_of_once(annotated, told, call, why):
    meta = annotated(call, lambda new, settings: {"b": 2}, jobs=3)
    assert meta == {"p1.b": 2}
    (line,) = told
    assert line.startswith("plugin p0 failed: ")
    assert why in line
