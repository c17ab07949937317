"""Jobs as rows: the record as JSON, and the columns beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.codec import encode, loads
from jobq.errors import HIDDEN, InvalidInput, StoreUnreadable
from jobq.job import Job, State
from jobq.store import runs_alone

if TYPE_CHECKING:
    from collections.abc import Sequence

LIVE = "id, state, run, rev, worker, started_at, updated_at, record::text"
"""What is selected of a job that is not archived; `live` reads it."""

_STATES = {state.value: state for state in State}
BESIDE = frozenset({"state", "run", "worker", "started_at"})
"""The fields that a claim changes, beside `rev` and `updated_at`: these columns hold them, not the record."""

COLUMNS = "id chosen queue handler alone rank run_at state run rev created_at started_at updated_at record".split()
_TYPES = (
    "text boolean text text boolean smallint timestamptz text bigint bigint timestamptz timestamptz timestamptz text"
).split()
ARRAYS = ", ".join(f"%s::{kind}[]" for kind in _TYPES)
"""Placeholders for what `columns` answers with."""


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


def columns(jobs: Sequence[Job], chosen: Sequence[bool] | None = None) -> list[list[Any]]:
    """Jobs as one list a column, in the order of `COLUMNS`.

    Args:
        chosen: whether a person chose the id, which may be taken then.
    """
    rows = [
        (
            job.id,
            chosen is None or chosen[index],
            job.queue,
            job.handler or "",
            runs_alone(job),
            -job.priority,
            job.run_at,
            job.state.value,
            job.run,
            job.rev,
            job.created_at,
            job.started_at,
            job.updated_at,
            text_of(job),
        )
        for index, job in enumerate(jobs)
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in COLUMNS]
