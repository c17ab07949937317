"""The job record and its form in JSON."""

import dataclasses
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.job import ENDED, EPOCH, FINISHED, HISTORY_LIMIT, WAITING, Change, Job, Run, State, new_id, read_fields
from jobq.testing import START, make_job

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,20}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
instants = st.integers(0, 7_000_000_000_000).map(lambda count: EPOCH + timedelta(milliseconds=count))
conditions = st.lists(st.integers(0, 255) | st.sampled_from(["timeout", "signal", "1-5", "ValueError"])).map(tuple)
counts = st.integers(0, 2**31)
runs = st.builds(
    Run,
    run=counts,
    worker=names,
    host=text,
    started=st.none() | instants,
    finished=instants,
    outcome=st.sampled_from(["completed", "failed", "lost"]),
    error=st.none() | text,
)
FIELDS = {
    "id": names,
    "command": st.none() | text | st.lists(text, min_size=1).map(tuple),
    "handler": st.none() | names,
    "payload": values,
    "queue": names,
    "priority": st.integers(-1000, 1000),
    "state": st.sampled_from(list(State)),
    "attempts": counts,
    "max_attempts": st.integers(1, 2**31),
    "losses": counts,
    "run": counts,
    "rev": st.integers(1, 2**31),
    "run_at": instants,
    "timeout": st.none() | st.integers(1, 10**12).map(lambda count: timedelta(milliseconds=count)),
    "cwd": st.none() | text,
    "env": st.dictionaries(text, text, max_size=3),
    "tags": st.lists(text, max_size=3).map(tuple),
    "meta": st.dictionaries(text, values, max_size=3),
    "on_lost": st.sampled_from(["retry", "dead"]),
    "retry_on": conditions,
    "no_retry_on": conditions,
    "worker": st.none() | names,
    "cancel_requested_at": st.none() | instants,
    "result": values,
    "exit_code": st.none() | st.integers(0, 255),
    "last_error": st.none() | text,
    "history": st.lists(runs, max_size=3).map(tuple),
    "created_at": instants,
    "updated_at": instants,
    "started_at": st.none() | instants,
    "finished_at": st.none() | instants,
    "extra": st.dictionaries(text.map("x.".__add__), values, max_size=3),
}
jobs = st.builds(Job, **FIELDS)


def through_json(record):
    return json.loads(json.dumps(record, allow_nan=False))


def test_every_field_of_a_job_is_tested_here():
    assert list(FIELDS) == [field.name for field in dataclasses.fields(Job)]


@given(jobs)
def test_a_job_survives_its_record(job):
    assert Job.from_record(through_json(job.record())) == job


@given(jobs)
def test_a_full_record_is_the_record_and_every_default(job):
    full = through_json(job.full_record())
    stored = through_json(job.record())
    assert full["max_retries"] == job.max_attempts
    assert {name: full[name] for name in stored} == stored
    assert set(FIELDS) - {"extra"} <= set(full)
    full.pop("max_retries")
    assert Job.from_record(full) == job


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "extra"])
@given(data=st.data())
def test_a_change_of_any_field_survives_its_record(name, data):
    change = Change({name: data.draw(FIELDS[name])})
    assert read_fields(through_json(change.record())) == change.fields


def test_the_defaults_are_frozen():
    """They are part of the format: what is not written means these values for ever."""
    assert Job(id="x", command="true").full_record() == {
        "id": "x",
        "command": "true",
        "handler": None,
        "payload": {},
        "queue": "default",
        "priority": 0,
        "state": "pending",
        "attempts": 0,
        "max_attempts": 3,
        "max_retries": 3,
        "losses": 0,
        "run": 0,
        "rev": 1,
        "run_at": "1970-01-01T00:00:00.000Z",
        "timeout": None,
        "cwd": None,
        "env": {},
        "tags": [],
        "meta": {},
        "on_lost": "retry",
        "retry_on": [],
        "no_retry_on": [],
        "worker": None,
        "cancel_requested_at": None,
        "result": None,
        "exit_code": None,
        "last_error": None,
        "history": [],
        "created_at": "1970-01-01T00:00:00.000Z",
        "updated_at": "1970-01-01T00:00:00.000Z",
        "started_at": None,
        "finished_at": None,
    }


def test_defaults_are_not_written():
    assert Job(id="x", command="true").record() == {"id": "x", "command": "true"}
    assert Job(id="x", handler="h", payload={}, queue="default", max_attempts=3, run_at=EPOCH).record() == {
        "id": "x",
        "handler": "h",
    }


@pytest.mark.parametrize("payload", [None, False, 0, "", []])
def test_an_empty_payload_is_not_the_default_one(payload):
    record = through_json(make_job("x", handler="h", payload=payload).record())
    assert record["payload"] == payload
    assert Job.from_record(record).payload == payload


def test_the_id_is_written_first_and_unknown_fields_last():
    job = make_job("x", priority=1, extra={"newer": [1], "also": None})
    assert next(iter(job.record())) == "id"
    changed = job.changed(Change({"id": "x", "priority": 2}), now=START)
    assert next(iter(changed.record())) == "id"
    assert list(changed.record())[-2:] == ["newer", "also"]


def test_unknown_fields_are_kept_and_written_back():
    record = {"id": "x", "command": "true", "colour": {"deep": [1]}, "max_retries_v2": 9}
    job = Job.from_record(record)
    assert job.extra == {"colour": {"deep": [1]}, "max_retries_v2": 9}
    assert job.record() == record
    assert job.changed(Change({"priority": 1}), now=START).record()["colour"] == {"deep": [1]}


def test_what_a_newer_version_adds_to_a_run_is_kept_and_written_back():
    record = {"run": 1, "finished": "2026-07-11T20:57:58.316Z", "outcome": "failed", "new": 1}
    run = Run(run=1, worker="", host="", started=None, finished=START, outcome="failed", extra={"new": 1})
    assert Run.from_record(record) == run
    assert run.record()["new"] == 1


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"id": 5},
        {"id": None},
        {"id": "x", "state": "odd"},
        {"id": "x", "run_at": "soon"},
        {"id": "x", "run_at": 5},
        {"id": "x", "timeout": "long"},
        {"id": "x", "history": [{}]},
        {"id": "x", "history": 5},
    ],
)
def test_what_is_no_job_is_no_job(record):
    with pytest.raises((KeyError, ValueError, TypeError)):
        Job.from_record(record)


@given(jobs, st.data())
def test_a_change_changes_its_fields_and_the_marks_of_a_write(job, data):
    chosen = data.draw(st.sets(st.sampled_from(sorted(set(FIELDS) - {"id", "rev", "updated_at", "extra", "history"}))))
    change = Change({name: data.draw(FIELDS[name]) for name in chosen})
    before = dataclasses.replace(job)
    after = job.changed(change, now=START)
    assert after == dataclasses.replace(job, **change.fields, rev=job.rev + 1, updated_at=START)
    assert job == before


def test_the_history_keeps_the_latest_runs():
    job = make_job("x")
    for number in range(1, HISTORY_LIMIT + 6):
        run = Run(run=number, worker="w", host="h", started=None, finished=START, outcome="failed")
        job = job.changed(Change({"run": number}, run), now=START)
    assert [run.run for run in job.history] == list(range(6, HISTORY_LIMIT + 6))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"command": "echo hello | wc"}, "echo hello | wc"),
        ({"command": ("echo", "a b", "")}, "echo 'a b' ''"),
        ({"handler": "resize"}, "resize"),
    ],
)
def test_what_a_job_runs_in_one_line(fields, what):
    assert make_job("x", **fields).what == what


def test_ids_are_16_base32_characters_of_chance():
    drawn = {new_id() for _ in range(1000)}
    assert len(drawn) == 1000
    assert all(len(each) == 16 and set(each) <= set("abcdefghijklmnopqrstuvwxyz234567") for each in drawn)


def test_every_state_is_waiting_running_or_ended():
    assert {*WAITING, State.PROCESSING, *ENDED} == set(State)
    assert not WAITING & ENDED
    assert FINISHED < ENDED
