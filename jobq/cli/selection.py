"""Which jobs a command means: ids, or conditions that jobs fulfil."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from jobq.errors import JobNotFound, NotFound
from jobq.job import FINISHED, State
from jobq.store import Query
from jobq.times import parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from jobq.cli.base import Globals
    from jobq.job import Job

GENERATED = re.compile(r"[a-z2-7]{16}")
_PREFIX = re.compile(r"[a-z2-7]{4,15}")
_NAMED_CANDIDATES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What stood on the command line: either ids, or conditions, or nothing, which is every job.

    Attributes:
        ids: as they were typed.
        states: any of these; None: all.
        queues, handlers: any of these; empty: all.
        tags: every one of these.
        match: text that the id, the command or handler, the payload or the error has in it, in whatever case.
        since, before: bounds of the last change (aware UTC), the first inclusive, the second exclusive.
    """

    ids: tuple[str, ...] = ()
    states: frozenset[State] | None = None
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    match: str = ""
    since: datetime | None = None
    before: datetime | None = None

    @property
    def nothing(self) -> bool:
        """Whether neither ids nor conditions were given."""
        return self == Selection()

    @property
    def query(self) -> Query:
        """What of the conditions a store can look for; `matches` has the rest."""
        return Query(
            states=self.states,
            queue=self.queues[0] if len(self.queues) == 1 else None,
            tag=self.tags[0] if self.tags else None,
            handler=self.handlers[0] if len(self.handlers) == 1 else None,
            since=self.since,
            before=self.before,
        )

    @property
    def countable(self) -> bool:
        """Whether a store's counts tell how many jobs there are."""
        return not (self.ids or self.tags or self.handlers or self.match or self.since or self.before)

    def matches(self, job: Job) -> bool:
        """Whether `job`, which the query found, fulfils the other conditions too."""
        if (self.queues and job.queue not in self.queues) or (self.handlers and job.handler not in self.handlers):
            return False
        return all(tag in job.tags for tag in self.tags) and (not self.match or self._has_text(job))

    def _has_text(self, job: Job) -> bool:
        wanted = self.match.casefold()
        texts = [job.id, job.what, job.last_error or ""]
        if job.payload:
            texts.append(json.dumps(job.payload, ensure_ascii=False))
        return any(wanted in text.casefold() for text in texts)


def selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments and options of a selection; its function gets them as `selection`."""

    def call(state: Globals, *args: Any, **options: Any) -> Any:
        ids, states = options.pop("ids"), options.pop("states")
        now = state.app.clock.now()
        chosen = Selection(
            ids=tuple(dict.fromkeys(ids)),
            states=frozenset(states) or None,
            queues=options.pop("queues"),
            tags=options.pop("tags"),
            handlers=options.pop("handlers"),
            match=options.pop("match") or "",
            since=_moment("--since", options.pop("since"), now),
            before=_moment("--before", options.pop("before"), now),
        )
        if ids and chosen != Selection(ids=chosen.ids):
            raise click.UsageError("give ids or conditions, not both")
        return function(state, *args, selection=chosen, **options)

    decorated = update_wrapper(call, function)
    for parameter in (
        click.option("--before", metavar="WHEN", help="Last changed longer ago than that: 7d, or an RFC 3339 time."),
        click.option("--since", metavar="WHEN", help="Last changed within that: 1h, or since an RFC 3339 time."),
        click.option("--match", metavar="TEXT", help="With this text in id, command, handler, payload or error."),
        click.option("--handler", "handlers", metavar="NAME", multiple=True, help="Of this handler."),
        click.option("-t", "--tag", "tags", metavar="TAG", multiple=True, help="With this tag; several: with all."),
        click.option("-q", "--queue", "queues", metavar="QUEUE", multiple=True, help="In this queue."),
        click.option(
            "-s", "--state", "states", metavar="STATE", multiple=True, callback=_states, help="In this state; or A,B."
        ),
        click.argument("ids", metavar="[ID]...", nargs=-1),
    ):
        decorated = parameter(decorated)
    return decorated


def find(state: Globals, chosen: Selection, *, limit: int | None = None) -> Iterator[Job]:
    """The jobs that fulfil the conditions, in the order of `Queue.find`; ids are not looked at.

    Of `limit` jobs the caller has enough; there may come more.
    """
    query = chosen.query
    if limit is not None and chosen.countable and len(chosen.queues) < 2:
        query = replace(query, limit=limit)
    return filter(chosen.matches, state.queue.find(query))


def select(state: Globals, chosen: Selection, *, whole_ids: bool) -> tuple[list[Job], int]:
    """The selected jobs, each once; and the exit code of the first id that is none, told on stderr, or 0.

    Commands that change something want `whole_ids`; for the others an unambiguous beginning will do.
    """
    from jobq.cli.base import first_failure

    if not chosen.ids:
        return list(find(state, chosen)), 0
    look_up = exact_job if whole_ids else find_job
    known = state.queue.get_many(chosen.ids)
    jobs: dict[str, Job] = {}

    def add(job_id: str) -> None:
        job = known.get(job_id) or look_up(state, job_id)
        jobs[job.id] = job

    code = first_failure([lambda job_id=job_id: add(job_id) for job_id in chosen.ids])  # type: ignore[misc]
    return list(jobs.values()), code


def find_job(state: Globals, text: str) -> Job:
    """The job that a reading command means: of this whole id, or the only one whose generated id begins so.

    Raises:
        JobNotFound: there is none, or there are several.
    """
    try:
        return state.queue.get(text)
    except JobNotFound:
        candidates = _beginning(state, text)
        if not candidates:
            raise
        if len(candidates) == 1:
            return candidates[0]
        raise JobNotFound(text, f"ids that begin so: {_listed(candidates)}") from None


def exact_job(state: Globals, job_id: str) -> Job:
    """The job of this whole id, for commands that change something; the error tells which one a beginning means.

    Raises:
        JobNotFound: there is none.
    """
    try:
        return state.queue.get(job_id)
    except JobNotFound:
        candidates = _beginning(state, job_id)
        if not candidates:
            raise
        raise JobNotFound(job_id, f"whole ids only; {_listed(candidates)} begins so") from None


def latest_job(state: Globals) -> Job:
    """The job that changed last.

    Raises:
        NotFound: there are no jobs at all.
    """
    latest = None
    for job in _changed_last(state):
        if latest is None or job.updated_at >= latest.updated_at:  # the last one enqueued, of many at once
            latest = job
    if latest is None:
        raise NotFound("there are no jobs")
    return latest


def _changed_last(state: Globals) -> Iterable[Job]:
    """Every job that may have changed last: the last finished one, and whatever changed after it."""
    finished = next(state.queue.find(Query(states=FINISHED, limit=1)), None)
    if finished is not None:
        yield finished
    since = None if finished is None else finished.updated_at
    yield from state.queue.find(Query(states=frozenset(State) - FINISHED, since=since))


def _beginning(state: Globals, text: str) -> list[Job]:
    if not _PREFIX.fullmatch(text):
        return []
    found = (job for job in state.queue.find(Query(prefix=text)) if GENERATED.fullmatch(job.id))
    return [job for job, _ in zip(found, range(_NAMED_CANDIDATES + 1), strict=False)]


def _listed(jobs: list[Job]) -> str:
    more = ", and more" if len(jobs) > _NAMED_CANDIDATES else ""
    return ", ".join(job.id for job in jobs[:_NAMED_CANDIDATES]) + more


def _states(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[State]:
    names = [name.strip().lower() for text in value for name in text.split(",") if name.strip()]
    for name in names:
        if name not in State.__members__.values():
            raise click.BadParameter(f"{name!r} is no state; there are {', '.join(State)}", ctx, param)
    return [State(name) for name in names]


def _moment(option: str, text: str | None, now: datetime) -> datetime | None:
    """The instant that is meant: so long ago, or an RFC 3339 time."""
    if text is None:
        return None
    if re.match(r"\d{4}-\d", text):
        return parse_instant(option, text)
    return now - parse_duration(option, text)
