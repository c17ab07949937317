"""Jobs that come in as they were exported."""

from __future__ import annotations

import json

import pytest

from jobq.app import App
from jobq.errors import DuplicateJob, InvalidInput
from jobq.importing import job_of, store_exported
from jobq.job import State
from jobq.store import Query
from jobq.testing import START, FakeClock, MemoryStore, aged, make_job


def exported(job):
    return json.loads(json.dumps(job.full_record()))


FULL = make_job(
    "full",
    command=("make", "a b"),
    queue="night",
    priority=7,
    env={"A": "é"},
    tags=("a", "b"),
    cwd="/srv",
    on_lost="dead",
    retry_on=(1, "3-5"),
    no_retry_on=(255,),
)


@pytest.mark.parametrize("state", [state for state in State if state is not State.PROCESSING], ids=str)
@pytest.mark.parametrize(
    "job", [make_job("plain"), FULL, make_job("h", handler="mail", payload=None), make_job("i", handler="x")]
)
def test_what_was_exported_comes_in_as_it_was(job, state):
    job = aged(job, state)
    assert job_of(exported(job), now=START) == job


def test_one_that_was_processing_waits_again_uncounted():
    job = make_job("one", state=State.PROCESSING, run=3, rev=4, attempts=1, worker="w" * 16, started_at=START)
    back = job_of(exported(job), now=START)
    assert (back.state, back.attempts, back.losses, back.run, back.rev) == (State.PENDING, 1, 0, 3, 5)
    assert back.worker is None
    assert (back.history[-1].outcome, back.history[-1].error) == ("released", "it was exported while it ran")
    assert job_of(exported(job), now=START).version == back.version, "so it may be imported again"


def test_one_that_counted_all_that_it_may_is_exported_within_what_stores_keep():
    job = make_job("one", state=State.PROCESSING, run=2**30, rev=2**30, worker="w" * 16)
    back = job_of(exported(job), now=START)
    assert back.history[-1].run == 2**30
    assert max(back.run, back.rev) + 1000 < 2**31


def test_one_that_was_to_be_cancelled_is():
    job = make_job("one", state=State.PROCESSING, run=1, rev=3, worker="w" * 16, cancel_requested_at=START)
    assert job_of(exported(job), now=START).state is State.CANCELLED


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "a b"}, "id"),
        ({"id": None}, "id"),
        ({"state": "done"}, "state: 'done' must be pending"),
        ({"state": ["pending"]}, "state"),
        ({"rev": 0}, "rev: 0 must be a whole number from 1"),
        ({"run": "1"}, "run"),
        ({"attempts": True}, "attempts"),
        ({"run_at": "soon"}, "run_at"),
        ({"created_at": None}, "created_at"),
        ({"finished_at": 5}, "finished_at"),
        ({"worker": "w"}, "no worker has"),
        ({"max_retries": 9}, "max_retries: 9 is another number than max_attempts"),
        ({"max_attempts": 0, "max_retries": 0}, "max_attempts"),
        ({"command": None}, "a command or a handler"),
        ({"handler": "x"}, "a command or a handler"),
        ({"command": ""}, "command"),
        ({"history": {}}, "history"),
        ({"history": [{}]}, r"history\[0\].run is missing|history\[0\].run: is missing"),
        ({"history": [{"run": 1, "finished": "x", "outcome": "failed"}]}, r"history\[0\].finished"),
        ({"history": ["x"]}, r"history\[0\]"),
        ({"last_error": 5}, "last_error"),
        ({"exit_code": "1"}, "exit_code"),
        ({"tags": "x"}, "tags"),
        ({"payload": {"a": 1}}, "payload: is for handlers"),
        ({"payload": 0}, "payload: is for handlers"),
        ({"seq": 7}, "seq: 7 is a name that stores use themselves"),
        ({"crc": "x"}, "crc: 'x' is a name that stores use themselves"),
        ({"state": "processing", "worker": "w", "run": 0}, "run: 0 must be at least 1"),
        ({"run": 2**30 + 1}, "run"),
        ({"rev": 2**30 + 1}, "rev"),
        ({"env": {"A": 1}}, "env"),
        ({"queue": None}, "queue"),
        ({"from_a_newer_one": "\ud800"}, "from_a_newer_one"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_the_name_of_the_field(changes, said):
    with pytest.raises(InvalidInput, match=said):
        job_of(exported(aged(make_job("one"), State.FAILED)) | changes, now=START)


@pytest.mark.parametrize("record", [None, [], "x", {"command": "true"}, {"id": "one", "command": "true"}])
def test_what_is_no_exported_job_is_refused(record):
    with pytest.raises(InvalidInput):
        job_of(record, now=START)


@pytest.fixture
def app(tmp_path):
    made = App(home=str(tmp_path / "home"), environ={}, clock=FakeClock(), store=MemoryStore())
    yield made
    made.close()


def test_they_are_stored_in_batches_and_may_be_imported_again(app):
    jobs = [make_job(f"j{number:04}") for number in range(2500)]
    seen = []
    assert store_exported(app, jobs[:1200]) == 1200
    assert store_exported(app, jobs, progress=seen.append) == 1300
    assert seen == [2200, 2500]
    assert store_exported(app, jobs) == 0
    assert [job.id for job in app.store.find(Query())] == [job.id for job in jobs]


def test_all_that_are_there_in_another_version_are_named_and_none_is_stored(app):
    store_exported(app, [make_job("one"), make_job("two")])
    changed = [make_job(name, rev=2) for name in ("one", "two")]
    with pytest.raises(DuplicateJob, match="jobs one, two exist already, with another version"):
        store_exported(app, [*[make_job() for _ in range(2000)], *changed])
    assert len(list(app.store.find(Query()))) == 2
