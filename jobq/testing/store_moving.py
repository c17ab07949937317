"""The part of the store contract about moving: jobs that are taken over as they are, and the notice at the door."""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from jobq import lifecycle
from jobq.errors import DuplicateJob, InvalidInput, NotEmpty, NoticeChanged, StoreError, StoreMoved
from jobq.job import ENDED, Change, State
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.store import Ended, Query, Store, Wanted
from jobq.testing.builders import aged, make_info, make_job, new
from jobq.testing.clock import START
from jobq.testing.forks import Fork
from jobq.testing.store_fixtures import StoreFixtures, claim, finish, ids, later, need, success
from jobq.testing.store_members import WOKEN_WITHIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobq.job import Job
    from jobq.members import Presence

NEEDS_MOVES = pytest.mark.usefixtures("moves")
STATES = (LEAVING, LEFT, ARRIVING)
REFUSED = {
    LEAVING: {"add", "change", "restore", "pause", "delete", "prune"},
    LEFT: {"add", "claim", "settle", "change", "restore", "pause", "delete", "prune", "read"},
    ARRIVING: {"add", "change", "prune"},
}


class StoreMoving(StoreFixtures):
    """What a store that declares `moves` takes over, and how it heeds the notice at its door."""

    @pytest.fixture
    def moves(self, store: Store) -> None:
        """Skips the test where the store does not say that its jobs can be moved."""
        need(store, "moves")

    def test_a_store_that_cannot_be_moved_says_so(self, handle: Callable[[], Store]) -> None:
        store = handle()
        assert store.notice() is None
        if "moves" in store.capabilities:
            pytest.skip("this store declares moves")
        with pytest.raises(StoreError, match="cannot take over jobs"):
            store.restore([make_job()], now=START)
        with pytest.raises(StoreError, match="cannot be moved"):
            store.post(notice(LEAVING), before=None, now=START)

    def test_it_is_told_from_others_the_same_by_every_handle(self, store: Store, other: Store) -> None:
        before = store.identity()
        assert before == other.identity()
        store.add(new(make_job("one")), now=START)
        assert store.identity() == other.identity()

    @NEEDS_MOVES
    def test_jobs_are_taken_over_as_they_are(self, store: Store, other: Store) -> None:
        jobs = [aged(make_job(state.value, state=state), state) for state in State if state is not State.PROCESSING]
        assert store.restore(jobs, now=later(99)) == [job.id for job in jobs]
        for handle in (store, other):
            assert {job.id: job for job in handle.find(Query())} == {job.id: job for job in jobs}
            for job in jobs:
                assert handle.get(job.id) == job
        counts = other.counts(now=later(99)).queues["default"]
        assert counts == {state: int(state is not State.PROCESSING) for state in State}
        assert store.check() == []

    @NEEDS_MOVES
    def test_what_was_taken_over_goes_on_where_it_stood(self, store: Store, other: Store, worker: Presence) -> None:
        failed = aged(make_job("failed"), State.FAILED)
        dead = aged(make_job("dead"), State.DEAD)
        store.restore([dead, failed], now=later(50))
        (held,) = claim(other, worker, now=later(50))
        assert (held.job.id, held.run, held.job.rev) == ("failed", failed.run + 1, failed.rev + 1)
        assert finish(other, worker, success(held, now=later(51)), now=later(51)).refused == []
        assert [run.run for run in store.get("failed").history] == [1, 2, 3]
        retry = lifecycle.retry(dead, now=later(52))
        assert retry is not None
        back = store.change(dead, retry, now=later(52))
        assert (back.state, back.rev) == (State.PENDING, dead.rev + 1)
        (again,) = claim(store, worker, now=later(52))
        assert again.job.id == "dead"
        assert store.delete([store.get("failed")]) == ["failed"]

    @NEEDS_MOVES
    def test_the_order_in_which_they_are_given_is_theirs(self, store: Store, other: Store, worker: Presence) -> None:
        store.add(new(make_job("there")), now=START)
        waiting = [make_job(name) for name in ("b", "a", "c")] + [make_job("first", priority=1)]
        ended = [aged(make_job(name), State.COMPLETED) for name in ("z", "y", "x")]
        store.restore([*ended, *waiting], now=START)
        assert ids(other.find(Query())) == ["first", "there", "b", "a", "c", "x", "y", "z"]
        store.add(new(make_job("later")), now=START)
        assert ids(claim(other, worker)) == ["first", "there", "b", "a", "c", "later"]

    @NEEDS_MOVES
    def test_a_restore_may_be_repeated(self, store: Store, other: Store, worker: Presence) -> None:
        jobs = [make_job("a"), aged(make_job("b"), State.COMPLETED), make_job("c")]
        assert store.restore(jobs[:2], now=START) == ["a", "b"]
        assert other.restore(jobs, now=START) == ["c"]
        assert other.restore(jobs, now=START) == []
        assert store.restore([], now=START) == []
        assert ids(store.find(Query())) == ["a", "c", "b"]
        assert store.counts(now=START).states[State.PENDING] == 2
        assert ids(claim(store, worker)) == ["a", "c"]

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", [State.PENDING, State.COMPLETED], ids=str)
    def test_none_is_stored_where_one_is_there_with_another_version(self, store: Store, state: State) -> None:
        store.restore([make_job("same"), aged(make_job("one"), state), make_job("two")], now=START)
        changed = [replace(store.get(name), rev=9) for name in ("one", "two")]
        with pytest.raises(DuplicateJob) as caught:
            store.restore([make_job("fresh"), make_job("same"), *changed], now=START)
        assert set(caught.value.ids) == {"one", "two"}
        with pytest.raises(DuplicateJob) as caught:
            store.restore([make_job("fresh"), make_job("twice"), make_job("twice")], now=START)
        assert caught.value.ids == ("twice",)
        assert {job.id for job in store.find(Query())} == {"same", "one", "two"}

    @NEEDS_MOVES
    def test_a_job_that_is_processing_is_not_taken_over(self, store: Store) -> None:
        running = make_job("one", state=State.PROCESSING, run=1, worker="w")
        with pytest.raises(InvalidInput, match="one"):
            store.restore([make_job("two"), running], now=START)
        assert list(store.find(Query())) == []

    @NEEDS_MOVES
    def test_many_are_taken_over_at_once(self, store: Store, other: Store) -> None:
        jobs = [make_job(f"j{number:05}") for number in range(5000)]
        assert store.restore(jobs, now=START) == [job.id for job in jobs]
        assert ids(other.find(Query())) == [job.id for job in jobs]

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", STATES)
    def test_a_notice_is_seen_by_all_until_it_is_taken_down(
        self, handle: Callable[[], Store], store: Store, other: Store, state: str
    ) -> None:
        other.add([], now=START)
        assert (store.notice(), other.notice()) == (None, None)
        post(store, notice(state))
        for each in (store, other, handle()):
            assert each.notice() == notice(state)
        post(other, notice(state, "json:elsewhere"))
        assert store.notice() == notice(state, "json:elsewhere")
        post(other, None)
        assert store.notice() is None
        store.add(new(make_job("two")), now=START)

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", STATES)
    def test_a_notice_stands_at_the_door_of_a_store_that_was_never_used(
        self, handle: Callable[[], Store], store: Store, state: str
    ) -> None:
        post(store, notice(state))
        with pytest.raises(StoreMoved):
            handle().add(new(make_job("one")), now=START)
        assert handle().notice() == notice(state)
        assert handle().check() == []

    @NEEDS_MOVES
    @pytest.mark.parametrize("stands", [None, *STATES])
    def test_a_notice_is_replaced_by_whoever_saw_it(self, store: Store, other: Store, stands: str | None) -> None:
        """Of two that are about moves of one store, the second is told."""
        at_first = None if stands is None else replace(notice(stands), left="json:before")
        if at_first is not None:
            post(store, at_first)
        for seen in {None, *map(notice, STATES), notice(LEFT, "json:elsewhere")} - {at_first}:
            for wanted in (notice(LEFT, "json:mine"), None, at_first):
                with pytest.raises(NoticeChanged):
                    other.post(wanted, before=seen, now=START)
        assert store.notice() == at_first
        other.post(at_first, before=at_first, now=START)
        assert store.notice() == at_first
        other.post(notice(LEAVING, "json:mine"), before=at_first, now=START)
        assert store.notice() == notice(LEAVING, "json:mine")

    @NEEDS_MOVES
    @pytest.mark.parametrize("name", [LEAVING, None])
    @pytest.mark.parametrize("of", [State.PENDING, State.COMPLETED], ids=str)
    def test_jobs_arrive_where_no_others_are(self, store: Store, other: Store, name: str | None, of: State) -> None:
        store.restore([aged(make_job("one"), of), make_job("two")], now=START)
        store.pause("mail", True, now=START)
        if name is not None:
            post(store, notice(name))
        stands = store.notice()
        with pytest.raises(NotEmpty) as caught:
            post(other, notice(ARRIVING))
        assert caught.value.number == 2
        assert (store.notice(), store.counts(now=START).states[of] > 0) == (stands, True)
        post(store, None)
        store.delete(list(store.find(Query())))
        post(other, notice(ARRIVING))
        assert store.counts(now=START).paused == {}, "the pauses that arrive take their place"
        assert other.restore([make_job("one")], now=START) == ["one"]
        post(other, notice(ARRIVING, "json:else"))
        post(other, None)
        assert ids(store.find(Query())) == ["one"]

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", STATES)
    def test_what_a_notice_forbids_is_refused(self, store: Store, other: Store, worker: Presence, state: str) -> None:
        done, waiting = aged(make_job("done"), State.COMPLETED), make_job("waiting")
        other.add(new(make_job("running"), make_job("ending", priority=1)), now=START)
        ending, running = claim(other, worker, limit=2)
        if state == ARRIVING:  # where nothing runs, nor did
            finish(other, worker, success(ending), success(running))
            other.delete(list(other.find(Query())))
            post(store, notice(state))
        other.restore([done, aged(make_job("old"), State.COMPLETED), waiting], now=START)
        if state != ARRIVING:
            post(store, notice(state))
        acts: dict[str, Callable[[Store], Any]] = {
            "add": lambda each: each.add(new(make_job("new")), now=START),
            "claim": lambda each: finish(each, worker, success(ending), limit=5),
            "settle": lambda each: each.change(running.job, Change({"cancel_requested_at": later(1)}), now=later(1)),
            "change": lambda each: each.change(waiting, Change({"priority": 1}), now=START),
            "restore": lambda each: each.restore([make_job("brought")], now=START),
            "pause": lambda each: each.pause("mail", True, now=START),
            "delete": lambda each: each.delete([done]),
            "prune": lambda each: each.prune(states=ENDED, before=later(999), limit=1),
            "read": lambda each: list(each.find(Query())),
        }
        for name, act in acts.items():
            if name in REFUSED[state]:
                for each in (other, store):
                    with pytest.raises(StoreMoved) as caught:
                        act(each)
                    assert (caught.value.state, caught.value.url) == (state, "json:new")
            elif (state, name) != (ARRIVING, "settle"):
                act(other)
        reads: Iterable[Callable[[], Any]] = (
            lambda: other.get("waiting"),
            lambda: other.get_many(["waiting"]),
            lambda: other.counts(now=START),
            lambda: other.next_due(Wanted(), now=START),
        )
        for read in reads:
            if "read" in REFUSED[state]:
                with pytest.raises(StoreMoved):
                    read()
            else:
                read()
        if state == LEAVING:
            assert other.get("ending").state is State.COMPLETED
            assert other.get("running").cancel_requested_at == later(1)
            assert ids(other.held(worker)) == ["running"]
        if state != LEFT:
            assert other.get("waiting") == waiting, "nothing is handed out"
        assert other.check() == []

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", STATES)
    def test_members_are_seen_behind_a_notice(self, store: Store, other: Store, state: str) -> None:
        post(store, notice(state))
        info = make_info()
        member = other.join(info)
        other.report(member, replace(info, state="waiting"))
        assert [each.state for each in store.workers()] == ["waiting"]
        self.die(member)
        ((gone, claims),) = store.lost(now=START)
        assert (gone.id, claims) == (info.id, [])
        store.forget(gone)
        assert other.lost(now=START) == []

    @NEEDS_MOVES
    def test_a_lost_run_is_settled_behind_a_notice(self, store: Store, other: Store) -> None:
        doomed = other.join(make_info())
        other.add(new(make_job("one")), now=START)
        claim(other, doomed)
        post(store, notice(LEAVING))
        self.die(doomed)
        ((info, (held,)),) = store.lost(now=START)
        store.change(held.job, lifecycle.lost(held, now=later(1), counted=True, max_losses=3), now=later(1))
        store.forget(info)
        assert other.get("one").state is State.PENDING

    @NEEDS_MOVES
    def test_jobs_are_kept_behind_a_notice_that_is_taken_down(
        self, store: Store, other: Store, worker: Presence
    ) -> None:
        store.add(new(make_job("one")), now=START)
        store.pause("mail", True, reason="so", now=START)
        post(other, notice(LEAVING))
        post(other, None)
        assert other.counts(now=START).paused == {"mail": "so"}
        assert ids(claim(store, worker)) == ["one"]

    @NEEDS_MOVES
    @pytest.mark.parametrize("after", [ARRIVING, None])
    def test_what_replaces_left_empties_the_store(self, store: Store, other: Store, after: str | None) -> None:
        store.restore([make_job("one"), aged(make_job("two"), State.COMPLETED)], now=START)
        store.pause("mail", True, now=START)
        post(other, notice(LEFT))
        post(other, notice(LEFT, "json:further"))
        post(store, None if after is None else notice(after))
        for each in (store, other):
            assert list(each.find(Query())) == []
            assert each.counts(now=START).queues == {}
        anew = aged(make_job("one"), State.DEAD)
        assert other.restore([anew, make_job("two")], now=START) == ["one", "two"]
        assert store.get("one") == anew
        assert store.check() == []

    @NEEDS_MOVES
    def test_a_watch_wakes_for_a_notice(self, store: Store, other: Store, worker: Presence) -> None:
        bell = threading.Event()
        if not store.watch(bell.set):
            pytest.skip("this store cannot watch; it is polled")
        for each in (notice(LEAVING), notice(LEFT), None):
            store.notice()
            bell.clear()
            post(other, each)
            assert bell.wait(WOKEN_WITHIN), "not woken"

    @NEEDS_MOVES
    @pytest.mark.parametrize("state", STATES)
    def test_nothing_slips_in_after_a_notice(
        self, open_store: Callable[[], Store], handle: Callable[[], Store], state: str
    ) -> None:
        """Processes that add, and add and claim; what is there when the notice is up stays so."""
        first = handle()
        need(first, "processes")
        first.add(new(make_job("first")), now=START)

        def work(say: Callable[[Any], None], *, claims: bool) -> None:
            store = open_store()
            presence = store.join(make_info())
            say("ready")
            ended: list[Ended] = []
            try:
                while True:
                    if claims:
                        answer = store.claim(presence, wanted=Wanted(), limit=1, now=START, ended=ended)
                        ended = [success(each) for each in answer.claims]
                    else:
                        store.add(new(make_job(), generated=True), now=START)
                    if store.notice() is not None:
                        store.add(new(make_job()), now=START)
            except StoreMoved:
                say("refused")
            presence.close()
            store.close()

        forks = [Fork(functools.partial(work, claims=claims)) for claims in (False, False, True)]
        for fork in forks:
            assert fork.hear() == "ready"
        threading.Event().wait(0.05)  # let them work
        post(first, notice(LEAVING))
        before = list(first.find(Query()))
        for fork in forks:
            with fork:
                assert fork.hear() == "refused"
                assert fork.wait() == 0
        after = list(handle().find(Query()))
        assert sorted(ids(after)) == sorted(ids(before)), "nothing was added"
        assert running(after) <= running(before), "nothing was claimed"
        assert first.check() == []
        if state == ARRIVING:
            post(first, notice(LEFT))
        post(first, notice(state))


def post(store: Store, notice: Notice | None) -> None:
    """Put a notice up in place of whatever stands there, or take that down."""
    store.post(notice, before=store.notice(), now=START)


def notice(state: str, url: str = "json:new") -> Notice:
    """A notice that names another store."""
    return Notice(state=state, url=url)


def running(jobs: Iterable[Job]) -> set[str]:
    """The ids of those that are processing."""
    return {job.id for job in jobs if job.state is State.PROCESSING}
