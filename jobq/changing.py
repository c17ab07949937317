"""What a person does to jobs that exist: cancel, retry, delete; each of many, a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import lifecycle, output
from jobq.errors import JobNotFound, WrongState
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobq.app import App
    from jobq.errors import JobqError
    from jobq.job import Change, Job

BATCH = 1000
"""Jobs that are changed in one transaction."""

Answers = dict[str, "Job | JobqError"]
"""What became of each job by its id, in the order asked: the job after it, or why it could not be done."""


def cancel(app: App, job_ids: Iterable[str]) -> Answers:
    """Cancel waiting jobs, ask running ones to stop; see `Queue.cancel`."""
    return _change(app, job_ids, lambda job: lifecycle.cancel(job, now=app.clock.now()), "cancelled")


def retry(app: App, job_ids: Iterable[str]) -> Answers:
    """Make failed, dead and cancelled jobs pending now; see `Queue.retry`."""
    return _change(app, job_ids, lambda job: lifecycle.retry(job, now=app.clock.now()), "retried")


def delete(app: App, job_ids: Iterable[str]) -> Answers:
    """Delete jobs and their output; see `Queue.delete`. The answers are the jobs as they were."""

    def act(found: Sequence[Job], answers: Answers) -> None:
        jobs = {}
        for job in found:
            try:
                lifecycle.check_deletable(job)
                jobs[job.id] = job
            except WrongState as error:
                answers[job.id] = error
        for job_id in app.store.delete(list(jobs.values())):
            output.remove(app.home.path, job_id)
            app.tell("deleted", jobs[job_id])
            answers[job_id] = jobs[job_id]

    return _each(app, job_ids, act)


def _change(app: App, job_ids: Iterable[str], decide: Callable[[Job], Change | None], event: str) -> Answers:
    """Apply what `decide` makes of each job as it is."""

    def act(found: Sequence[Job], answers: Answers) -> None:
        changes = []
        for job in found:
            try:
                change = decide(job)
            except WrongState as error:
                answers[job.id] = error
                continue
            if change is None:
                answers[job.id] = job
            else:
                changes.append((job, change))
        for job in app.store.change_many(changes, now=app.clock.now()) if changes else ():
            if job.state is not State.PROCESSING:
                app.tell(event, job)
            answers[job.id] = job

    return _each(app, job_ids, act)


def _each(app: App, job_ids: Iterable[str], act: Callable[[Sequence[Job], Answers], None]) -> Answers:
    """Have `act` answer for every job, a batch at a time; again for those that somebody changed between."""
    todo = list(dict.fromkeys(job_ids))
    answers: Answers = {}
    for start in range(0, len(todo), BATCH):
        left = todo[start : start + BATCH]
        while left:
            found = app.store.get_many(left)
            answers.update((job_id, JobNotFound(job_id)) for job_id in left if job_id not in found)
            act([found[job_id] for job_id in left if job_id in found], answers)
            left = [job_id for job_id in left if job_id not in answers]
    return {job_id: answers[job_id] for job_id in todo}
