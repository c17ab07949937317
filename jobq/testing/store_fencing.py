"""The part of the store contract about the ends of runs: recorded once, by whoever has the run, and by nobody else."""

from __future__ import annotations

import pytest

from jobq import lifecycle
from jobq.errors import JobChanged
from jobq.job import Change, State
from jobq.members import Presence
from jobq.store import Claim, Store
from jobq.testing.builders import make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import StoreFixtures, claim, failure, finish, ids, later, release, success


class StoreFencing(StoreFixtures):
    """Ends of runs, and the rule that fences off late ones."""

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

    def test_a_reaper_that_is_late_changes_nothing(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        lost = lifecycle.lost(held, now=later(1), counted=True, max_losses=3)
        store.change(held.job, lost, now=later(1))
        with pytest.raises(JobChanged):
            other.change(held.job, lost, now=later(1))
        (again,) = claim(other, colleague, now=later(1))
        for handle in (store, other):
            with pytest.raises(JobChanged):
                handle.change(held.job, lost, now=later(2))
        assert store.get("one") == again.job, "whoever has it now keeps it"
        finish(other, colleague, success(again))
        with pytest.raises(JobChanged):
            store.change(again.job, lifecycle.lost(again, now=later(3), counted=True, max_losses=3), now=later(3))
        assert store.get("one").state is State.COMPLETED

    def test_an_end_of_a_job_that_was_added_anew_is_refused(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        back = other.change(held.job, lifecycle.lost(held, now=START, counted=True, max_losses=3), now=START)
        assert other.delete([back]) == ["one"]
        fresh = make_job("one", priority=7)
        other.add(new(fresh), now=START)
        assert finish(store, worker, success(held)).refused == [held]
        with pytest.raises(JobChanged):
            store.change(held.job, Change({"priority": 1}), now=START)
        assert store.get("one") == fresh
        (theirs,) = claim(other, colleague)
        assert finish(store, worker, failure(held)).refused == [held]
        assert store.get("one") == theirs.job

    def test_an_id_that_was_added_anew_is_another_job(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        first = store.get("one")
        (held,) = claim(store, worker)
        lost = lifecycle.lost(held, now=START, counted=True, max_losses=3)
        assert store.delete([other.change(held.job, lost, now=START)]) == ["one"]
        store.add(new(make_job("one", created_at=later(1), command="false")), now=later(1))
        anew = store.get("one")
        assert anew.rev == first.rev, "else this proves nothing"
        for handle in (store, other):
            assert list(handle.delete([first])) == []
            with pytest.raises(JobChanged):
                handle.change(first, Change({"priority": 1}), now=later(1))
        (theirs,) = claim(other, colleague, now=later(1))
        assert theirs.job.rev == held.job.rev
        for handle in (store, other):
            with pytest.raises(JobChanged):
                handle.change(held.job, lost, now=later(2))
        assert store.get("one") == theirs.job, "whoever runs it now keeps it"
        finish(other, colleague, release(theirs))
        assert store.delete([store.get("one")]) == ["one"]
        store.add(new(make_job("one", created_at=later(3))), now=later(3))
        (mine,) = claim(store, worker, now=later(3))
        assert (mine.run, mine.worker) == (held.run, held.worker)
        assert finish(other, worker, success(held)).refused == [held]
        assert store.get("one") == mine.job
