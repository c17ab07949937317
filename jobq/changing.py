"""What a person does to jobs that exist: cancel, retry, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import lifecycle, output
from jobq.errors import JobChanged
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.app import App
    from jobq.job import Change, Job


def cancel(app: App, job_id: str) -> Job:
    """Cancel a waiting job, or ask a running one to stop; see `Queue.cancel`.

    Raises:
        JobNotFound, WrongState: as there.
    """
    return _change(app, job_id, lambda job: lifecycle.cancel(job, now=app.clock.now()), "cancelled")


def retry(app: App, job_id: str) -> Job:
    """Make a failed, dead or cancelled job pending now; see `Queue.retry`.

    Raises:
        JobNotFound, WrongState: as there.
    """
    return _change(app, job_id, lambda job: lifecycle.retry(job, now=app.clock.now()), "retried")


def delete(app: App, job_id: str) -> Job:
    """Delete a job and its output; see `Queue.delete`.

    Raises:
        JobNotFound, WrongState: as there.
    """
    while True:
        job = app.store.get(job_id)
        lifecycle.check_deletable(job)
        if app.store.delete([job]):
            output.remove(app.home.path, job_id)
            app.tell("deleted", job)
            return job


def _change(app: App, job_id: str, decide: Callable[[Job], Change | None], event: str) -> Job:
    """Apply what `decide` makes of the job as it is; again, if somebody changed it between."""
    while True:
        before = app.store.get(job_id)
        change = decide(before)
        if change is None:
            return before
        try:
            job = app.store.change(before, change, now=app.clock.now())
        except JobChanged:
            continue
        if job.state is not State.PROCESSING:
            app.tell(event, job)
        return job
