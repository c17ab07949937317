"""Jobs as rows: the record as JSON, and the columns beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.codec import encode, loads
from jobq.errors import HIDDEN, InvalidInput, StoreUnreadable
from jobq.job import Job, State
from jobq.store import runs_alone
from jobq.times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIVE = "id, state, run, rev, worker, started_at, updated_at, record::text"
"""What is selected of a job that is not archived; `live` reads it."""

_STATES = {state.value: state for state in State}
BESIDE = frozenset({"state", "run", "worker", "started_at"})
"""The fields that a claim changes, beside `rev` and `updated_at`: these columns hold them, not the record."""


def archived(text: str) -> Job:
    """The job of an archived record.

    Raises:
        StoreUnreadable: it is none.
    """
    try:
        return Job.from_record(loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreUnreadable(f"a stored record is no job ({error}): {text[:80]!r}") from None


def live(row: Sequence[Any]) -> Job:
    """The job of a row of `LIVE`.

    Raises:
        StoreUnreadable: the record is no job.
    """
    _, state, run, rev, worker, started_at, updated_at, text = row
    job = archived(text)
    job.__dict__.update(
        state=_STATES[state], run=run, rev=rev, worker=worker, started_at=started_at, updated_at=updated_at
    )
    return job


def text_of(job: Job) -> str:
    """The record as JSON.

    Raises:
        InvalidInput: a field, such as what a handler returned, is no JSON.
    """
    try:
        return encode(job.record())
    except (RecursionError, ValueError, TypeError) as error:
        raise InvalidInput("result", HIDDEN, f"of job {job.id} cannot be written as JSON ({error})") from None


def documents(jobs: Sequence[Job], before: Sequence[Job] = (), chosen: Sequence[bool] = ()) -> list[str]:
    """Jobs as two JSON texts, which cost less than an array a column: their columns, and their records.

    Args:
        before: what they are to be in place of.
        chosen: whether a person chose the id, which may be taken then.
    """
    rows = [_columns(job) for job in jobs]
    for row, old in zip(rows, before, strict=False):
        row |= {"old_rev": old.rev, "old_created_at": format_time(old.created_at), "old_worker": old.worker}
    for row, named in zip(rows, chosen, strict=False):
        row["chosen"] = named
    return [encode(rows), f"[{','.join(map(text_of, jobs))}]"]


def claims(jobs: Iterable[Job]) -> str:
    """What a claim changes of jobs, as a JSON text."""
    return encode(
        [
            {
                "id": job.id,
                "state": job.state.value,
                "run": job.run,
                "rev": job.rev,
                "worker": job.worker,
                "started_at": None if job.started_at is None else format_time(job.started_at),
                "updated_at": format_time(job.updated_at),
            }
            for job in jobs
        ]
    )


def _columns(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "queue": job.queue,
        "handler": job.handler or "",
        "alone": runs_alone(job),
        "rank": -job.priority,
        "run_at": format_time(job.run_at),
        "state": job.state.value,
        "run": job.run,
        "rev": job.rev,
        "worker": job.worker,
        "created_at": format_time(job.created_at),
        "started_at": None if job.started_at is None else format_time(job.started_at),
        "updated_at": format_time(job.updated_at),
    }


def copied(job: Job) -> tuple[Any, ...]:
    """A pending job as a row of `COPIED`."""
    return (
        job.id,
        job.queue,
        job.handler or "",
        runs_alone(job),
        -job.priority,
        job.run_at,
        job.state.value,
        job.run,
        job.rev,
        job.created_at,
        job.updated_at,
        text_of(job),
    )


COPIED = "id, queue, handler, alone, rank, run_at, state, run, rev, created_at, updated_at, record"
