"""The part of the store contract about workers: members, their death, and being woken."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobq import lifecycle
from jobq.draining import DRAIN, NOW
from jobq.job import ENDED, Change, State
from jobq.members import Presence, RunningJob
from jobq.store import Claim, Store, Wanted
from jobq.testing.builders import make_info, make_job, new
from jobq.testing.clock import START
from jobq.testing.store_fixtures import StoreFixtures, claim, finish, ids, into, later, need, release, success

if TYPE_CHECKING:
    from collections.abc import Callable

WOKEN_WITHIN = 10.0
"""Seconds; far more than any watch takes, so that only one that never comes fails."""

QUIET_SECONDS = 0.2
"""Long enough for a watch that wakes for nothing to do so nearly always, short enough to be waited for."""


class StoreMembers(StoreFixtures):
    """Members and their death."""

    def test_members_are_seen_while_they_are_there(self, store: Store, other: Store) -> None:
        younger = make_info(
            "a" * 16, started=later(5), count=3, queues=("mail", "x"), handlers=("resize",), name="the younger"
        )
        older = make_info("b" * 16, started=later(2))
        first, second = store.join(younger), other.join(older)
        assert (first.id, first.host, second.id) == (younger.id, younger.host, older.id)
        for handle in (store, other):
            assert handle.workers() == [older, younger]
            assert handle.lost(now=later(9)) == []
        first.close()
        assert other.workers() == [older]
        second.close()
        assert store.workers() == []
        assert store.lost(now=later(9)) == [], "who left is not lost"
        first.close()

    def test_a_report_replaces_what_is_told(self, store: Store, other: Store, worker: Presence) -> None:
        (info,) = other.workers()
        progress = {"done": 3, "total": 10, "note": "über"}
        running = RunningJob(job="one", run=2, started=later(1), what="true", progress=progress)
        told = replace(info, state="draining", running=(running,))
        store.report(worker, told)
        assert other.workers() == [told]

    def test_a_dead_member_is_lost_with_what_it_held(self, store: Store, other: Store, worker: Presence) -> None:
        older = make_info("b" * 16, started=later(-60), name="older")
        younger = make_info("a" * 16, started=later(-30), name="younger")
        doomed, idle = store.join(older), store.join(younger)
        store.add(new(*(make_job(name) for name in ("a", "b", "c"))), now=START)
        held = claim(store, doomed, limit=2)
        claim(store, worker)
        assert other.lost(now=START) == []
        self.die(idle)
        self.die(doomed)
        assert [info.id for info in other.workers()] == [worker.id]
        for handle in (store, other):
            (first, claims), (second, nothing) = handle.lost(now=START)
            assert (first, second) == (older, younger)
            assert sorted(ids(claims)) == ["a", "b"]
            assert nothing == []
        assert {each.job.id: each for each in claims} == {each.job.id: each for each in held}
        for each in claims:
            assert other.get(each.job.id).state is State.PROCESSING, "nothing is taken from it by being looked at"
        assert claim(other, worker) == []

    def test_a_lost_member_is_forgotten_when_its_claims_are_back(
        self, store: Store, other: Store, worker: Presence
    ) -> None:
        doomed = store.join(make_info())
        store.add(new(make_job("one")), now=START)
        claim(store, doomed)
        self.die(doomed)
        ((info, (held,)),) = other.lost(now=later(1))
        other.change(held.job, lifecycle.lost(held, now=later(1), counted=True, max_losses=3), now=later(1))
        assert store.lost(now=later(1)) == [(info, [])]
        other.forget(info)
        assert store.lost(now=later(1)) == []
        assert ids(claim(store, worker, now=later(1))) == ["one"]
        other.forget(info)

    def test_claims_of_a_member_that_left_are_lost(self, store: Store, other: Store) -> None:
        info = make_info()
        leaving = store.join(info)
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, leaving)
        leaving.close()
        ((gone, claims),) = other.lost(now=START)
        assert gone.id == info.id
        assert [(each.job, each.worker, each.run) for each in claims] == [(held.job, info.id, 1)]

    def test_a_closed_handle_leaves_its_claims_to_its_member(
        self, handle: Callable[[], Store], worker: Presence
    ) -> None:
        second = handle()
        second.add(new(make_job("one")), now=START)
        claim(second, worker)
        second.close()
        third = handle()
        assert ids(third.held(worker)) == ["one"]
        assert third.lost(now=START) == []

    def test_a_member_is_asked_to_stop_from_elsewhere(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        need(store, "hosts")
        (info,) = (info for info in other.workers() if info.id == worker.id)
        assert (worker.stop_asked, colleague.stop_asked) == (0, 0)
        bell = threading.Event()
        watches = store.watch(bell.set)
        other.ask_to_stop(info, DRAIN)
        assert not watches or bell.wait(WOKEN_WITHIN), "not woken"
        _await_stop(worker, DRAIN)
        other.ask_to_stop(info, NOW)
        _await_stop(worker, NOW)
        other.ask_to_stop(info, DRAIN)
        assert (worker.stop_asked, colleague.stop_asked) == (NOW, 0)
        worker.close()
        other.ask_to_stop(info, DRAIN)

    def test_a_watch_wakes_for_what_is_done_elsewhere(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        bell = threading.Event()
        if not store.watch(bell.set):
            assert not bell.is_set()
            pytest.skip("this store cannot watch; it is polled")

        def rings(act: Callable[[], object]) -> None:
            store.claim(worker, wanted=Wanted(queues=("none",)), limit=1, now=START)
            bell.clear()
            act()
            assert bell.wait(WOKEN_WITHIN), "not woken"

        rings(lambda: other.add(new(make_job("one")), now=START))
        (held,) = claim(store, worker)
        rings(lambda: other.change(held.job, Change({"cancel_requested_at": later(1)}), now=later(1)))
        other.add(new(make_job("two")), now=START)
        (theirs,) = claim(other, colleague)
        rings(lambda: other.finish(colleague, [release(theirs)], now=START))
        other.pause("mail", True, now=START)
        rings(lambda: other.pause("mail", False, now=START))
        doomed = other.join(make_info())
        rings(lambda: self.die(doomed))

    def test_a_watch_is_quiet_while_nothing_is_changed_elsewhere(
        self, store: Store, other: Store, worker: Presence, colleague: Presence
    ) -> None:
        store.add(new(make_job("one"), make_job("two", run_at=later(60))), now=START)
        bell = threading.Event()
        if not store.watch(bell.set):
            pytest.skip("this store cannot watch; it is polled")
        (held,) = claim(store, worker)
        finish(store, worker, success(held))
        assert claim(other, colleague) == []
        other.pause("mail", False, now=START)
        other.delete([make_job("missing")])
        other.prune(states=ENDED, before=START, limit=10)
        for handle in (store, other):
            handle.counts(now=START)
            handle.get("one")
            handle.held(worker)
        assert not bell.wait(QUIET_SECONDS), "workers would keep one another awake"

    def test_a_watch_ends_with_its_handle(self, handle: Callable[[], Store]) -> None:
        mine, theirs, third = handle(), handle(), handle()
        calls: list[int] = []
        bell = threading.Event()
        if not mine.watch(lambda: calls.append(1)) or not third.watch(bell.set):
            pytest.skip("this store cannot watch; it is polled")
        mine.close()
        calls.clear()
        theirs.add(new(make_job("one")), now=START)
        assert bell.wait(WOKEN_WITHIN)
        assert calls == []

    @pytest.mark.parametrize("state", list(State), ids=str)
    def test_everything_is_there_after_all_handles_closed(self, handle: Callable[[], Store], state: State) -> None:
        first = handle()
        worker = first.join(make_info())
        first.add(new(make_job("one", queue="mail", tags=("a",))), now=START)
        job = into(first, worker, "one", state)
        first.close()
        second = handle()
        assert second.get("one") == job
        assert second.counts(now=START).queues["mail"] == dict.fromkeys(State, 0) | {state: 1}
        assert second.check() == []
        if state is State.PROCESSING:
            assert second.held(worker) == [job]
            assert second.lost(now=START) == [], "its member lives"
            assert finish(second, worker, success(Claim(job, worker.id, worker.host))).refused == []
        worker.close()

    def test_a_handle_may_be_closed_twice(self, handle: Callable[[], Store]) -> None:
        for use in (lambda store: store.watch(lambda: None), lambda store: store.counts(now=START), lambda store: None):
            store = handle()
            use(store)
            store.close()
            store.close()
        assert handle().check() == []


def _await_stop(worker: Presence, level: int) -> None:
    end = time.monotonic() + WOKEN_WITHIN
    while worker.stop_asked != level:
        assert time.monotonic() < end, f"asked to stop at level {level}, it knows of {worker.stop_asked}"
        time.sleep(0.01)
