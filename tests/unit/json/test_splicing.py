"""Lines that are made out of a job's own line say what encoding the job would have said."""

import json
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import Job, Run
from jobq.store import Claim
from jobq.testing import START, make_job
from jobq.times import format_time
from jobq_json.kept import of_claim, of_completion, of_job, of_whole_line
from jobq_json.lines import job_line, job_of
from jobq_json.splicing import claimed_text
from jobq_json.transactions import encode

LATER = START + timedelta(seconds=3)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ['","queue":"other', ',"updated_at":"2026-07-11T20:57:58.316Z"', "updated_at", "created_at"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
RUN = Run(run=1, worker="w0", host="h", started=START, finished=START, outcome="failed", error="exit code 1")
FRESH = {
    "payload": st.dictionaries(TEXTS, VALUES, max_size=3),
    "tags": st.lists(NAMES, max_size=2).map(tuple),
    "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
    "meta": st.dictionaries(TEXTS, VALUES, max_size=2),
    "queue": NAMES,
    "priority": st.integers(-1000, 1000),
    "run_at": st.sampled_from([START, LATER]),
    "timeout": st.sampled_from([None, timedelta(seconds=1.5)]),
    "retry_on": st.sampled_from([(), (3, "timeout")]),
}
USED = {
    "attempts": st.integers(0, 2),
    "losses": st.integers(0, 2),
    "run": st.integers(0, 2),
    "rev": st.integers(1, 3),
    "history": st.sampled_from([(), (RUN,)]),
    "last_error": st.none() | TEXTS,
    "extra": st.dictionaries(st.sampled_from(["colour", "updated_at_all"]), VALUES, max_size=1),
}


def jobs(**fields):
    return st.builds(make_job, NAMES, handler=TEXTS.filter(bool), **fields)


OUTCOMES = st.builds(
    Outcome,
    kind=st.just(Kind.SUCCESS),
    result=VALUES,
    exit_code=st.sampled_from([None, 0]),
    started=st.sampled_from([None, LATER]),
)


def worked(job, outcome):
    """The job once it is claimed, its text, how the store keeps it, and the change that ends it."""
    kept = of_whole_line(job_line(job, 7), 100)
    assert kept is not None
    claimed = job.changed(lifecycle.claimed(job, "w1", now=START), now=START)
    text = claimed_text(kept, claimed, worker='"w1"', at=format_time(START))
    change = lifecycle.after(Claim(claimed, "w1", "host"), outcome, now=LATER, delay=lambda *_: None)
    return claimed, text, of_claim(kept, "w1", job=claimed), change


@given(jobs(**FRESH), OUTCOMES)
def test_what_was_only_enqueued_is_spliced(job, outcome):
    claimed, text, kept, change = worked(job, outcome)
    assert text is not None
    assert Job.from_record(json.loads(text)) == claimed
    fields, run = change.record(), encode(change.run.record())
    after = of_completion(kept, fields, run, at="2026-07-11T20:57:58.316Z")
    assert after is not None


@given(jobs(**FRESH, **USED), OUTCOMES)
def test_whatever_the_job_is_a_text_that_is_spliced_is_the_job(job, outcome):
    claimed, text, kept, change = worked(job, outcome)
    assert text is None or Job.from_record(json.loads(text)) == claimed
    now = claimed.changed(change, now=LATER)
    after = of_completion(kept, change.record(), encode(change.run.record()), at=now.record()["updated_at"])
    if after is None:
        return
    assert after.job == job_of(after.line) == now
    encoded = of_job(now, kept.seq)
    for name in ("id", "seq", "run_at", "state", "queue", "priority", "losses", "handler", "worker"):
        assert getattr(after, name) == getattr(encoded, name)
    assert len(set(json.loads(after.line, object_pairs_hook=lambda pairs: [name for name, _ in pairs]))) == len(
        json.loads(after.line, object_pairs_hook=lambda pairs: [name for name, _ in pairs])
    )


@given(jobs(**FRESH), st.sampled_from([Kind.FAILURE, Kind.RELEASED, Kind.TIMEOUT]))
def test_what_does_not_complete_is_encoded(job, kind):
    _, _, kept, change = worked(job, Outcome(kind=kind, reason="because"))
    assert of_completion(kept, change.record(), encode(change.run.record()), at="") is None
