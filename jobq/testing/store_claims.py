"""The part of the store contract about claims: which jobs, and in which order."""

from __future__ import annotations

import pytest

from jobq.job import ENDED, Change, Job, State
from jobq.members import Presence
from jobq.store import ALONE_LOSSES, Store, Wanted
from jobq.testing.builders import make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import ALL, StoreFixtures, claim, failure, finish, ids, later, success


class StoreClaims(StoreFixtures):
    """Which jobs a claim takes, in which order, and who holds them then."""

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

    def test_jobs_that_must_run_alone_are_left_or_taken_as_wanted(self, store: Store, worker: Presence) -> None:
        store.add(new(*(make_job(f"l{losses}", losses=losses) for losses in (3, 1, 2, 0, 4))), now=START)
        assert ids(claim(store, worker, alone=True)) == ["l3"]
        assert ids(claim(store, worker, alone=False)) == ["l1", "l0"]
        assert ids(claim(store, worker, alone=False)) == []
        assert ids(claim(store, worker, alone=True)) == ["l2"]
        assert ids(claim(store, worker)) == ["l4"]

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
        others = ({"queue": "paused"}, {"run_at": later(1)}, {"queue": "other"}, {"handler": "other"}, {"losses": 2})
        store.add(new(*(make_job(priority=2, **other) for other in others), third, last, second, first), now=START)
        shown: list[Job] = []

        def lead(job: Job) -> bool:
            shown.append(job)
            return job.id != "last"

        queues, handlers = ("default", "mail", "paused"), frozenset("gh")
        wanted = Wanted(queues=queues, handlers=handlers, alone=False, leading=lead)
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

    def test_held_is_what_runs_with_this_member(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(*(make_job(name) for name in ("a", "b", "c"))), now=START)
        assert store.held(worker) == []
        a, b = claim(store, worker, limit=2)
        (c,) = claim(other, colleague)
        assert {job.id: job for job in store.held(worker)} == {"a": a.job, "b": b.job}
        assert store.held(colleague) == [c.job]
        other.change(a.job, Change({"cancel_requested_at": later(1)}), now=later(1))
        finish(store, worker, success(b))
        (held,) = store.held(worker)
        assert (held.id, held.rev, held.cancel_requested_at) == ("a", a.job.rev + 1, later(1))

    def test_an_edited_job_takes_its_new_place(self, store: Store, other: Store, worker: Presence) -> None:
        jobs = [make_job(name) for name in ("a", "b", "c", "d")]
        store.add(new(*jobs), now=START)
        other.change(jobs[2], Change({"priority": 1}), now=START)
        other.change(jobs[0], Change({"run_at": later(5)}), now=START)
        other.change(jobs[1], Change({"queue": "mail"}), now=START)
        assert ids(claim(store, worker, queues=("default",))) == ["c", "d"]
        assert ids(claim(store, worker, queues=("mail",))) == ["b"]
        assert ids(claim(store, worker, now=later(5))) == ["a"]

    def test_what_is_not_wanted_delays_nothing_behind_it(self, store: Store, worker: Presence) -> None:
        passed_over = [
            make_job(f"{kind}{number}", priority=9, **fields)
            for number in range(200)
            for kind, fields in (
                ("paused", {"queue": "paused"}),
                ("unknown", {"handler": "missing"}),
                ("lost", {"losses": ALONE_LOSSES}),
                ("future", {"run_at": later(60)}),
            )
        ]
        store.add(new(*passed_over, make_job("last")), now=START)
        store.pause("paused", True, now=START)
        wanted = Wanted(handlers=frozenset(), alone=False)
        assert ids(store.claim(worker, wanted=wanted, limit=1, now=START).claims) == ["last"]
        assert store.next_due(wanted, now=START) == later(60)

    @pytest.mark.parametrize("year", [1971, 9000])
    def test_the_time_is_what_the_caller_says(self, store: Store, worker: Presence, year: int) -> None:
        now, soon = START.replace(year=year), later(10).replace(year=year)
        store.add(new(make_job("due", run_at=now), make_job("soon", run_at=soon)), now=now)
        assert store.counts(now=now).later == 1
        (held,) = claim(store, worker, now=now)
        assert (held.job.id, held.job.started_at, held.job.updated_at) == ("due", now, now)
        assert store.next_due(Wanted(), now=now) == soon
        finish(store, worker, success(held, now=now), now=now)
        assert store.get("due").updated_at == now
        assert store.prune(states=ENDED, before=now, limit=ALL) == []
        assert store.prune(states=ENDED, before=soon, limit=ALL) == ["due"]
        assert store.lost(now=soon) == [], "a member lives for as long as it is there, whatever the time"
        assert ids(claim(store, worker, now=soon)) == ["soon"]
