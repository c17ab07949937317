"""Questions to a view: how many jobs there are, and which ones match a query."""

from __future__ import annotations

from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING

from jobq.job import FINISHED, WAITING, State
from jobq.store import Counts
from jobq.times import format_time
from jobq_json.heads import head_of
from jobq_json.kept import PENDING, Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from jobq.job import Job
    from jobq.store import Query
    from jobq_json.sections import Section
    from jobq_json.view import View


def counts(view: View, *, now: datetime) -> Counts:
    """The counts as `Store.counts` has them."""
    queues = {
        queue: {state: view.counts[queue][state.value] for state in State}
        for queue in sorted(view.counts.keys() | view.paused.keys())
        if queue in view.paused or any(view.counts[queue].values())
    }
    written = format_time(now)
    later = sum(_later(view, section, written) for section in view.manifest.sections if section.state == PENDING)
    later -= sum(run_at > written for run_at in view.touched_due)
    later += sum(kept is not None and kept.state == PENDING and kept.run_at > written for kept in view.delta.values())
    return Counts(queues=queues, paused=dict(view.paused), later=later, damaged=view.damaged)


def find(view: View, query: Query) -> Iterator[Job]:
    """The matching jobs as `Store.find` orders them. What is answered is the state at the call.

    Raises:
        FileNotFoundError: the generation is over.
    """
    states = query.states if query.states is not None else frozenset(State)
    delta = dict(view.delta)
    groups: list[Iterator[Kept]] = []
    if State.PROCESSING in states:
        held = [kept for kept in delta.values() if kept is not None and kept.state == State.PROCESSING]
        groups.append(iter(sorted(held, key=_claim_order)))
    if states & WAITING:
        groups.append(_sorted_run(view, delta, query, states & WAITING))
    if State.DEAD in states:
        groups.append(_sorted_run(view, delta, query, frozenset({State.DEAD})))
    if states & FINISHED:
        view.archive.open_all()
        finished = list(view.finished.values())
        archived = {name: frozenset(offsets) for name, offsets in view.archived.items()}
        groups.append(chain(reversed(finished), view.archive.latest_first(view.note_damage, archived)))
    matching = (
        job
        for kept in chain.from_iterable(groups)
        if _may_match(kept, query, states) and query.matches(job := kept.job)
    )
    return matching if query.limit is None else islice(matching, query.limit)


def _may_match(kept: Kept, query: Query, states: frozenset[State]) -> bool:
    """Whether the query may match, as far as that can be told without parsing the job."""
    return (
        kept.state in states
        and (query.queue is None or kept.queue == query.queue)
        and (query.handler is None or kept.handler == query.handler)
        and (query.prefix is None or kept.id.startswith(query.prefix))
    )


def _claim_order(kept: Kept) -> tuple[int, str, int]:
    return -kept.priority, kept.run_at, kept.seq


def _sorted_run(view: View, delta: Mapping[str, Kept | None], query: Query, states: frozenset[State]) -> Iterator[Kept]:
    """The jobs in these states in claim order: those of `delta`, and those of the run that it does not replace."""
    changed = sorted((kept for kept in delta.values() if kept is not None and kept.state in states), key=_claim_order)
    sections = [
        section
        for section in view.manifest.sections
        if section.state in states and query.queue in (None, section.lane.queue)
    ]
    levels = sorted({-section.lane.priority for section in sections} | {-kept.priority for kept in changed})

    def old(section: Section) -> Iterator[Kept]:
        return (kept for kept in view.jobs_of(section) if kept.id not in delta)

    def new(level: int) -> Iterator[Kept]:
        return (kept for kept in changed if -kept.priority == level)

    for level in levels:
        parts = [old(section) for section in sections if -section.lane.priority == level]
        yield from merge(new(level), *parts, key=_claim_order)


def _later(view: View, section: Section, now: str) -> int:
    """How many lines of a section are due after `now`."""
    if section.first > now:
        return section.lines
    if section.last <= now:
        return 0
    low = view.run.bisect(
        section.start, section.end, lambda line: (head := head_of(line)) is None or head.run_at <= now
    )
    before, after = low - section.start, section.end - low
    if after <= before:
        return _line_count(view, low, section.end)
    return section.lines - _line_count(view, section.start, low)


def _line_count(view: View, start: int, end: int) -> int:
    step = 1 << 20
    return sum(view.run.data[at : min(end, at + step)].count(b"\n") for at in range(start, end, step))
