"""The part of the store contract about threads and processes that use one store at once, and some that are killed."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from jobq.job import State
from jobq.store import Ended, Query, Store, Wanted
from jobq.testing.builders import make_info, make_job, new
from jobq.testing.clock import START
from jobq.testing.forks import SAID_WITHIN, Fork
from jobq.testing.store_fixtures import StoreFixtures, claim, ids, need, success

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS, PROCESSES, JOBS = 8, 4, 200


class StoreSharing(StoreFixtures):
    """Threads and processes that use one store at once, and what a killed one leaves."""

    def test_threads_at_once_claim_every_job_once(self, handle: Callable[[], Store]) -> None:
        add_all(handle())
        stores = [handle() for _ in range(THREADS)]
        taken: list[list[str]] = [[] for _ in stores]
        troubles: list[BaseException] = []

        def work(store: Store, mine: list[str]) -> None:
            try:
                claim_all(store, mine)
            except BaseException as trouble:
                troubles.append(trouble)

        threads = [threading.Thread(target=work, args=each) for each in zip(stores, taken, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert troubles == []
        check_all(stores[0], taken)

    def test_processes_at_once_claim_every_job_once(
        self, open_store: Callable[[], Store], handle: Callable[[], Store]
    ) -> None:
        first = handle()
        need(first, "processes")
        add_all(first)
        first.close()
        wait, go = os.pipe()

        def work(say: Callable[[Any], None]) -> None:
            os.close(go)
            os.read(wait, 1)
            store, mine = open_store(), []  # type: ignore[var-annotated]
            claim_all(store, mine)
            store.close()
            say(mine)

        forks = [Fork(work) for _ in range(PROCESSES)]
        os.close(wait)
        os.close(go)
        taken: list[list[str]] = []
        for fork in forks:
            with fork:
                taken += fork.hear_all()
                assert fork.wait() == 0
        check_all(handle(), taken)

    def test_a_process_sees_what_another_one_stored(
        self, open_store: Callable[[], Store], handle: Callable[[], Store]
    ) -> None:
        store = handle()
        need(store, "processes")
        store.add(new(make_job("mine")), now=START)

        def answer(say: Callable[[Any], None]) -> None:
            theirs = open_store()
            theirs.add(new(make_job("theirs")), now=START)
            say(ids(theirs.find(Query())))
            theirs.close()

        with Fork(answer) as fork:
            assert fork.hear() == ["mine", "theirs"]
            assert ids(store.find(Query())) == ["mine", "theirs"]

    @pytest.mark.parametrize("at_once", [True, False])
    @pytest.mark.parametrize("moment", [1, 10, 40])
    def test_a_killed_writer_leaves_what_it_was_told_is_stored(
        self, open_store: Callable[[], Store], handle: Callable[[], Store], moment: int, at_once: bool
    ) -> None:
        """`at_once`: nothing comes between what was told last and the end; else it is in the middle of what follows."""
        first = handle()
        need(first, "processes", "durable")
        first.close()
        info = make_info()

        def write(say: Callable[[Any], None]) -> None:
            store = open_store()
            presence = store.join(info)
            told = itertools.count(1)

            def tell(*what: str) -> None:
                say(what)
                if next(told) == moment and at_once:
                    signal.pause()

            for number in range(100_000):
                store.add(new(*(make_job(f"{number}-{part}") for part in "abc")), now=START)
                tell("added", str(number))
                held = claim(store, presence, limit=2)
                tell("claimed", *ids(held))
                assert not store.finish(presence, [success(held[0])], now=START)
                tell("ended", held[0].job.id)

        with Fork(write) as fork:
            said = [fork.hear() for _ in range(moment)]
            fork.kill()
            said += fork.hear_all()
        store = handle()
        assert store.check() == []
        states = {job.id: job.state for job in store.find(Query())}
        batches = {name.partition("-")[0] for name in states}
        assert sorted(states) == sorted(f"{number}-{part}" for number in batches for part in "abc"), "whole batches"
        assert batches >= {what[1] for what in said if what[0] == "added"}
        for kind, *names in said:
            if kind == "claimed":
                assert {states[name] for name in names} <= {State.PROCESSING, State.COMPLETED}
            elif kind == "ended":
                assert states[names[0]] is State.COMPLETED
        held = sorted(name for name, state in states.items() if state is State.PROCESSING)
        assert lost_jobs(store, info.id) == held, "its member is gone, with what it held"
        worker = store.join(make_info())
        store.add(new(make_job("next", priority=1)), now=START)
        assert ids(claim(store, worker, limit=1)) == ["next"], "work goes on"
        worker.close()


def add_all(store: Store) -> None:
    """Add the jobs that are then claimed by many at once."""
    store.add(new(*(make_job(f"j{number}", priority=number % 3) for number in range(JOBS))), now=START)


def claim_all(store: Store, mine: list[str]) -> None:
    """As a member, claim and complete jobs until none is left; their ids are appended to `mine`."""
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


def check_all(store: Store, taken: list[list[str]]) -> None:
    """Each job was claimed once, by whomever, and is completed."""
    claimed = sorted(job_id for mine in taken for job_id in mine)
    assert claimed == sorted(f"j{number}" for number in range(JOBS))
    assert store.counts(now=START).states[State.COMPLETED] == JOBS
    assert store.check() == []


def lost_jobs(store: Store, worker: str) -> list[str] | None:
    """The ids of what a dead member holds, once it is found dead (a lease takes its time); None if it never is."""
    end = time.monotonic() + SAID_WITHIN
    while True:
        for info, claims in store.lost(now=START):
            if info.id == worker:
                return sorted(ids(claims))
        if time.monotonic() > end:
            return None
        time.sleep(0.02)
