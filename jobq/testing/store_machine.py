"""The state machine that does to a store whatever people, workers and reapers may do, and compares it with the model.

It needs hypothesis, which shows the shortest history after which the two differ.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobq import lifecycle
from jobq.errors import WrongState
from jobq.job import ENDED, FINISHED, WAITING, Change, Job, State
from jobq.members import Presence, WorkerInfo
from jobq.store import Claim, Ended, Query, Store, Wanted
from jobq.testing.builders import make_info, make_job, new
from jobq.testing.clock import FakeClock
from jobq.testing.store_fixtures import ALL, failure, release, snooze, success, unstarted
from jobq.testing.store_model import StoreModel, by_id, leading, outcome

QUEUES = ("default", "mail", "a.b")
HANDLERS = ("resize", "mail")

queues = st.sampled_from(QUEUES)
numbers = st.integers(0, 15)
seconds = st.sampled_from((0, 0.001, 1, 7, 30, 60))
steps = st.sampled_from((-3600, -1, -0.001, 3600, 86_400 * 3652))
specs = st.fixed_dictionaries(
    {"queue": queues, "priority": st.sampled_from((0, -1, 5)), "losses": st.sampled_from((0, 0, 0, 1, 2, 3))},
    optional={
        "handler": st.sampled_from(HANDLERS),
        "tags": st.sampled_from((("x",), ("x", "y"))),
        "delay": seconds,
        "on_lost": st.just("dead"),
    },
)
wanteds = st.builds(
    Wanted,
    queues=st.sampled_from((None, None, ("mail",), ("a.b", "default"), ())),
    handlers=st.sampled_from((None, None, frozenset[str](), frozenset({"mail"}))),
    alone=st.sampled_from((None, None, False, True)),
)
ENDS: dict[str, Callable[..., Ended]] = {
    "success": success,
    "failure": failure,
    "death": functools.partial(failure, wait=None),
    "release": release,
    "snooze": snooze,
    "unstarted": unstarted,
}
ends = st.lists(st.tuples(numbers, st.sampled_from(tuple(ENDS))), max_size=3)


class StoreMachine(RuleBasedStateMachine):
    """One life of a store, through several handles of it, beside that of the model.

    Args:
        open_store: gives another handle on the one storage, which need not be empty: it is emptied.
        die: makes a member be gone as if its process had been killed.

    Attributes:
        handles: through how many handles.
    """

    handles: ClassVar[int] = 2

    def __init__(self, open_store: Callable[[], Store], die: Callable[[Presence], None]) -> None:
        super().__init__()
        self.open, self.kill = open_store, die
        self.stores = [open_store() for _ in range(self.handles)]
        self.abandoned: list[Store] = []
        self.may_put_back = self.put_back = False
        self.model = StoreModel()
        self.clock = FakeClock()
        self.names: list[str] = []
        self.claims: list[Claim] = []
        self.members: list[tuple[Presence, WorkerInfo]] = []
        empty(self.stores[0], now=self.now)
        for _ in range(2):
            self._join()

    @property
    def now(self) -> datetime:
        """The time on the clock of both."""
        return self.clock.now()

    @initialize(may_put_back=st.booleans())
    def choose(self, may_put_back: bool) -> None:
        """Only where the clock is never put back is there an order of times in what has finished."""
        self.may_put_back = may_put_back

    @rule(via=numbers, batch=st.lists(specs, min_size=1, max_size=5), again=st.lists(numbers, max_size=2))
    def add(self, via: int, batch: list[dict[str, Any]], again: list[int]) -> None:
        """Jobs are added, now and then some under ids that there are or were."""
        jobs = [self._job(self.names[-1 - number % len(self.names)]) for number in again if self.names]
        jobs += [self._job(self._fresh_name(), **spec) for spec in batch]
        answer, expected = self._both(
            lambda: self._store(via).add(new(*jobs), now=self.now), lambda: self.model.add(jobs)
        )
        assert answer == expected

    @rule(
        via=numbers,
        who=numbers,
        ends=ends,
        wanted=wanteds,
        limit=st.sampled_from((0, 1, 2, 5)),
        leaders=st.sampled_from((None, None, (None,), (None, "mail"))),
    )
    def work(
        self,
        via: int,
        who: int,
        ends: list[tuple[int, str]],
        wanted: Wanted,
        limit: int,
        leaders: tuple[str | None, ...] | None,
    ) -> None:
        """A member ends runs, some of which are over already or end twice, and claims others with the same call."""
        _, info = self.members[who % len(self.members)]
        mine = [claim for claim in self.claims if claim.worker == info.id]
        chosen = [(mine[-1 - number % len(mine)], kind) for number, kind in ends if mine]
        self._work(via, who, chosen, wanted, limit, leaders)

    @rule(via=numbers, who=numbers, after=seconds, kinds=st.lists(st.sampled_from(tuple(ENDS)), min_size=1, max_size=4))
    def carry_on(self, via: int, who: int, after: float, kinds: list[str]) -> None:
        """After a while, a member ends what it holds and claims whatever there is."""
        self.clock.advance(after)
        _, info = self.members[who % len(self.members)]
        held = [claim for claim in self.claims if (claim.worker, claim.run) == (info.id, self._run_of(claim.job.id))]
        self._work(via, who, list(zip(held, itertools.cycle(kinds), strict=False)), Wanted(), len(kinds))

    @rule(
        via=numbers,
        number=numbers,
        how=st.sampled_from(("cancel", "retry", "edit")),
        rev=st.sampled_from((0, 0, 0, -1, 1)),
        queue=queues,
        delay=seconds,
        priority=numbers,
    )
    def person(self, via: int, number: int, how: str, rev: int, queue: str, delay: float, priority: int) -> None:
        """A person cancels, retries or moves a job, or would, if the copy that was read were not old."""
        job = self._pick(number)
        change: Change | None = None
        try:
            if how == "edit" and job.state in WAITING:
                fields = {"queue": queue, "priority": priority, "run_at": self._later(delay), "tags": ("edited",)}
                change = Change(fields)
            elif how != "edit":
                change = getattr(lifecycle, how)(job, now=self.now)
        except WrongState:
            return
        if change is not None:
            self._change(via, Job.from_record(job.record() | {"rev": job.rev + rev}), change)

    @rule(via=numbers, number=numbers, counted=st.booleans(), begun=st.booleans())
    def take_away(self, via: int, number: int, counted: bool, begun: bool) -> None:
        """A reaper gives back a run, perhaps one that is over, whose worker may not know of it."""
        if self.claims:
            held = self.claims[number % len(self.claims)]
            if begun:
                change = lifecycle.lost(held, now=self.now, counted=counted, max_losses=4)
            else:
                change = lifecycle.lost_unstarted(held, now=self.now)
            self._change(via, held.job, change)

    @rule(via=numbers, who=numbers, recovered=st.booleans())
    def die(self, via: int, who: int, recovered: bool) -> None:
        """A member dies, and another one comes; what dead ones held may be given back, and they are forgotten."""
        presence, info = self.members.pop(who % len(self.members))
        self.kill(presence)
        self.model.die(info.id)
        self._join()
        store = self._store(via)
        self._compare_members(store)
        for lost, claims in store.lost(now=self.now) if recovered else ():
            for claim in claims:
                change = lifecycle.lost(claim, now=self.now, counted=True, max_losses=4)
                self._change(via, claim.job, lifecycle.settled(claim.job, change))
            store.forget(lost)
            del self.model.gone[lost.id]
        self._compare_members(store)

    @rule(via=numbers, chosen=st.lists(numbers, min_size=1, max_size=3), old=st.booleans())
    def delete(self, via: int, chosen: list[int], old: bool) -> None:
        """Jobs are deleted, whatever their states, by copies that may be old."""
        jobs = list({job.id: job for job in map(self._pick, chosen)}.values())
        jobs = [Job.from_record(job.record() | {"rev": job.rev - old}) for job in jobs]
        assert sorted(self._store(via).delete(jobs)) == sorted(self.model.delete(jobs))

    @rule(
        via=numbers,
        states=st.sampled_from((ENDED, FINISHED, frozenset({State.DEAD}))),
        age=seconds,
        limit=st.sampled_from((1, ALL)),
    )
    def prune(self, via: int, states: frozenset[State], age: float, limit: int) -> None:
        """What ended a while ago is deleted."""
        before = self._later(-age)
        old = self.model.prunable(states, before)
        pruned = self._store(via).prune(states=states, before=before, limit=limit)
        assert len(pruned) == len(set(pruned)) <= limit
        # Where the clock was put back, some that are old lie behind younger ones: they may come a later time
        assert len(pruned) == min(limit, len(old)) or self.put_back
        assert old >= set(pruned)
        for name in pruned:
            del self.model.jobs[name]

    @rule(via=numbers, queue=queues, paused=st.sampled_from((False, False, True)), reopened=st.booleans())
    def pause(self, via: int, queue: str, paused: bool, reopened: bool) -> None:
        """A queue is paused or resumed; a handle may be closed, and another one opened."""
        self._store(via).pause(queue, paused, reason="a reason", now=self.now)
        self.model.pause(queue, paused, "a reason")
        if reopened:
            number = via % len(self.stores)
            self.stores[number].close()
            self.stores[number] = self.open()

    @rule(via=numbers)
    def abandon(self, via: int) -> None:
        """A process is gone without a word, and another one opens the store."""
        number = via % len(self.stores)
        self.abandoned.append(self.stores[number])
        self.stores[number] = self.open()

    @rule(by=steps)
    def step(self, by: float) -> None:
        """Somebody sets the clock."""
        if by > 0 or self.may_put_back:
            self.clock.step(by)
            self.put_back = self.put_back or by < 0

    @rule(via=numbers, queue=queues, handler=st.sampled_from(HANDLERS), age=seconds, wanted=wanteds)
    def look(self, via: int, queue: str, handler: str, age: float, wanted: Wanted) -> None:
        """Everything is listed, and parts of it; and it is asked when something is due."""
        store = self._store(via)
        found = list(store.find(Query()))
        assert by_id(found) == store.get_many(self.names) == self.model.jobs
        assert [job.id for job in found if job.state in WAITING] == [job.id for job in self.model.waiting()]
        assert [StoreModel.group(job) for job in found] == sorted(StoreModel.group(job) for job in found)
        finished = [job.updated_at for job in found if job.state in FINISHED]
        assert finished == sorted(finished, reverse=True) or self.put_back
        for query in (
            Query(queue=queue, states=WAITING),
            Query(tag="x", before=self._later(-age)),
            Query(handler=handler, since=self._later(-age)),
            Query(prefix="job-1"),
        ):
            assert by_id(store.find(query)) == self.model.found(query)
        assert [job.id for job in store.find(Query(limit=3))] == [job.id for job in found[:3]]
        due, expected = store.next_due(wanted, now=self.now), self.model.next_due(wanted)
        assert (due and max(due, self.now)) == (expected and max(expected, self.now))
        assert store.check() == []

    @invariant()
    def counts_are_a_recount(self) -> None:
        """The counts, and what each member holds, are those of the model after every step, by every handle."""
        for store in self.stores:
            assert store.counts(now=self.now) == self.model.counts(now=self.now)
            for presence, info in self.members:
                assert by_id(store.held(presence)) == self.model.held(info.id)

    def teardown(self) -> None:
        """Compare everything once more, with a fresh handle; leave, and close."""
        try:
            self.stores.append(self.open())
            self.look(len(self.stores) - 1, "default", "mail", 0, Wanted())
        finally:
            for presence, _ in self.members:
                presence.close()
            for store in (*self.stores, *self.abandoned):
                store.close()

    def _store(self, via: int) -> Store:
        return self.stores[via % len(self.stores)]

    def _join(self) -> None:
        info = make_info(started=self.now)
        self.model.members[info.id] = info
        self.members.append((self.stores[0].join(info), info))

    def _fresh_name(self) -> str:
        self.names.append(f"job-{len(self.names)}")
        return self.names[-1]

    def _pick(self, number: int) -> Job:
        """One of the jobs, or where there is none, one that was never added."""
        jobs = list(self.model.jobs.values())
        return jobs[number % len(jobs)] if jobs else self._job("never")

    def _job(self, name: str, *, delay: float = 0, **fields: Any) -> Job:
        times = {"created_at": self.now, "updated_at": self.now, "run_at": self._later(delay)}
        return make_job(name, **times, **fields)

    def _later(self, after: float) -> datetime:
        return self.now + timedelta(seconds=after)

    def _change(self, via: int, job: Job, change: Change) -> None:
        answer, expected = self._both(
            lambda: self._store(via).change(job, change, now=self.now),
            lambda: self.model.change(job, change, now=self.now),
        )
        assert answer == expected

    def _run_of(self, job_id: str) -> int:
        job = self.model.jobs.get(job_id)
        return 0 if job is None or job.state is not State.PROCESSING else job.run

    def _work(
        self,
        via: int,
        who: int,
        ends: Iterable[tuple[Claim, str]],
        wanted: Wanted,
        limit: int,
        leaders: tuple[str | None, ...] | None = None,
    ) -> None:
        """Have a member end runs and claim others; what it ended stays among the claims, to be ended again."""
        presence, info = self.members[who % len(self.members)]
        ended = [ENDS[kind](claim, now=self.now) for claim, kind in ends]
        shown: list[Job] = []
        to_be_shown: list[Job] = []
        answer = self._store(via).claim(
            presence,
            wanted=replace(wanted, leading=leading(shown, leaders)),
            limit=limit,
            now=self.now,
            ended=ended,
        )
        expected = self.model.claim(
            info, wanted=replace(wanted, leading=leading(to_be_shown, leaders)), limit=limit, now=self.now, ended=ended
        )
        assert list(answer.claims) == expected.claims
        assert (list(answer.refused), list(answer.cancelled)) == (expected.refused, expected.cancelled)
        assert shown == to_be_shown
        self.claims += expected.claims

    def _both(self, act: Callable[[], object], model: Callable[[], object]) -> tuple[object, object]:
        return outcome(act), outcome(model)

    def _compare_members(self, store: Store) -> None:
        assert {info.id for info in store.workers()} == self.model.members.keys()
        lost = {info.id: by_id(claim.job for claim in claims) for info, claims in store.lost(now=self.now)}
        assert lost == self.model.lost()


def empty(store: Store, *, now: datetime) -> None:
    """Remove everything from a store, through its interface."""
    for info, _ in store.lost(now=now):
        store.forget(info)
    for job in store.find(Query(states=frozenset({State.PROCESSING}))):
        store.change(job, Change({"state": State.PENDING, "worker": None}), now=now)
    store.delete(list(store.find(Query())))
    for queue in store.counts(now=now).paused:
        store.pause(queue, False, now=now)
