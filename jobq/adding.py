"""Enqueueing: checked specs become jobs, and jobs are stored."""

from __future__ import annotations

import os

from jobq.errors import DuplicateJob, InvalidInput
from jobq.spec import Intake
from jobq.store import NewJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from jobq.app import App
    from jobq.job import Job

BATCH = 1000


def prepare(app: App, specs: Iterable[object], *, allow_unknown_handler: bool) -> list[NewJob]:
    """Check specs and make jobs of them, without storing anything.

    Raises:
        InvalidInput: a spec breaks a rule, or an id comes twice; where there are several, the 1-based number is told.
    """
    try:
        directory = os.getcwd()
    except FileNotFoundError:
        raise InvalidInput("cwd", ".", "was removed: there is no directory for a job to run in; cd elsewhere") from None
    intake = Intake(app.settings, now=app.clock.now(), directory=directory)
    new: list[NewJob] = []
    annotations = app.annotations
    many = not isinstance(specs, list) or len(specs) > 1
    for number, spec in enumerate(specs, 1):
        needs_handlers = isinstance(spec, dict) and "handler" in spec and not allow_unknown_handler
        handlers = app.handlers if needs_handlers else None
        try:
            item = intake.job(spec, handlers=handlers)
        except InvalidInput as error:
            raise error.at_line(number) if many and error.line is None else error from None
        new.append(item if annotations is None else NewJob(annotations.added_to(item.job), item.generated))
    _refuse_repeated(new)
    return new


def _refuse_repeated(new: Sequence[NewJob]) -> None:
    if len({item.job.id for item in new}) == len(new):
        return
    first: dict[str, int] = {}
    for number, item in enumerate(new, 1):
        if first.setdefault(item.job.id, number) != number:
            raise InvalidInput("id", item.job.id, f"is that of line {first[item.job.id]} too", line=number)


def store_new(
    app: App,
    new: Sequence[NewJob],
    *,
    if_absent: bool,
    progress: Callable[[int], None] | None = None,
    connection: object = None,
) -> list[Job]:
    """Store jobs that `prepare` made; the jobs, in order.

    Up to 1,000 are stored all or none. More go in batches of 1,000, after every id has been looked for: then only a
    race with another process for the same ids can leave a part of them stored.

    Args:
        if_absent: a job that exists under one of the ids with the same work is answered with, not an error.
        progress: called with the number of jobs stored so far.
        connection: of the application, in whose transaction they are stored; no event is told of them then, since it is
            not known here whether that will be committed.

    Raises:
        DuplicateJob: ids that are taken.
        InvalidInput, NotSupported: as `Store.add_within`.
    """
    if not new:
        return []
    app.create_home()
    there: dict[str, Job] = {}
    if len(new) > BATCH:
        there = _standing(app, [item for item in new if not item.generated], if_absent=if_absent)
    jobs: list[Job] = []
    for start in range(0, len(new), BATCH):
        jobs += _add(app, new[start : start + BATCH], there, if_absent=if_absent, connection=connection)
        if progress is not None:
            progress(len(jobs))
    return jobs


def _add(app: App, new: Sequence[NewJob], there: dict[str, Job], *, if_absent: bool, connection: object) -> list[Job]:
    """Store one batch, but for the jobs that are `there` already; more of them are added to `there`."""
    while True:
        todo = [item for item in new if item.job.id not in there]
        try:
            added = _stored(app, todo, connection)
            break
        except DuplicateJob as error:
            if not if_absent:
                raise
            found = _standing(app, [item for item in todo if item.job.id in error.ids], if_absent=True)
            if connection is not None and not found:
                raise  # what stands there is of a transaction that is under way
            there.update(found)
    for job in added if connection is None else ():
        app.tell("enqueued", job, run=0)
    stored = {job.id: job for job in added}
    return [stored.get(item.job.id) or there[item.job.id] for item in new]


def _stored(app: App, new: Sequence[NewJob], connection: object) -> Sequence[Job]:
    if not new:
        return ()
    if connection is None:
        return app.store.add(new, now=app.clock.now())
    return app.store.add_within(connection, new, now=app.clock.now())


def _standing(app: App, new: Iterable[NewJob], *, if_absent: bool) -> dict[str, Job]:
    """The jobs that stand under the ids of new ones.

    Raises:
        DuplicateJob: there are some that may not be there, or are other work.
    """
    wanted = {item.job.id: item.job for item in new}
    there = app.store.get_many(wanted)
    refused = [job.id for job in there.values() if not if_absent or _work(job) != _work(wanted[job.id])]
    if refused:
        raise DuplicateJob(refused, work="other work" if if_absent else "")
    return there


def _work(job: Job) -> tuple[Any, ...]:
    import json  # of what was there already

    return job.command, job.handler, json.dumps(job.payload, sort_keys=True)
