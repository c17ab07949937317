"""Taking over jobs of another store as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.errors import HIDDEN, DuplicateJob, InvalidInput
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobq.job import Job
    from jobq_json.kept import Kept
    from jobq_json.view import Place


def ids_of(jobs: Sequence[Job]) -> list[str]:
    """The ids of jobs that are to be taken over.

    Raises:
        DuplicateJob: some come twice.
        InvalidInput: one is processing.
    """
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for job in jobs:
        if job.state is State.PROCESSING:
            raise InvalidInput("state", HIDDEN, f"job {job.id} is processing and cannot be taken over")
        if job.id in seen:
            twice[job.id] = None
        seen.add(job.id)
    if twice:
        raise DuplicateJob(twice)
    return [job.id for job in jobs]


def fresh(jobs: Sequence[Job], stored: Mapping[str, tuple[Kept, Place]]) -> list[Job]:
    """Those of the jobs that are not stored yet.

    Raises:
        DuplicateJob: some are stored with another version.
    """
    if taken := [job.id for job in jobs if job.id in stored and stored[job.id][0].job.version != job.version]:
        raise DuplicateJob(taken)
    return [job for job in jobs if job.id not in stored]
