"""What the parts of the store contract share: handles, a member, and shorthands for the ends of runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.members import Presence
from jobq.store import Claim, Claimed, Ended, Store, Wanted
from jobq.testing.builders import make_info
from jobq.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobq.job import Job

ALL = 1000
"""A limit that no test reaches."""


class StoreFixtures:
    """The fixtures of the store contract."""

    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        """A function that gives a new handle on one and the same storage, empty at first; to be overridden."""
        raise NotImplementedError("a subclass of StoreContract overrides the fixture open_store")

    def die(self, presence: Presence) -> None:
        """Make a member be gone as if its process had been killed; to be overridden."""
        raise NotImplementedError("a subclass of StoreContract overrides die")

    @pytest.fixture
    def handle(self, open_store: Callable[[], Store]) -> Iterator[Callable[[], Store]]:
        """Opens handles, which are closed when the test is over."""
        stores: list[Store] = []

        def open_one() -> Store:
            stores.append(open_store())
            return stores[-1]

        yield open_one
        for store in stores:
            store.close()

    @pytest.fixture
    def store(self, handle: Callable[[], Store]) -> Store:
        """One handle."""
        return handle()

    @pytest.fixture
    def other(self, handle: Callable[[], Store], store: Store) -> Store:
        """Another handle on the same storage."""
        return handle()

    @pytest.fixture
    def worker(self, store: Store) -> Iterator[Presence]:
        """A member."""
        presence = store.join(make_info())
        yield presence
        presence.close()

    @pytest.fixture
    def colleague(self, other: Store) -> Iterator[Presence]:
        """Another member, through the other handle."""
        presence = other.join(make_info())
        yield presence
        presence.close()


def need(store: Store, *capabilities: str) -> None:
    """Skip the test where the store does not say that it is capable of it."""
    missing = [name for name in capabilities if name not in store.capabilities]
    if missing:
        pytest.skip(f"this store does not declare {', '.join(missing)}")


def later(seconds: float) -> datetime:
    """That long after `START`."""
    return START + timedelta(seconds=seconds)


def ids(items: Iterable[Job | Claim]) -> list[str]:
    """The ids of jobs or claims, in their order."""
    return [item.job.id if isinstance(item, Claim) else item.id for item in items]


def claim(store: Store, worker: Presence, *, now: datetime = START, limit: int = ALL, **wanted: Any) -> list[Claim]:
    """Claim what is due and wanted."""
    return list(store.claim(worker, wanted=Wanted(**wanted), limit=limit, now=now).claims)


def finish(
    store: Store, worker: Presence, *ended: Ended, now: datetime = START, limit: int = 0, **wanted: Any
) -> Claimed:
    """Record what ended, and claim nothing unless `limit` says so."""
    answer = store.claim(worker, wanted=Wanted(**wanted), limit=limit, now=now, ended=ended)
    return Claimed(list(answer.claims), list(answer.refused), list(answer.cancelled))


def success(claim: Claim, *, now: datetime = START, result: Any = None) -> Ended:
    """The run succeeded."""
    return ending(claim, Outcome(kind=Kind.SUCCESS, exit_code=0, result=result), now=now)


def failure(claim: Claim, *, now: datetime = START, wait: float | None = 10) -> Ended:
    """The run failed; the next one is due after `wait` seconds, None gives up."""
    outcome = Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1, tail="the last words\n")
    return ending(claim, outcome, now=now, wait=wait)


def release(claim: Claim, *, now: datetime = START) -> Ended:
    """The run was handed back."""
    return ending(claim, Outcome(kind=Kind.RELEASED, reason="the worker stops"), now=now)


def snooze(claim: Claim, *, now: datetime = START) -> Ended:
    """The run was handed back, to be tried again after a while."""
    outcome = Outcome(kind=Kind.RELEASED, reason="not now", delay=timedelta(seconds=30))
    return ending(claim, outcome, now=now)


def unstarted(claim: Claim, *, now: datetime = START) -> Ended:
    """The run was claimed ahead and has not begun."""
    return Ended(claim, lifecycle.taken_back(claim, now=now))


def ending(claim: Claim, outcome: Outcome, *, now: datetime = START, wait: float | None = 10) -> Ended:
    """The run ended with `outcome`; where it failed, the next one is due after `wait` seconds, None gives up."""
    pause = None if wait is None else timedelta(seconds=wait)
    return Ended(claim, lifecycle.after(claim, outcome, now=now, delay=lambda _attempts, _outcome: pause))


def into(store: Store, worker: Presence, job_id: str, state: State, *, now: datetime = START) -> Job:
    """Bring a pending job, which must be the only one that is due, into a state; the job afterwards."""
    if state is State.CANCELLED:
        job = store.get(job_id)
        change = lifecycle.cancel(job, now=now)
        assert change is not None
        return store.change(job, change, now=now)
    if state is not State.PENDING:
        (claimed,) = claim(store, worker, now=now)
        assert claimed.job.id == job_id
        ends = {
            State.COMPLETED: lambda: success(claimed, now=now),
            State.FAILED: lambda: failure(claimed, now=now, wait=3600),
            State.DEAD: lambda: failure(claimed, now=now, wait=None),
        }
        if state in ends:
            assert not finish(store, worker, ends[state](), now=now).refused
    job = store.get(job_id)
    assert job.state is state
    return job
