"""What is told of an event, and what never leaves the machine."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from jobq.errors import InvalidInput
from jobq.events import Event, EventKind
from jobq.job import State
from jobq.testing import START, make_job
from jobq_webhook.messages import FIELD_LIMIT, Message, facts, of_event

JOB = make_job(
    "nightly",
    command="curl -u ada:CANARY https://example.org",
    env={"TOKEN": "CANARY"},
    cwd="/CANARY",
    meta={"x.y": "CANARY"},
    tags=("billing",),
    state=State.DEAD,
    attempts=3,
    exit_code=1,
    rev=7,
    last_error="exit code 1\nCANARY",
    finished_at=START,
)


def event(job=JOB, kind=EventKind.DEAD, run=3, time=START):
    return Event(kind, job, run, time)


def test_the_shape_of_a_message():
    message = of_event(event(), ("error",))
    assert json.loads(message.body()) == {
        "type": "job.dead",
        "timestamp": "2026-07-11T20:57:58.316Z",
        "data": {
            "id": "nightly",
            "queue": "default",
            "handler": None,
            "tags": ["billing"],
            "state": "dead",
            "run": 3,
            "attempts": 3,
            "max_attempts": 3,
            "losses": 0,
            "exit_code": 1,
            "created_at": "2026-07-11T20:57:58.316Z",
            "run_at": "2026-07-11T20:57:58.316Z",
            "started_at": None,
            "finished_at": "2026-07-11T20:57:58.316Z",
            "error": "exit code 1",
            "omitted": [],
        },
    }


@pytest.mark.parametrize("kind", EventKind)
def test_nothing_that_may_be_secret_is_told_unasked(kind):
    handled = replace(JOB, command=None, handler="mail", payload={"to": "CANARY"}, result="CANARY")
    for job in (JOB, handled):
        assert b"CANARY" not in of_event(event(job, kind), ()).body()
        assert b"CANARY" not in of_event(event(job, kind), ("error",)).body()


def test_what_is_asked_for_is_told_but_never_the_environment():
    everything = ("command", "error", "payload", "result")
    body = of_event(event(), everything).body()
    assert body.count(b"CANARY") == 1
    assert b"ada:CANARY" in body
    handled = make_job("one", handler="mail", payload={"to": "ada@example.org"}, result=[1])
    data = of_event(event(handled), everything).data
    assert (data["command"], data["error"], data["payload"], data["result"]) == (
        None,
        None,
        {"to": "ada@example.org"},
        [1],
    )


def test_what_is_too_large_or_too_deep_is_left_out_and_named():
    deep = []
    for _ in range(95):
        deep = [deep]
    job = make_job("one", handler="mail", payload={"x": "y" * FIELD_LIMIT}, result=deep)
    data = of_event(event(job), ("payload", "result", "error")).data
    assert (data["payload"], data["result"], data["omitted"]) == (None, None, ["payload", "result"])


def test_a_reason_is_one_clean_line():
    job = replace(JOB, last_error="\x1b[2J\x00bad\u202e thing\r\nmore" + "x" * 5000)
    assert of_event(event(job), ("error",)).data["error"] == "[2J bad thing"
    long = replace(JOB, last_error="x" * 5000)
    assert len(of_event(event(long), ("error",)).data["error"]) == 500


def test_the_same_event_is_the_same_message():
    assert of_event(event(), ()) == of_event(event(), ())


@pytest.mark.parametrize(
    "other",
    [
        event(kind=EventKind.FAILED),
        event(run=4),
        event(time=START + timedelta(milliseconds=1)),
        event(replace(JOB, id="other")),
        event(replace(JOB, rev=8)),
        event(replace(JOB, created_at=START - timedelta(days=1))),
        event(replace(JOB, updated_at=START + timedelta(days=1))),
    ],
)
def test_another_event_is_another_message(other):
    assert of_event(other, ()).id != of_event(event(), ()).id


def test_no_id_holds_a_dot():
    assert "." not in of_event(event(replace(JOB, id="a.b.c")), ()).id


def test_a_message_survives_its_job():
    message = of_event(event(), ("error",))
    again = Message.from_record(json.loads(json.dumps({"target": "x", **message.record()})))
    assert again == message
    assert again.body() == message.body()


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        "text",
        {},
        {"id": "msg_1", "type": "job.dead", "timestamp": "now", "data": []},
        {"id": "msg.1", "type": "job.dead", "timestamp": "now", "data": {}},
        {"id": "msg_1\nx: y", "type": "job.dead", "timestamp": "now", "data": {}},
        {"id": "msg_1", "type": "", "timestamp": "now", "data": {}},
        {"id": "", "type": "job.dead", "timestamp": "now", "data": {}},
    ],
)
def test_what_is_no_message_is_refused(record):
    with pytest.raises(InvalidInput, match="no message"):
        Message.from_record(record)


def test_the_bare_facts_are_the_same_whatever_happened():
    assert facts(JOB, 1).keys() == facts(make_job(handler="h"), 0).keys()
