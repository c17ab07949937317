"""The part of the store contract about claims: which jobs, in which order, and the fencing of their ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from jobq import lifecycle
from jobq.job import Change, Job, State
from jobq.members import Presence
from jobq.store import ALONE_LOSSES, Claim, Ended, Store, Wanted
from jobq.testing.builders import make_info, make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import (
    ALL,
    StoreFixtures,
    claim,
    failure,
    finish,
    ids,
    later,
    release,
    success,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class StoreClaims(StoreFixtures):
    """Claims and their ends."""

    def test_a_claim_is_the_stored_job_with_a_new_run(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker, now=later(1))
        assert (held.worker, held.host, held.run) == (worker.id, worker.host, 1)
        job = held.job
        assert (job.state, job.run, job.rev, job.worker) == (State.PROCESSING, 1, 2, worker.id)
        assert (job.started_at, job.updated_at) == (later(1), later(1))
        assert other.get("one") == job
        assert other.held(worker) == [job]
        assert claim(other, worker, now=later(1)) == [], "it is not claimed twice"

    def test_the_order_is_priority_then_due_time_then_sequence(self, store: Store, worker: Presence) -> None:
        store.add(
            new(
                make_job("5th"),
                make_job("1st", priority=1000, run_at=later(1)),
                make_job("6th", queue="other"),
                make_job("2nd", priority=1, run_at=later(-1)),
                make_job("3rd", priority=1, queue="other"),
                make_job("4th", run_at=later(-0.001)),
                make_job("8th", priority=-1000, run_at=later(-3600)),
            ),
            now=START,
        )
        store.add(new(make_job("7th")), now=START)
        order = ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th"]
        taken: list[str] = []
        for limit in (1, 2, 0, 3, 100):
            claims = claim(store, worker, now=later(1), limit=limit)
            assert len(claims) <= limit
            taken += ids(claims)
        assert taken == order

    @pytest.mark.parametrize("handler", [None, "h"])
    def test_only_what_is_due_is_claimed(self, store: Store, worker: Presence, handler: str | None) -> None:
        fields = {} if handler is None else {"handler": handler}
        store.add(new(make_job("future", run_at=later(1.001), priority=9, **fields)), now=START)
        assert claim(store, worker) == []
        store.add(new(make_job("due", run_at=later(1), **fields)), now=START)
        assert ids(claim(store, worker, now=later(1))) == ["due"]
        assert claim(store, worker, now=later(1)) == []
        assert ids(claim(store, worker, now=later(1.001))) == ["future"]

    def test_only_wanted_queues_are_claimed_from(self, store: Store, worker: Presence) -> None:
        store.add(new(*(make_job(name, queue=name) for name in ("a", "b", "ab", "A", "default"))), now=START)
        assert claim(store, worker, queues=("nothing",)) == []
        assert claim(store, worker, queues=()) == []
        assert ids(claim(store, worker, queues=("A", "b"))) == ["b", "A"]
        assert ids(claim(store, worker)) == ["a", "ab", "default"]

    def test_only_installed_handlers_are_claimed(self, store: Store, worker: Presence) -> None:
        store.add(
            new(
                make_job("unknown", handler="missing", priority=9),
                make_job("command"),
                make_job("known", handler="resize"),
                make_job("known-too", handler="mail"),
            ),
            now=START,
        )
        assert ids(claim(store, worker, handlers=frozenset())) == ["command"]
        assert ids(claim(store, worker, handlers=frozenset({"resize", "absent"}))) == ["known"]
        assert ids(claim(store, worker)) == ["unknown", "known-too"]

    def test_jobs_with_more_losses_than_wanted_are_left(self, store: Store, worker: Presence) -> None:
        store.add(new(*(make_job(f"l{losses}", losses=losses) for losses in (3, 1, 2, 0))), now=START)
        assert ids(claim(store, worker, max_losses=0)) == ["l0"]
        assert ids(claim(store, worker, max_losses=1)) == ["l1"]
        assert ids(claim(store, worker, max_losses=2)) == ["l2"]
        assert ids(claim(store, worker)) == ["l3"]

    def test_a_job_with_many_losses_is_claimed_alone_and_only_when_first(self, store: Store, worker: Presence) -> None:
        store.add(
            new(
                make_job("a"),
                make_job("poison-1", losses=ALONE_LOSSES),
                make_job("b", losses=ALONE_LOSSES - 1),
                make_job("poison-2", losses=ALONE_LOSSES + 1),
                make_job("c"),
            ),
            now=START,
        )
        assert ids(claim(store, worker)) == ["a", "b", "c"], "others wait behind nothing"
        store.add(new(make_job("d")), now=START)
        assert ids(claim(store, worker)) == ["poison-1"], "it comes first now, and alone"
        assert ids(claim(store, worker, limit=1)) == ["poison-2"]
        assert ids(claim(store, worker)) == ["d"]

    def test_a_claim_ends_before_the_first_job_that_may_not_lead(self, store: Store, worker: Presence) -> None:
        jobs = (make_job("a"), make_job("b", queue="mail"), make_job("no"), make_job("c", queue="mail"), make_job("d"))
        store.add(new(*jobs), now=START)
        a, b = claim(store, worker, leading=lambda job: job.id != "no")
        assert ids([a, b]) == ["a", "b"]
        assert store.next_due(Wanted(leading=lambda job: False), now=START) == START
        answer = finish(store, worker, success(a), failure(b), limit=ALL, leading=lambda job: job.id != "no")
        assert (ids(answer.claims), store.held(worker)) == ([], []), "what ended is recorded all the same"
        assert ids(claim(store, worker)) == ["no", "c", "d"]

    def test_leading_is_shown_what_would_be_claimed_once_and_in_claim_order(
        self, store: Store, worker: Presence
    ) -> None:
        first, second = make_job("first", queue="mail", priority=1), make_job("second", handler="h", run_at=later(-1))
        third, last = make_job("third", queue="mail"), make_job("last", handler="g")
        store.pause("paused", True, now=START)
        others = ({"queue": "paused"}, {"run_at": later(1)}, {"queue": "other"}, {"handler": "other"}, {"losses": 1})
        store.add(new(*(make_job(priority=2, **other) for other in others), third, last, second, first), now=START)
        shown: list[Job] = []

        def lead(job: Job) -> bool:
            shown.append(job)
            return job.id != "last"

        queues, handlers = ("default", "mail", "paused"), frozenset("gh")
        wanted = Wanted(queues=queues, handlers=handlers, max_losses=0, leading=lead)
        for limit, expected in ((0, []), (1, [first]), (ALL, [second, third, last])):
            shown.clear()
            store.claim(worker, wanted=wanted, limit=limit, now=START)
            assert shown == expected, "as they were before the claim"

    def test_claims_of_two_members_are_their_own(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(*(make_job(f"j{number}") for number in range(5))), now=START)
        first = claim(store, worker, limit=2)
        second = claim(other, colleague, limit=2)
        assert ids(first + second) == ["j0", "j1", "j2", "j3"]
        assert sorted(ids(other.held(worker))) == ["j0", "j1"]
        assert sorted(ids(store.held(colleague))) == ["j2", "j3"]
        assert finish(other, colleague, success(second[0])).refused == []
        assert ids(store.held(colleague)) == ["j3"]

    def test_members_at_once_claim_every_job_once(self, handle: Callable[[], Store]) -> None:
        count, jobs = 4, [make_job(f"j{number}", priority=number % 3) for number in range(200)]
        handle().add(new(*jobs), now=START)
        stores = [handle() for _ in range(count)]
        taken: list[list[str]] = [[] for _ in range(count)]
        troubles: list[BaseException] = []

        def work(store: Store, mine: list[str]) -> None:
            try:
                presence = store.join(make_info())
                ended: list[Ended] = []
                while True:
                    answer = store.claim(presence, wanted=Wanted(), limit=3, now=START, ended=ended)
                    assert not answer.refused
                    if not answer.claims:
                        break
                    mine += ids(answer.claims)
                    ended = [success(each) for each in answer.claims]
                presence.close()
            except BaseException as trouble:
                troubles.append(trouble)

        threads = [threading.Thread(target=work, args=each) for each in zip(stores, taken, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert troubles == []
        assert sorted(job_id for mine in taken for job_id in mine) == sorted(job.id for job in jobs)
        assert stores[0].counts(now=START).states[State.COMPLETED] == len(jobs)

    def test_ends_are_recorded_before_the_next_claim(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("a"), make_job("b"), make_job("c"), make_job("d"), make_job("e")), now=START)
        a, b, c, d = claim(store, worker, limit=4)
        ended = [success(a, now=later(1)), failure(b, now=later(1), wait=0), failure(c, now=later(1)), release(d)]
        answer = finish(store, worker, *ended, now=later(1), limit=9)
        assert (answer.refused, answer.cancelled) == ([], [])
        assert ids(answer.claims) == ["d", "e", "b"], "what was handed back or is due at once is claimed again"
        states = [other.get(name).state for name in "abcde"]
        running = State.PROCESSING
        assert states == [State.COMPLETED, running, State.FAILED, running, running]
        b2 = answer.claims[2].job
        assert (b2.run, b2.attempts, b2.rev) == (2, 1, 4)
        d2 = answer.claims[0].job
        assert (d2.run, d2.attempts, d2.losses) == (2, 0, 0)
        assert [run.outcome for run in d2.history] == ["released"]

    def test_each_end_makes_its_job_what_the_lifecycle_says(self, store: Store, other: Store, worker: Presence) -> None:
        for name, end in (("good", success), ("bad", failure), ("back", release)):
            store.add(new(make_job(name, losses=1)), now=START)
            (held,) = claim(store, worker, now=later(1))
            ended = end(held, now=later(2))
            assert list(store.finish(worker, [ended], now=later(2))) == []
            assert other.get(name) == held.job.changed(ended.change, now=later(2))
            if name == "back":
                assert claim(store, worker, now=later(2)) != []

    def test_a_stale_end_is_refused_and_changes_nothing(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("one")), now=START)
        (first,) = claim(store, worker)
        finish(store, worker, release(first))
        released = store.get("one")
        assert finish(store, worker, success(first)).refused == [first], "nobody runs it"
        assert other.get("one") == released
        (second,) = claim(store, worker)
        for handle in (store, other):
            assert finish(handle, worker, success(first)).refused == [first], "another run of the same worker"
        assert other.get("one") == second.job
        assert finish(store, worker, success(second)).refused == []
        done = store.get("one")
        assert list(store.finish(worker, [success(second)], now=START)) == [second], "it is over already"
        assert other.get("one") == done

    def test_an_end_by_another_worker_is_refused(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        forged = Claim(held.job, colleague.id, colleague.host)
        assert finish(other, colleague, success(forged)).refused == [forged]
        assert store.get("one") == held.job
        assert finish(store, worker, success(held)).refused == []

    def test_a_refused_end_keeps_no_other_from_its_due(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(*(make_job(name) for name in ("a", "b", "c", "d"))), now=START)
        a, b, c = claim(store, worker, limit=3)
        finish(store, worker, success(b))
        answer = finish(store, worker, success(a), success(b), failure(c), limit=1)
        assert answer.refused == [b]
        assert ids(answer.claims) == ["d"]
        assert [other.get(name).state for name in "abc"] == [State.COMPLETED, State.COMPLETED, State.FAILED]

    def test_an_end_given_twice_in_one_call_counts_once(self, store: Store, worker: Presence) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        assert finish(store, worker, failure(held, wait=0), failure(held, wait=0)).refused == [held]
        assert store.get("one").attempts == 1

    def test_an_end_of_a_deleted_job_is_refused(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        change = lifecycle.lost(held, now=START, counted=True, max_losses=3)
        back = other.change(held.job, change, now=START)
        assert other.delete([back]) == ["one"]
        assert finish(store, worker, success(held)).refused == [held]
        assert store.held(worker) == []

    def test_a_lost_run_goes_to_another_worker(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        other.change(held.job, lifecycle.lost(held, now=later(1), counted=True, max_losses=3), now=later(1))
        assert store.held(worker) == []
        (again,) = claim(other, colleague, now=later(1))
        assert (again.run, again.job.losses, again.job.attempts, again.worker) == (2, 1, 0, colleague.id)
        assert finish(store, worker, success(held)).refused == [held]
        assert finish(other, colleague, success(again)).refused == []
        assert [run.outcome for run in store.get("one").history] == ["lost", "completed"]

    def test_a_cancel_asked_for_is_seen_by_the_holder_and_settled(
        self, store: Store, other: Store, worker: Presence
    ) -> None:
        store.add(new(*(make_job(name) for name in ("good", "bad", "back", "last"))), now=START)
        good, bad, back, last = claim(store, worker)
        for held in (good, bad, back):
            change = lifecycle.cancel(other.get(held.job.id), now=later(1))
            assert change is not None
            other.change(held.job, change, now=later(1))
        asked = {job.id for job in store.held(worker) if job.cancel_requested_at == later(1)}
        assert asked == {"good", "bad", "back"}
        answer = finish(
            store,
            worker,
            success(good, now=later(2)),
            failure(bad, now=later(2), wait=0),
            release(back, now=later(2)),
            failure(last, now=later(2), wait=0),
            now=later(2),
        )
        assert answer.refused == [], "the request is no change of who runs it"
        assert sorted(ids(answer.cancelled)) == ["back", "bad"]
        found = {name: other.get(name) for name in ("good", "bad", "back", "last")}
        assert [job.state for job in found.values()] == [
            State.COMPLETED,
            State.CANCELLED,
            State.CANCELLED,
            State.FAILED,
        ]
        for name in ("good", "bad", "back"):
            assert found[name].cancel_requested_at is None
            assert found[name].worker is None
        assert (found["bad"].attempts, found["bad"].finished_at) == (0, later(2))
        assert [run.outcome for run in found["back"].history] == ["cancelled"]
        assert ids(claim(store, worker, now=later(2))) == ["last"]

    def test_held_is_what_runs_with_this_member(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(*(make_job(name) for name in ("a", "b", "c"))), now=START)
        assert store.held(worker) == []
        a, b = claim(store, worker, limit=2)
        (c,) = claim(other, colleague)
        assert {job.id: job for job in store.held(worker)} == {"a": a.job, "b": b.job}
        assert store.held(colleague) == [c.job]
        changed = other.change(a.job, Change({"cancel_requested_at": later(1)}), now=later(1))
        finish(store, worker, success(b))
        assert store.held(worker) == [changed]

    def test_an_edited_job_takes_its_new_place(self, store: Store, other: Store, worker: Presence) -> None:
        jobs = [make_job(name) for name in ("a", "b", "c", "d")]
        store.add(new(*jobs), now=START)
        other.change(jobs[2], Change({"priority": 1}), now=START)
        other.change(jobs[0], Change({"run_at": later(5)}), now=START)
        other.change(jobs[1], Change({"queue": "mail"}), now=START)
        assert ids(claim(store, worker, queues=("default",))) == ["c", "d"]
        assert ids(claim(store, worker, queues=("mail",))) == ["b"]
        assert ids(claim(store, worker, now=later(5))) == ["a"]
