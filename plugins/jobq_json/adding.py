"""Adding jobs without a view of the store: nothing is replayed, however large the queue is."""

from __future__ import annotations

from jobq_json.lines import job_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.job import Job
    from jobq.store import NewJob


def record_of(jobs: Sequence[Job], seq: int) -> str:
    """The text of the journal record that adds the jobs, numbered from `seq`."""
    lines = [job_line(job, number) for number, job in enumerate(jobs, seq)]
    sizes = ",".join(str(len(line)) for line in lines)
    return f'{{"op":"add","sizes":[{sizes}],"jobs":[{b",".join(lines).decode("ascii")}]}}'


def repeated(new: Sequence[NewJob]) -> list[str]:
    """The ids that come more than once."""
    ids = [item.job.id for item in new]
    if len(set(ids)) == len(ids):
        return []
    seen: set[str] = set()
    return list(dict.fromkeys(job_id for job_id in ids if job_id in seen or seen.add(job_id)))  # type: ignore[func-returns-value]
