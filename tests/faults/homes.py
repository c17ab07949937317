"""Homes to do an operation in, what a store holds before and after it, and whether a store is sound."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobq import lifecycle
from jobq.errors import StoreUnreadable
from jobq.executor import Kind, Outcome
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_info, make_job, new

from . import stores

State = dict[str, tuple[Any, ...]]
"""By id what matters of a job; under "paused" the queues that are."""

UNREADABLE: State = {"unreadable": ()}


@contextmanager
def opened(home: Path, *, warned: bool = False) -> Iterator[Any]:
    """A handle on a home's store; no record of it may be damaged, unless a warning is expected."""
    told: list[str] = []
    store = stores.of(home).open(home, told.append)
    try:
        yield store
    finally:
        store.close()
    assert warned or told == []


def state_of(home: Path) -> State:
    """What the store holds; everything that is to be checked of it has been checked."""
    if not home.exists():
        return {}
    with opened(home) as store:
        try:
            jobs = list(store.find(Query()))
        except StoreUnreadable:
            return UNREADABLE
        assert store.check() == []
        paused = store.counts(now=START).paused
    assert len({job.id for job in jobs}) == len(jobs)
    state: State = {
        job.id: (job.state.value, job.command, job.handler, job.attempts, job.run, len(job.history)) for job in jobs
    }
    return state | ({"paused": tuple(sorted(paused))} if paused else {})


def goes_on(home: Path) -> None:
    """A job can be added, and nothing else comes of it."""
    before = state_of(home)
    with opened(home) as store:
        store.add(new(make_job("goes-on")), now=START)
    after = state_of(home)
    assert after.pop("goes-on")[0] == "pending"
    assert after == before


def add(home: Path, *ids: str, warned: bool = False, **fields: Any) -> None:
    with opened(home, warned=warned) as store:
        store.add(new(*(make_job(each, **fields) for each in ids)), now=START)


def work(home: Path, kind: Kind, limit: int = 1) -> None:
    """Claim jobs and end them in this way."""
    with opened(home) as store:
        presence = store.join(make_info())
        claims = store.claim(presence, wanted=Wanted(), limit=limit, now=START).claims
        outcome = Outcome(kind=kind, reason="because", finished=START)
        ends = [Ended(each, lifecycle.after(each, outcome, now=START, delay=lambda *_: None)) for each in claims]
        assert store.finish(presence, ends, now=START) == []
        presence.close()


def furnish(home: Path) -> None:
    """Jobs that completed, died, and wait: the last two in the log, the others where they stay."""
    store = stores.of(home)
    add(home, "done-1", "done-2")
    work(home, Kind.SUCCESS, limit=2)
    add(home, "dead-1", "dead-2", max_attempts=1)
    work(home, Kind.FAILURE, limit=2)
    add(home, "run-1")
    store.tidy(home)
    with store.killed(home):
        add(home, "journal-1", "journal-2")


def _large(home: Path) -> None:
    """A journal so large that the next change that has a view compacts."""
    furnish(home)
    add(home, *(f"large-{number}" for number in range(6)), handler="unknown", payload={"text": "x" * 200_000})


def _hurt(home: Path) -> None:
    """A store that cannot be read before it is repaired."""
    furnish(home)
    stores.of(home).tidy(home)
    stores.of(home).hurt(home)


@dataclass(frozen=True)
class Operation:
    """A command, and the home in which it is given.

    Attributes:
        words: as they are typed after `jobq`.
        prepare: furnishes the home's store; None: there is no home.
    """

    words: tuple[str, ...]
    prepare: Callable[[Path], None] | None = furnish
    stdin: str | None = None


_BATCH = "".join(f'{{"id": "new-{number}", "command": "true"}}\n' for number in range(50))

OPERATIONS = {
    "first": Operation(("add", "--id", "new", "--shell", "true"), prepare=None),
    "add": Operation(("add", "--id", "new", "--shell", "true")),
    "batch": Operation(("enqueue", "-"), stdin=_BATCH),
    "cancel": Operation(("cancel", "journal-1")),
    "retry": Operation(("retry", "dead-1")),
    "delete": Operation(("delete", "run-1")),
    "purge": Operation(("dlq", "purge", "dead-1")),
    "prune": Operation(("prune", "--older-than", "1")),
    "pause": Operation(("pause", "default")),
    "compaction": Operation(("cancel", "journal-1"), prepare=_large),
    "repair": Operation(("doctor", "--repair"), prepare=_hurt),
}
"""All that changes a store from the command line, but for workers."""


def operations(store: stores.Kind) -> list[str]:
    """The names of those that a store has: there is nothing that all would call a compaction."""
    return [name for name in OPERATIONS if store is stores.JSON or name != "compaction"]


class Site:
    """One home after another, each a copy of one that was prepared.

    Args:
        operation: what will be done in it.
        directory: where the prepared one is kept.
        store: that they have.
    """

    def __init__(self, operation: Operation, directory: Path, store: stores.Kind = stores.JSON) -> None:
        self._prepared = directory / "prepared"
        store.choose(self._prepared)
        if operation.prepare is not None:
            operation.prepare(self._prepared)

    def renew(self, home: Path) -> Path:
        """Make `home` as it is before the operation."""
        shutil.rmtree(home, ignore_errors=True)
        if self._prepared.exists():
            shutil.copytree(self._prepared, home)
        return home
