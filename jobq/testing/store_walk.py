"""The part of the store contract that does at random what people and workers do.

Every answer is compared with that of `MemoryStore`, which is the model.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobq import lifecycle
from jobq.errors import DuplicateJob, JobChanged, JobNotFound, WrongState
from jobq.job import ENDED, FINISHED, WAITING, Change, Job, State
from jobq.store import Claim, Ended, Query, Wanted
from jobq.testing.builders import make_info, make_job, new
from jobq.testing.clock import FakeClock
from jobq.testing.memory import MemoryStorage, MemoryStore
from jobq.testing.store_fixtures import ALL, StoreFixtures, failure, finish, ids, release, success

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobq.members import Presence
    from jobq.store import Store

QUEUES = ("default", "mail", "a.b")
HANDLERS = ("resize", "mail")


class StoreWalk(StoreFixtures):
    """Long random lives."""

    @pytest.mark.parametrize("seed", range(4))
    def test_it_answers_as_the_model_does(self, handle: Callable[[], Store], seed: int) -> None:
        walk = Walk([handle(), handle()], random.Random(seed))
        try:
            for number in range(250):
                walk.step()
                walk.compare()
                if number % 25 == 24:
                    walk.compare_all()
            walk.stores[0] = handle()
            walk.compare_all(walk.stores[0])
        finally:
            walk.leave()


class Walk:
    """One random life of a store (through several handles of it) beside that of the model.

    Args:
        stores: the handles.
        chance: what decides on the steps.
    """

    def __init__(self, stores: list[Store], chance: random.Random) -> None:
        self.stores, self.chance = stores, chance
        self.model = MemoryStore(MemoryStorage())
        self.clock = FakeClock()
        infos = [make_info(f"worker{number}") for number in range(2)]
        self.members: list[tuple[Presence, Presence]] = [
            (stores[0].join(info), self.model.join(info)) for info in infos
        ]
        self.claims: list[Claim] = []
        self.names: list[str] = []

    def leave(self) -> None:
        """Close the memberships."""
        for presence, _model in self.members:
            presence.close()

    def step(self) -> None:
        """Do one thing to both and compare the answers."""
        self.clock.advance(self.chance.choice((0, 0.001, 1, 1, 7, 30)))
        deeds = {self.add: 5, self.work: 9, self.edit: 4, self.lose: 2, self.delete: 1, self.prune: 1, self.pause: 1}
        self.chance.choices(list(deeds), list(deeds.values()))[0]()

    def add(self) -> None:
        """Add some jobs, now and then one that is there."""
        jobs = []
        for _ in range(self.chance.randint(1, 4)):
            name = f"job-{len(self.names)}"
            if self.names and self.chance.random() < 0.1:
                name = self.chance.choice(self.names)
            self.names.append(name)
            handler = self.chance.choice((None, None, *HANDLERS))
            jobs.append(
                make_job(
                    name,
                    **({} if handler is None else {"handler": handler}),
                    queue=self.chance.choice(QUEUES),
                    priority=self.chance.choice((-1, 0, 0, 0, 5)),
                    run_at=self.later(self.chance.choice((0, 0, 0, 5, 60))),
                    created_at=self.clock.now(),
                    updated_at=self.clock.now(),
                    losses=self.chance.choice((0, 0, 0, 0, 1, 2, 3)),
                    tags=tuple(self.chance.sample(("x", "y", "z"), self.chance.randint(0, 2))),
                )
            )
        self.both(lambda store: store.add(new(*jobs), now=self.clock.now()))

    def work(self) -> None:
        """A member ends some of its runs, perhaps some twice or with a wrong number, and claims others."""
        presence, modelled = self.chance.choice(self.members)
        mine = [each for each in self.claims if each.worker == presence.id]
        ends: tuple[Callable[..., Ended], ...] = (success, success, failure, release)
        chosen = self.chance.sample(mine, self.chance.randint(0, len(mine)))
        ended = [self.chance.choice(ends)(each, now=self.clock.now()) for each in chosen]
        if self.chance.random() < 0.8:
            self.claims = [each for each in self.claims if each not in chosen]
        wanted = self.wanted()
        limit = self.chance.choice((0, 1, 1, 2, 5))
        store = self.chance.choice(self.stores)
        asked = self.chance.random() < 0.5
        leaders = self.chance.choice(((None,), (None, "mail"), (None, *HANDLERS)))
        answers = []
        for handle, member in ((store, presence), (self.model, modelled)):
            shown: list[Job] = []
            wanted["leading"] = leading(shown, leaders) if asked else None
            answers.append((finish(handle, member, *ended, now=self.clock.now(), limit=limit, **wanted), shown))
        assert answers[0] == answers[1]
        self.claims += answers[0][0].claims

    def edit(self) -> None:
        """Cancel, retry or move a job, perhaps by an old copy of it."""
        job = self.pick()
        if job is None:
            return
        change = self.change_of(job)
        if self.chance.random() < 0.1:
            job = Job.from_record(job.record() | {"rev": job.rev + self.chance.choice((-1, 1))})
        if change is not None:
            self.both(lambda store: store.change(job, change, now=self.clock.now()))

    def change_of(self, job: Job) -> Change | None:
        """What a person may do to a job."""
        now = self.clock.now()
        try:
            match self.chance.randint(0, 3):
                case 0:
                    return lifecycle.cancel(job, now=now)
                case 1:
                    return lifecycle.retry(job, now=now)
                case 2 if job.state in WAITING:
                    return Change({"priority": self.chance.randint(-2, 2), "queue": self.chance.choice(QUEUES)})
                case _ if job.state in WAITING:
                    return Change({"run_at": self.later(self.chance.choice((0, 20))), "tags": ("edited",)})
                case _:
                    return None
        except WrongState:
            return None

    def lose(self) -> None:
        """Take a run from its worker, as recovery does."""
        if self.claims:
            held = self.chance.choice(self.claims)
            counted = self.chance.random() < 0.7
            change = lifecycle.lost(held, now=self.clock.now(), counted=counted, max_losses=4)
            change = lifecycle.settled(self.model_of(held.job) or held.job, change)
            self.both(lambda store: store.change(held.job, change, now=self.clock.now()))

    def delete(self) -> None:
        """Delete some jobs, whatever their states."""
        jobs = [job for job in (self.pick(), self.pick()) if job is not None]
        jobs = list({job.id: job for job in jobs}.values())
        self.both(lambda store: sorted(store.delete(jobs)))

    def prune(self) -> None:
        """Delete what ended a while ago."""
        states = self.chance.choice((ENDED, FINISHED, frozenset({State.DEAD}), frozenset({State.COMPLETED})))
        before = self.later(-self.chance.choice((1, 60, 120)))
        self.both(lambda store: sorted(store.prune(states=states, before=before, limit=ALL)))

    def pause(self) -> None:
        """Pause or resume a queue."""
        queue, paused = self.chance.choice(QUEUES), self.chance.random() < 0.3
        self.both(lambda store: store.pause(queue, paused, reason="at random", now=self.clock.now()))

    def compare(self) -> None:
        """Compare what is cheap to ask."""
        store, now = self.chance.choice(self.stores), self.clock.now()
        assert store.counts(now=now) == self.model.counts(now=now)
        wanted = Wanted(**self.wanted())
        due, expected = store.next_due(wanted, now=now), self.model.next_due(wanted, now=now)
        assert (due and max(due, now)) == (expected and max(expected, now))
        for presence, modelled in self.members:
            assert by_id(store.held(presence)) == by_id(self.model.held(modelled))

    def compare_all(self, store: Store | None = None) -> None:
        """Compare every job, some queries, and the order."""
        store = store or self.chance.choice(self.stores)
        found, expected = list(store.find(Query())), list(self.model.find(Query()))
        assert by_id(found) == by_id(expected)
        assert ids(job for job in found if job.state in WAITING) == ids(job for job in expected if job.state in WAITING)
        assert [group(job) for job in found] == [group(job) for job in expected]
        finished = [job.updated_at for job in found if job.state in FINISHED]
        assert finished == sorted(finished, reverse=True)
        for query in (
            Query(queue=self.chance.choice(QUEUES)),
            Query(tag="x", states=frozenset(self.chance.sample(list(State), 3))),
            Query(handler=self.chance.choice(HANDLERS), since=self.later(-100)),
            Query(prefix="job-1", before=self.later(-50)),
        ):
            assert by_id(store.find(query)) == by_id(self.model.find(query))
        assert store.check() == []

    def both(self, act: Callable[[Store], object]) -> None:
        """Do it to both; the answers, or what they refuse it with, are the same."""
        assert answer(act, self.chance.choice(self.stores)) == answer(act, self.model)

    def pick(self) -> Job | None:
        """A job that is there, or None where chance names one that is not."""
        return self.model_of(make_job(self.chance.choice(self.names))) if self.names else None

    def model_of(self, job: Job) -> Job | None:
        """The model's copy of a job."""
        try:
            return self.model.get(job.id)
        except JobNotFound:
            return None

    def wanted(self) -> dict[str, Any]:
        """What a worker might want."""
        return {
            "queues": self.chance.choice((None, None, ("mail",), ("a.b", "default"))),
            "handlers": self.chance.choice((None, frozenset(), frozenset({"mail"}))),
            "max_losses": self.chance.choice((None, None, 1)),
        }

    def later(self, seconds: float) -> datetime:
        """That long after now."""
        return self.clock.now() + timedelta(seconds=seconds)


def answer(act: Callable[[Store], object], store: Store) -> object:
    """What comes of it, errors included."""
    try:
        return act(store)
    except DuplicateJob as error:
        return "duplicate", sorted(error.ids)
    except (JobChanged, JobNotFound) as error:
        return type(error), error.job_id


def leading(shown: list[Job], handlers: Collection[str | None]) -> Callable[[Job], bool]:
    """A `Wanted.leading` that lets the jobs of these handlers lead (None: commands), and notes what it is shown."""

    def lead(job: Job) -> bool:
        shown.append(job)
        return job.handler in handlers

    return lead


def by_id(jobs: Any) -> dict[str, Job]:
    """Jobs by their ids, none twice."""
    found = list(jobs)
    named = {job.id: job for job in found}
    assert len(named) == len(found)
    return named


def group(job: Job) -> int:
    """Which of the four parts of a listing a job belongs to."""
    return 3 if job.state in FINISHED else 2 if job.state is State.DEAD else 1 if job.state in WAITING else 0
