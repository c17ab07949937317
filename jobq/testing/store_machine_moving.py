"""The state machine of the contract for stores that can be moved: jobs come in as they were, and the queue leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jobq.errors import NotEmpty, StoreMoved
from jobq.job import FINISHED, State
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.store import Query, Wanted
from jobq.testing.builders import aged, new
from jobq.testing.store_machine import StoreMachine, ends, numbers, specs

states = st.sampled_from([state for state in State if state is not State.PROCESSING])


class MovingMachine(StoreMachine):
    """As `StoreMachine`, with jobs that are taken over, and notices."""

    @rule(
        via=numbers,
        batch=st.lists(st.tuples(specs, states), min_size=1, max_size=4),
        again=st.lists(numbers, max_size=2, unique=True),
        rev=st.sampled_from((0, 0, 1)),
    )
    def restore(self, via: int, batch: list[tuple[dict[str, object], State]], again: list[int], rev: int) -> None:
        """Jobs are taken over, now and then some that are there, in the same version or in another."""
        there = {job.id: job for job in map(self._pick, again) if job.id in self.model.jobs}
        jobs = [replace(job, rev=job.rev + rev) for job in there.values() if job.state is not State.PROCESSING]
        for spec, state in batch:
            job = aged(self._job(self._fresh_name(), **spec), state)  # type: ignore[arg-type]
            jobs.append(replace(job, updated_at=self.now))
        answer, expected = self._both(
            lambda: self._store(via).restore(jobs, now=self.now), lambda: self.model.restore(jobs)
        )
        assert answer == expected

    @rule(via=numbers)
    def nothing_arrives(self, via: int) -> None:
        """Where there are jobs none are to arrive."""
        if self.model.jobs:
            with pytest.raises(NotEmpty):
                self._post(via, ARRIVING)

    @rule(via=numbers, who=numbers, chosen=ends)
    def notice(self, via: int, who: int, chosen: list[tuple[int, str]]) -> None:
        """A notice goes up, by one handle; another one takes what ended, and hands out nothing; it is taken down."""
        self._post(via, LEAVING)
        other = self._store(via + 1)
        with pytest.raises(StoreMoved):
            other.add(new(self._job("refused")), now=self.now)
        _, info = self.members[who % len(self.members)]
        mine = [claim for claim in self.claims if claim.worker == info.id]
        self.model.closed = True
        self._work(
            via + 1, who, [(mine[-1 - number % len(mine)], kind) for number, kind in chosen if mine], Wanted(), 5
        )
        self.model.closed = False
        self._post(via + 1, None)

    @precondition(lambda self: not any(job.state is State.PROCESSING for job in self.model.jobs.values()))
    @rule(via=numbers)
    def leave(self, via: int) -> None:
        """All jobs leave, and what is left of them goes when they come back as they were."""
        store = self._store(via)
        self._post(via, LEAVING)
        found = list(store.find(Query()))
        jobs = [job for job in found if job.state not in FINISHED]
        jobs += [job for job in reversed(found) if job.state in FINISHED]
        self._post(via, LEFT)
        with pytest.raises(StoreMoved):
            self._store(via + 1).counts(now=self.now)
        self._post(via + 1, ARRIVING)
        assert list(store.find(Query())) == []
        assert store.restore(jobs, now=self.now) == [job.id for job in jobs]
        self._post(via, None)
        assert list(store.find(Query())) == found
        self.model.jobs = {job.id: job for job in jobs}
        self.model.paused.clear()

    def _post(self, via: int, state: str | None) -> None:
        notice = None if state is None else Notice(state=state, url="json:elsewhere")
        store = self._store(via)
        store.post(notice, before=store.notice(), now=self.now)
        for store in self.stores:
            assert store.notice() == notice
