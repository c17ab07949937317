"""The part of the store contract about many jobs: finding, counting, pausing, and what is due next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobq import lifecycle
from jobq.job import ENDED, FINISHED, Change, State
from jobq.members import Presence
from jobq.store import Query, Store, Wanted
from jobq.testing.builders import make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import (
    StoreFixtures,
    claim,
    failure,
    finish,
    ids,
    into,
    later,
    release,
    success,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

EVERYTHING = Wanted()


class StoreQueries(StoreFixtures):
    """Many jobs."""

    def test_a_store_without_jobs(self, store: Store, other: Store) -> None:
        assert list(store.find(Query())) == []
        counts = other.counts(now=START)
        assert (counts.queues, counts.paused, counts.later, counts.damaged) == ({}, {}, 0, 0)
        assert store.next_due(EVERYTHING, now=START) is None
        assert store.prune(states=FINISHED, before=later(1), limit=10) == []
        assert store.workers() == []
        assert store.lost(now=START) == []
        assert store.check() == []

    def test_found_are_running_then_waiting_then_dead_then_finished_ones(
        self, store: Store, other: Store, worker: Presence
    ) -> None:
        order = (
            ("first-done", State.COMPLETED),
            ("dead", State.DEAD),
            ("given-up", State.CANCELLED),
            ("last-done", State.COMPLETED),
            ("running", State.PROCESSING),
        )
        for number, (name, state) in enumerate(order):
            store.add(new(make_job(name, queue=f"q{number % 2}")), now=START)
            into(store, worker, name, state, now=later(number))
        store.add(new(make_job("retrying", queue="q1")), now=START)
        into(store, worker, "retrying", State.FAILED, now=later(9))
        store.add(
            new(
                make_job("low", priority=-1),
                make_job("second", queue="q1"),
                make_job("third", queue="q0"),
                make_job("early", run_at=later(-60), queue="q0"),
                make_job("future", run_at=later(7200)),
                make_job("urgent", priority=5, run_at=later(9000), queue="q1"),
            ),
            now=START,
        )
        waiting = ["urgent", "early", "second", "third", "retrying", "future", "low"]
        expected = ["running", *waiting, "dead", "last-done", "given-up", "first-done"]
        assert ids(store.find(Query())) == expected
        assert ids(other.find(Query())) == expected
        for limit in (1, 3, 8, 10, 100):
            assert ids(other.find(Query(limit=limit))) == expected[:limit]
        assert ids(store.find(Query(queue="q1"))) == [
            name for name in expected if name in ("dead", "last-done", "second", "retrying", "urgent")
        ]

    def test_every_condition_narrows_what_is_found(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("Done-1", tags=("x", "red")), make_job("done-2", handler="resize")), now=START)
        done = claim(store, worker)
        finish(store, worker, *(success(each, now=later(5)) for each in done), now=later(5))
        store.add(
            new(
                make_job("a-1", tags=("red", "blue"), queue="mail"),
                make_job("a-2", handler="resize", tags=("blue",), run_at=later(10)),
                make_job("b-1", handler="mail", queue="mail", updated_at=later(20), run_at=later(20)),
            ),
            now=START,
        )

        def found(**conditions: object) -> set[str]:
            query = Query(**conditions)  # type: ignore[arg-type]
            names = ids(other.find(query))
            assert len(names) == len(set(names)), "nothing comes twice"
            assert sorted(names) == sorted(job.id for job in store.find(Query()) if query.matches(job))
            return set(names)

        assert found(states=frozenset({State.PENDING})) == {"a-1", "a-2", "b-1"}
        assert found(states=FINISHED) == {"Done-1", "done-2"}
        assert found(states=frozenset({State.DEAD})) == set()
        assert found(states=frozenset()) == set()
        assert found(queue="mail") == {"a-1", "b-1"}
        assert found(queue="nothing") == set()
        assert found(tag="red") == {"Done-1", "a-1"}
        assert found(tag="re") == set()
        assert found(handler="resize") == {"done-2", "a-2"}
        assert found(prefix="a-") == {"a-1", "a-2"}
        assert found(prefix="done") == {"done-2"}
        assert found(prefix="") == {"Done-1", "done-2", "a-1", "a-2", "b-1"}
        assert found(since=later(5)) == {"Done-1", "done-2", "b-1"}
        assert found(before=later(5)) == {"a-1", "a-2"}
        assert found(since=later(5), before=later(20)) == {"Done-1", "done-2"}
        assert found(states=FINISHED, handler="resize", prefix="d", since=later(1)) == {"done-2"}
        assert found(states=FINISHED, handler="mail") == set()
        assert len(list(other.find(Query(tag="blue", limit=1)))) == 1

    def test_what_is_found_is_the_state_at_the_call(self, store: Store, other: Store, worker: Presence) -> None:
        jobs = [make_job(f"j{number}") for number in range(20)]
        store.add(new(*jobs), now=START)
        found = store.find(Query())
        begun = store.find(Query())
        first = next(begun)
        other.add(new(make_job("too-late"), make_job("too-late-and-urgent", priority=9)), now=START)
        other.delete([jobs[10]])
        finish(other, worker, *map(success, claim(other, worker, limit=5)))
        assert list(found) == jobs
        assert [first, *begun] == jobs

    def test_counts_are_by_queue_and_state(self, store: Store, other: Store, worker: Presence) -> None:
        for number, state in enumerate(State):
            name = str(state)
            store.add(new(make_job(name, queue="even" if number % 2 == 0 else "odd")), now=START)
            job = into(store, worker, name, state)
            if state is State.PENDING:
                store.change(job, Change({"run_at": later(50)}), now=START)
        store.add(new(make_job("x", queue="odd", run_at=later(100)), make_job("y", queue="odd")), now=START)
        nothing = dict.fromkeys(State, 0)
        for handle in (store, other):
            counts = handle.counts(now=START)
            assert counts.queues == {
                "even": nothing | {State.PENDING: 1, State.COMPLETED: 1, State.DEAD: 1},
                "odd": nothing | {State.PENDING: 2, State.PROCESSING: 1, State.FAILED: 1, State.CANCELLED: 1},
            }
            assert counts.paused == {}
            assert counts.damaged == 0
            assert counts.states == dict.fromkeys(State, 1) | {State.PENDING: 3}

    def test_counts_are_a_recount_after_every_change(self, store: Store, other: Store, worker: Presence) -> None:
        def recounted() -> None:
            jobs = list(store.find(Query()))
            queues = {job.queue: dict.fromkeys(State, 0) for job in jobs}
            for job in jobs:
                queues[job.queue][job.state] += 1
            for handle in (store, other):
                assert handle.counts(now=START).queues == queues

        def decided(job_id: str, decide: Callable[..., Change | None]) -> None:
            job = store.get(job_id)
            change = decide(job, now=START)
            assert change is not None
            store.change(job, change, now=START)
            recounted()

        store.add(new(*(make_job(name, queue=name[0]) for name in ("a1", "a2", "b1", "b2", "b3"))), now=START)
        recounted()
        a1, a2, b1 = claim(store, worker, limit=3)
        recounted()
        finish(store, worker, success(a1), failure(a2))
        recounted()
        decided("b1", lifecycle.cancel)
        finish(store, worker, release(b1))
        recounted()
        for name in ("a2", "b2"):
            decided(name, lifecycle.cancel)
        decided("b1", lifecycle.retry)
        store.change(store.get("b3"), Change({"queue": "c"}), now=START)
        recounted()
        assert store.delete([store.get("b2")]) == ["b2"]
        recounted()
        assert sorted(store.prune(states=ENDED, before=later(1), limit=10)) == ["a1", "a2"]
        recounted()

    @pytest.mark.parametrize(("seconds", "expected"), [(0, 2), (49.999, 2), (50, 1), (99, 1), (100, 0)])
    def test_pending_jobs_that_are_not_due_are_counted(self, store: Store, seconds: float, expected: int) -> None:
        store.add(
            new(make_job("now"), make_job("soon", run_at=later(50)), make_job("then", run_at=later(100))), now=START
        )
        assert store.counts(now=later(seconds)).later == expected

    def test_a_queue_without_jobs_is_not_counted(self, store: Store, other: Store) -> None:
        store.add(new(make_job("one", queue="short"), make_job("two")), now=START)
        store.delete([store.get("one")])
        assert set(other.counts(now=START).queues) == {"default"}

    def test_a_paused_queue_is_not_claimed_from(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("p", queue="mail", priority=9), make_job("q")), now=START)
        other.pause("mail", True, reason="the server is down", now=START)
        assert store.next_due(Wanted(queues=("mail",)), now=START) is None
        assert ids(claim(store, worker)) == ["q"]
        assert ids(claim(store, worker, queues=("mail",))) == []
        store.add(new(make_job("r", queue="mail")), now=START)
        assert claim(store, worker) == []
        assert ids(store.find(Query(states=frozenset({State.PENDING})))) == ["p", "r"]
        other.pause("mail", False, now=START)
        assert store.next_due(EVERYTHING, now=START) == START
        assert ids(claim(store, worker)) == ["p", "r"]

    def test_runs_of_a_paused_queue_go_on(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(*(make_job(name, queue="mail") for name in ("a", "b", "c"))), now=START)
        a, b, c = claim(store, worker)
        other.pause("mail", True, now=START)
        ended = [success(a), failure(b, wait=0), release(c)]
        assert finish(store, worker, *ended).refused == []
        assert [store.get(name).state for name in "abc"] == [State.COMPLETED, State.FAILED, State.PENDING]
        assert claim(store, worker) == []

    def test_pauses_are_told_with_their_reasons(self, store: Store, other: Store) -> None:
        store.pause("mail", True, reason="the server is down", now=START)
        store.pause("empty", True, now=START)
        for handle in (store, other):
            counts = handle.counts(now=START)
            assert counts.paused == {"mail": "the server is down", "empty": ""}
            assert counts.queues == {name: dict.fromkeys(State, 0) for name in ("mail", "empty")}
        other.pause("mail", True, reason="still", now=START)
        other.pause("empty", False, now=START)
        store.pause("never-paused", False, now=START)
        assert store.counts(now=START).paused == {"mail": "still"}
        assert set(other.counts(now=START).queues) == {"mail"}

    def test_pauses_outlive_their_handle(self, store: Store, other: Store) -> None:
        store.pause("mail", True, reason="later", now=START)
        store.close()
        assert other.counts(now=START).paused == {"mail": "later"}

    def test_the_next_due_time_is_that_of_what_is_wanted(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(
            new(
                make_job("mail", queue="mail", run_at=later(30)),
                make_job("handled", handler="resize", run_at=later(20), priority=-5),
                make_job("alone", losses=2, run_at=later(10)),
                make_job("last", run_at=later(40), priority=10),
            ),
            now=START,
        )

        def due(**wanted: object) -> datetime | None:
            return other.next_due(Wanted(**wanted), now=START)  # type: ignore[arg-type]

        assert due() == later(10)
        assert due(alone=True) == later(10)
        assert due(alone=False) == later(20)
        assert due(alone=False, handlers=frozenset()) == later(30)
        assert due(queues=("mail",)) == later(30)
        assert due(queues=("default", "mail"), handlers=frozenset({"resize"}), alone=False) == later(20)
        assert due(queues=("nothing",)) is None
        store.pause("default", True, now=START)
        assert due() == later(30)
        store.pause("default", False, now=START)
        assert ids(claim(store, worker, now=later(100), limit=1)) == ["last"]
        assert due(alone=False) == later(20)

    def test_the_next_due_time_follows_every_change(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("one", run_at=later(5))), now=START)
        assert other.next_due(EVERYTHING, now=START) == later(5)
        moved = store.change(store.get("one"), Change({"run_at": later(2)}), now=START)
        assert other.next_due(EVERYTHING, now=START) == later(2)
        (held,) = claim(store, worker, now=later(2))
        assert other.next_due(EVERYTHING, now=later(2)) is None
        finish(store, worker, failure(held, now=later(3), wait=60), now=later(3))
        assert other.next_due(EVERYTHING, now=later(3)) == later(63)
        assert moved.run_at == later(2)
        other.delete([other.get("one")])
        assert store.next_due(EVERYTHING, now=later(3)) is None

    def test_what_is_due_already_is_due_at_once(self, store: Store) -> None:
        store.add(new(make_job("one")), now=START)
        due = store.next_due(EVERYTHING, now=later(100))
        assert due is not None
        assert due <= later(100)
