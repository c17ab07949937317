"""The part of the store contract about single jobs: added, kept, changed, deleted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobq import lifecycle
from jobq.errors import DuplicateJob, JobChanged, JobNotFound
from jobq.job import ENDED, HISTORY_LIMIT, Change, Job, Run, State
from jobq.members import Presence
from jobq.store import Query, Store
from jobq.testing.builders import make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import (
    ALL,
    StoreFixtures,
    claim,
    failure,
    finish,
    ids,
    into,
    later,
    success,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = Run(run=1, worker="w1", host="alpha", started=START, finished=later(1.5), outcome="failed", error="exit code 1")

SAMPLES = [
    Job(id="bare", command="true", created_at=START, updated_at=START, run_at=START),
    Job(
        id="A.full:job@x_1-",
        command=("printf", "%s", "a b", "", 'quote" and \\'),
        payload={"n": [1, -2, 2**63 - 1, 0.25, 1e300, True, None, {"": {}}], "text": 'naïve ☃ 𝄞 \x7f\n\t"\\'},
        queue="Mail.out",
        priority=-1000,
        state=State.FAILED,
        attempts=2,
        max_attempts=2**31,
        losses=1,
        run=7,
        rev=1,
        run_at=later(0.001),
        timeout=timedelta(milliseconds=1500),
        cwd="/srv/mail out",
        env={"LANG": "de_DE.UTF-8", "EMPTY": ""},
        tags=("nightly", "übung"),
        meta={"example.key": {"a": [1]}},
        on_lost="dead",
        retry_on=(75, "100-110", "timeout"),
        no_retry_on=("ValueError", 2),
        result={"rows": 3},
        exit_code=-1,
        last_error="exit code 1\nline\nline",
        history=(RUN,),
        created_at=later(-5),
        updated_at=later(-1),
        started_at=later(-3),
        finished_at=later(-2),
        extra={"from_a_newer_version": {"deep": [1, None]}, "another": 1},
    ),
    Job(id="handled", handler="resize", payload=[1, "two"], created_at=START, updated_at=START, run_at=later(3600)),
    Job(id="null-payload", handler="resize", payload=None, max_attempts=1, result=False, exit_code=0),
    Job(id="x" * 128, command="echo 'one'\necho two", priority=1000, cancel_requested_at=None),
]


VALUES: list[Any] = [
    [None, True, False, 1, 1.0, 0, -1, "", [], {}, [[]], {"": None}],
    [2**63 - 1, -(2**63), 2**53 + 1, 1e300, -1e-300, 5e-324, 0.1, 1.7976931348623157e308, 123456789.123456789],
    "\x01\x1f\x7f\x80\u2028\u2029\ufeff\ufffd\U0010ffff e\u0301 \u00e9 \\ / \" ' \r\n\t",
    {"null": "null", "NaN": "NaN", "1": "1", " ": " ", "\u00e9": 1, "e\u0301": 2, "$id": {}, "__proto__": []},
    json.loads("[" * 95 + '"deep"' + "]" * 95),
]


def written(value: object) -> str:
    """A JSON value as text, which tells 1 from 1.0 and from true; in what order keys come is nobody's business."""
    return json.dumps(value, sort_keys=True)


class StoreJobs(StoreFixtures):
    """Single jobs."""

    @pytest.mark.parametrize("job", SAMPLES, ids=lambda job: job.id[:12])
    def test_every_field_is_kept(self, handle: Callable[[], Store], job: Job) -> None:
        store = handle()
        assert store.add(new(job), now=START) == [job]
        assert store.get(job.id) == job
        other = handle()
        assert other.get(job.id) == job, "another handle sees it"
        store.close()
        assert other.get(job.id) == job, "it is there after the handle that added it is closed"
        other.close()
        again = handle()
        assert again.get(job.id) == job, "it is there after every handle is closed"
        assert list(again.find(Query())) == [job]
        assert again.check() == []

    def test_jobs_come_back_in_the_order_given(self, store: Store) -> None:
        jobs = [make_job(name) for name in ("c", "a", "b")]
        assert store.add(new(*jobs, generated=True), now=START) == jobs
        assert store.add([], now=START) == []
        assert ids(store.find(Query())) == ["c", "a", "b"]

    def test_a_large_payload_is_kept(self, store: Store, other: Store) -> None:
        job = make_job("large", handler="h", payload={"text": "ü" * (1 << 19), "list": list(range(10_000))})
        store.add(new(job), now=START)
        assert other.get("large") == job

    @pytest.mark.parametrize("payload", VALUES, ids=range(len(VALUES)))
    def test_every_json_value_is_kept_as_it_is(
        self, store: Store, other: Store, worker: Presence, payload: object
    ) -> None:
        store.add(
            new(make_job("one", handler="h", payload=payload, meta={"m": payload}, extra={"x": payload})), now=START
        )
        (held,) = claim(other, worker)
        finish(other, worker, success(held, result=payload))
        job = store.get("one")
        for value in (job.payload, job.result, job.meta["m"], job.extra["x"]):
            assert written(value) == written(payload), "not even 1 for 1.0 or true"

    def test_ids_differ_by_case_and_length(self, store: Store) -> None:
        jobs = [make_job(name) for name in ("job", "Job", "job.1", "job.10", "jo")]
        store.add(new(*jobs), now=START)
        assert [store.get(job.id) for job in jobs] == jobs

    def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        with pytest.raises(JobNotFound):
            store.get("nothing")
        store.add(new(make_job("abcdef")), now=START)
        for name in ("abc", "abcdefg", "ABCDEF", "bcdef"):
            with pytest.raises(JobNotFound):
                store.get(name)

    def test_many_are_given_by_their_whole_ids(self, store: Store, other: Store, worker: Presence) -> None:
        jobs = [make_job(f"job-{number}") for number in range(20)]
        other.add(new(*jobs), now=START)
        finish(other, worker, *map(success, claim(other, worker, limit=2)))
        other.delete([other.get("job-19")])
        named = [job.id for job in jobs]
        assert store.get_many(named) == {name: store.get(name) for name in named[:19]}
        some = iter(["job-3", "job-19", "job-", "JOB-4", "nothing"])
        assert store.get_many(some) == {"job-3": store.get("job-3")}
        assert store.get_many([]) == store.get_many(["nothing"]) == {}

    def test_every_taken_or_repeated_id_is_named_and_nothing_added(self, store: Store, other: Store) -> None:
        other.add(new(make_job("taken-1"), make_job("taken-2"), make_job("free")), now=START)
        batch = ("new-1", "taken-2", "twice", "taken-1", "twice", "new-2")
        with pytest.raises(DuplicateJob) as caught:
            store.add(new(*map(make_job, batch)), now=START)
        assert sorted(caught.value.ids) == ["taken-1", "taken-2", "twice"]
        assert sorted(ids(store.find(Query()))) == ["free", "taken-1", "taken-2"]
        store.add(new(make_job("new-1"), make_job("twice"), make_job("new-2")), now=START)

    def test_a_batch_of_any_size_is_added_whole_or_not_at_all(self, store: Store, other: Store) -> None:
        store.add(new(make_job("j2499")), now=START)
        batch = [make_job(f"j{number}") for number in range(2500)]
        with pytest.raises(DuplicateJob) as caught:
            store.add(new(*batch), now=START)
        assert caught.value.ids == ("j2499",)
        assert other.counts(now=START).states[State.PENDING] == 1
        store.add(new(*batch[:-1]), now=START)
        assert other.counts(now=START).states[State.PENDING] == 2500
        assert ids(other.find(Query())) == ["j2499", *ids(batch[:-1])]

    @pytest.mark.parametrize("state", list(State), ids=str)
    def test_an_id_is_taken_until_its_job_is_deleted(self, store: Store, worker: Presence, state: State) -> None:
        store.add(new(make_job("one")), now=START)
        job = into(store, worker, "one", state)
        with pytest.raises(DuplicateJob):
            store.add(new(make_job("one")), now=START)
        assert store.get("one") == job
        if state is not State.PROCESSING:
            assert store.delete([job]) == ["one"]
            fresh = make_job("one", priority=3)
            store.add(new(fresh), now=START)
            assert store.get("one") == fresh

    def test_a_change_gives_its_fields_and_a_new_rev(self, store: Store, other: Store) -> None:
        before = make_job("one", timeout=timedelta(seconds=5), tags=("a",), extra={"unknown": 1})
        store.add(new(before), now=START)
        after = store.change(before, Change({"timeout": None, "tags": (), "priority": 7}, RUN), now=later(2))
        assert (after.timeout, after.tags, after.priority) == (None, (), 7)
        assert (after.rev, after.updated_at, after.history) == (2, later(2), (RUN,))
        assert (after.command, after.extra, after.created_at) == ("true", {"unknown": 1}, START)
        assert store.get("one") == after
        assert other.get("one") == after

    def test_only_the_latest_rev_is_changed(self, store: Store, other: Store) -> None:
        first = make_job("one")
        store.add(new(first), now=START)
        second = store.change(first, Change({"priority": 1}), now=later(1))
        with pytest.raises(JobChanged):
            other.change(first, Change({"priority": 2}), now=later(2))
        with pytest.raises(JobChanged):
            store.change(first, Change({"priority": 2}), now=later(2))
        assert other.get("one") == second
        third = other.change(second, Change({"priority": 3}), now=later(3))
        assert store.get("one") == third
        with pytest.raises(JobNotFound):
            store.change(make_job("missing"), Change({"priority": 1}), now=START)

    def test_of_many_those_are_changed_that_are_as_they_were(self, store: Store, other: Store) -> None:
        stale, *fresh = jobs = [make_job(name) for name in ("stale", "one", "two")]
        store.add(new(*jobs), now=START)
        kept = other.change(stale, Change({"priority": 1}), now=later(1))
        change = Change({"priority": 2})
        asked = [stale, fresh[0], make_job("missing"), fresh[1]]
        changed = store.change_many([(job, change) for job in asked], now=later(2))
        assert changed == [job.changed(change, now=later(2)) for job in fresh]
        assert other.get_many(["stale", "one", "two"]) == {job.id: job for job in (kept, *changed)}
        assert store.change_many([(job, change) for job in jobs], now=later(3)) == []
        assert store.change_many([], now=later(3)) == []

    def test_a_job_that_is_as_it_was_has_changed_all_the_same(self, store: Store, other: Store) -> None:
        seen = make_job("one")
        store.add(new(seen), now=START)
        for decide in (lifecycle.cancel, lifecycle.retry):
            job = other.get("one")
            change = decide(job, now=START)
            assert change is not None
            other.change(job, change, now=START)
        assert other.get("one").state is seen.state
        with pytest.raises(JobChanged):
            store.change(seen, Change({"state": State.CANCELLED}), now=START)
        assert store.delete([seen]) == []
        assert store.get("one").state is State.PENDING

    def test_a_change_of_what_was_deleted_is_not_found(self, store: Store, other: Store) -> None:
        job = make_job("one")
        store.add(new(job), now=START)
        assert other.delete([job]) == ["one"]
        with pytest.raises(JobNotFound):
            store.change(job, Change({"priority": 1}), now=START)
        with pytest.raises(JobNotFound):
            store.get("one")

    def test_what_is_unknown_survives_a_whole_life(self, store: Store, other: Store, worker: Presence) -> None:
        extra = {"colour": ["red", None]}
        store.add(new(make_job("one", extra=extra)), now=START)
        (held,) = claim(other, worker)
        assert held.job.extra == extra
        finish(store, worker, failure(held, wait=0))
        (held,) = claim(store, worker)
        finish(other, worker, success(held))
        assert store.get("one").extra == extra

    def test_a_result_and_an_error_are_kept(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("good", handler="h"), make_job("bad")), now=START)
        good, bad = claim(store, worker)
        result = {"rows": [1, 2.5, None], "text": "☃\n"}
        finish(store, worker, success(good, result=result, now=later(1)), failure(bad, now=later(1)), now=later(1))
        found = other.get("good")
        assert (found.result, found.exit_code, found.finished_at) == (result, 0, later(1))
        found = other.get("bad")
        assert (found.last_error, found.exit_code) == ("exit code 1\nthe last words", 1)
        assert [run.outcome for run in found.history] == ["failed"]

    def test_the_history_keeps_the_latest_runs(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("one", max_attempts=100)), now=START)
        for number in range(HISTORY_LIMIT + 3):
            (held,) = claim(store, worker, now=later(number))
            finish(store, worker, failure(held, now=later(number), wait=0), now=later(number))
        runs = [run.run for run in other.get("one").history]
        assert runs == list(range(4, HISTORY_LIMIT + 4))

    def test_deleted_is_what_is_unchanged_and_not_running(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(*map(make_job, ("running", "changed", "gone", "good"))), now=START)
        (running,) = claim(store, worker, limit=1)
        stale = other.get("changed")
        gone = other.get("gone")
        store.change(stale, Change({"priority": 1}), now=START)
        store.delete([gone])
        asked = [other.get("running"), stale, gone, other.get("good"), make_job("never")]
        assert other.delete(asked) == ["good"]
        assert sorted(ids(store.find(Query()))) == ["changed", "running"]
        assert not finish(store, worker, success(running)).refused
        assert store.delete([store.get("running")]) == ["running"], "a finished job can be deleted"
        assert store.delete([]) == []

    def test_pruned_is_what_ended_before(self, store: Store, other: Store, worker: Presence) -> None:
        for number, state in enumerate(State):
            store.add(new(make_job(str(state))), now=later(number))
            into(store, worker, str(state), state, now=later(number))
            if state in (State.PENDING, State.FAILED):  # out of the way of the next one
                store.change(store.get(str(state)), Change({"run_at": later(ALL)}), now=later(number))
        ages = {state: number for number, state in enumerate(State)}
        assert other.prune(states=ENDED, before=later(ages[State.COMPLETED]), limit=ALL) == []
        assert other.prune(states=frozenset({State.DEAD}), before=later(100), limit=ALL) == ["dead"]
        assert sorted(other.prune(states=ENDED, before=later(100), limit=ALL)) == ["cancelled", "completed"]
        assert sorted(ids(store.find(Query()))) == ["failed", "pending", "processing"]
        store.add(new(make_job("completed")), now=START)

    def test_pruning_stops_at_its_limit(self, store: Store, worker: Presence) -> None:
        store.add(new(*(make_job(f"j{number}") for number in range(7))), now=START)
        finish(store, worker, *map(success, claim(store, worker)))
        gone: list[str] = []
        for expected in (3, 3, 1, 0):
            pruned = store.prune(states=ENDED, before=later(1), limit=3)
            assert len(pruned) == expected
            gone += pruned
        assert sorted(gone) == [f"j{number}" for number in range(7)]
        assert store.counts(now=START).queues == {}

    def test_a_retried_job_is_claimed_again(self, store: Store, other: Store, worker: Presence) -> None:
        for state in (State.FAILED, State.DEAD, State.CANCELLED):
            store.add(new(make_job(str(state))), now=START)
            job = into(store, worker, str(state), state)
            assert claim(other, worker) == []
            change = lifecycle.retry(job, now=later(1))
            assert change is not None
            other.change(job, change, now=later(1))
            (again,) = claim(store, worker, now=later(1))
            assert (again.job.id, again.run) == (str(state), job.run + 1)
